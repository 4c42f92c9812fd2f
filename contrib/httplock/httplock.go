// Package httplock has a middleware for net/http that handles the requests with
// one key one after another, in all processes of a service, by locks of package
// redlock. A key is what must not be done twice at a time: an idempotency key,
// a user, an order.
//
//	one, err := httplock.New(client, httplock.Options{
//		Key: func(r *http.Request) string { return r.Header.Get("Idempotency-Key") },
//	})
//	mux.Handle("POST /payments", one(payments))
//
// The lock keeps requests apart; it remembers nothing. A service that answers a
// repeated request with its first answer stores that answer, and looks for it
// under the lock.
package httplock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/redmux/redmux/contrib/internal/door"
	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// Options configure New. Key must be set.
type Options struct {
	// Key returns what a request is locked under: any bytes, of any length. A
	// request with the key "" is handled without a lock. Do not take a key from
	// a stranger's request as it is, since a stranger could lock the keys of
	// others: put the authenticated user in front of it.
	Key func(*http.Request) string
	// Prefix precedes the keys. If zero, "http:". At most 953 bytes, without
	// ":redlock:".
	Prefix string
	// TTL is how long a lock outlives a process that dies. A process that lives
	// renews its lock, however long the request takes. If zero, 30 s.
	TTL time.Duration
	// Wait is how long a request waits while another with its key is handled,
	// here or in another process, and is then refused. If zero, a tenth of a
	// second: the other may have just been answered, and its lock is about to
	// be released. Requests that wait cost memory and connections, so limit
	// them.
	Wait time.Duration
	// RetryAfter is sent with each refusal, in whole seconds, rounded up. If
	// zero, one second.
	RetryAfter time.Duration
	// Refuse answers a request that did not get its lock; the header
	// Retry-After is set already. err is redlock.ErrHeld by errors.Is if
	// another request with the key is being handled, and perhaps a
	// *redlock.HeldError with the Owner that does it; otherwise it is
	// one of the other errors of redlock.Locker.DoWith. If nil, the answer is
	// 409 (Conflict) for ErrHeld and 503 (Service Unavailable) for others, with
	// no particulars.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Failed is called if a lock was lost while its request was handled
	// (redlock.ErrLost), or could not be released; then the next request with
	// this key may have to wait for the TTL. The response may have been sent.
	// If nil, nothing is called.
	Failed func(r *http.Request, err error)
}

// New returns a middleware. It asks no node. The error is for invalid options.
//
// The handler's request has a context that also ends when the lock is lost,
// with redlock.ErrLost as the cause, before another process can handle a
// request with this key. The handler must then stop; what it has already sent
// elsewhere may still take effect, unless that compares the fencing number
// (contrib/fencing takes it from this context).
//
// The lock is released when the handler has returned, also if it panics, and
// if the client has gone away. net/http sends what is left of a short response
// after that, so the client's next request finds the lock free; a handler that
// flushes, or writes more than a few kilobytes, is read earlier. A handler that
// hijacks its connection loses the lock when it returns.
//
// The client of redlock must be open while requests are handled: shut the
// http.Server down before it. A request that waits for its lock stops waiting
// when its client has gone away.
func New(client *redlock.Client, options Options) (func(http.Handler) http.Handler, error) {
	door.Must(client != nil, "httplock: the client is nil")
	o := options
	o.Prefix = cmp.Or(o.Prefix, "http:")
	o.TTL = cmp.Or(o.TTL, 30*time.Second)
	o.Wait = cmp.Or(o.Wait, 100*time.Millisecond)
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Second)
	if o.Refuse == nil {
		o.Refuse = refuse
	}
	if o.Key == nil {
		return nil, errors.New("httplock: Key is not set")
	}
	if err := cmp.Or(
		errtext.Negative("TTL", o.TTL), errtext.Negative("Wait", o.Wait), errtext.Negative("RetryAfter", o.RetryAfter),
	); err != nil {
		return nil, fmt.Errorf("httplock: %w", err)
	}
	if err := resource.CheckPrefix("httplock", o.Prefix); err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		door.Must(next != nil, "httplock: the handler is nil")
		return &handler{client, o, next}
	}, nil
}

type handler struct {
	client  *redlock.Client
	options Options
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o := &h.options
	key := o.Key(r)
	if key == "" {
		h.next.ServeHTTP(w, r)
		return
	}
	called := false
	err := h.client.Lock(resource.Name(o.Prefix, key)).DoWith(r.Context(), redlock.HoldOptions{TTL: o.TTL, MaxWait: o.Wait},
		func(ctx context.Context) error {
			called = true
			inner := r.WithContext(ctx)
			defer func() { r.MultipartForm = inner.MultipartForm }() // net/http removes its files
			h.next.ServeHTTP(w, inner)
			return nil
		})
	switch {
	case err == nil:
	case !called:
		seconds := (o.RetryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		o.Refuse(w, r, err)
	case o.Failed != nil:
		o.Failed(r, err)
	}
}

// refuse is the default of Options.Refuse.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, redlock.ErrHeld) {
		http.Error(w, "a request with this key is being handled", http.StatusConflict)
		return
	}
	http.Error(w, "the request cannot be locked", http.StatusServiceUnavailable)
}
