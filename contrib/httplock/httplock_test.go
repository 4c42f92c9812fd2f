package httplock_test

import (
	"bytes"
	"context"
	"errors"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/contrib/httplock"
	"github.com/redmux/redmux/contrib/internal/lost/losttest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func byKey(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

// service makes one process of a service.
func service(t *testing.T, client *redlock.Client, o httplock.Options, handle http.HandlerFunc) http.Handler {
	t.Helper()
	if o.Key == nil {
		o.Key = byKey
	}
	one, err := httplock.New(client, o)
	require.NoError(t, err)
	return one(handle)
}

// ask sends a request with a key, and returns the answer.
func ask(ctx context.Context, h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/payments", nil).WithContext(ctx)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Every key is served, also one whose lock would have the name of another key
// of the masters.
func TestKeysThatNoLockHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		for _, fenced := range []bool{false, true} {
			h := service(t, d.Client(t, func(c *redlock.Config) { c.Fenced = fenced }), httplock.Options{},
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			for _, key := range []string{"fence", "order:fence", "order:redlock:mark", strings.Repeat("k", 2000)} {
				require.Equal(t, http.StatusNoContent, ask(t.Context(), h, key).Code, key)
			}
		}
		_, err := httplock.New(d.Client(t), httplock.Options{Key: byKey, Prefix: "app:redlock:"})
		require.ErrorContains(t, err, "httplock: Prefix")
	})
}

// Requests with one key in several processes are handled one at a time: those
// that do not wait are refused, those that wait are handled later.
func TestOneAtATime(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d := redlocktest.New(t, 3)
			var running, most, handled, refused atomic.Int32
			handle := func(w http.ResponseWriter, r *http.Request) {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				time.Sleep(time.Second)
				w.WriteHeader(http.StatusNoContent)
			}
			var wg sync.WaitGroup
			for range 10 {
				h := service(t, d.Client(t), httplock.Options{Wait: wait}, handle)
				wg.Go(func() {
					switch w := ask(t.Context(), h, "k"); w.Code {
					case http.StatusNoContent:
						handled.Add(1)
						require.Empty(t, w.Header().Get("Retry-After"))
					case http.StatusConflict:
						refused.Add(1)
						require.Equal(t, "1", w.Header().Get("Retry-After"))
					default:
						t.Error(w.Code, w.Body)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, most.Load())
			if wait == 0 {
				require.EqualValues(t, 1, handled.Load())
				require.EqualValues(t, 9, refused.Load())
			} else {
				require.EqualValues(t, 10, handled.Load())
			}
		})
	}
}

// Other keys, and requests without one, do not wait. Names and prefixes are
// what they are.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var keys []string
		var inner http.HandlerFunc
		h := service(t, d.Client(t), httplock.Options{}, func(w http.ResponseWriter, r *http.Request) {
			synctest.Wait() // a quorum has granted the lock; now all nodes have
			keys = d.Node(0).Keys()
			if inner != nil {
				inner(w, r)
			}
		})
		inner = func(w http.ResponseWriter, r *http.Request) {
			inner = nil
			_, held := redlock.FromContext(r.Context())
			require.True(t, held)
			require.Equal(t, http.StatusOK, ask(t.Context(), h, "other").Code)
			require.Equal(t, []string{"http:k", "http:other"}, keys)
			require.Equal(t, http.StatusOK, ask(t.Context(), h, "").Code)
			require.Equal(t, []string{"http:k"}, keys)
		}
		require.Equal(t, http.StatusOK, ask(t.Context(), h, "k").Code)
		_, err := d.Client(t).TryAcquire(t.Context(), "http:k", time.Second)
		require.NoError(t, err, "the lock is released before the answer is complete")
		require.Equal(t, http.StatusOK, ask(t.Context(), h, "\r\n\x00"+strings.Repeat("long", 1000)).Code)
		require.Len(t, keys, 2)
	})
}

// The request's context ends when the lock is lost, before another process can
// handle one with this key, and Failed says so.
func TestALostLockEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var failed error
		h := service(t, d.Client(t), httplock.Options{TTL: time.Second, Failed: func(_ *http.Request, err error) { failed = err }},
			func(w http.ResponseWriter, r *http.Request) {
				for _, n := range d.Nodes() {
					n.Refuse(true)
				}
				<-r.Context().Done()
				require.ErrorIs(t, context.Cause(r.Context()), redlock.ErrLost)
				w.WriteHeader(http.StatusInternalServerError)
			})
		begun := time.Now()
		require.Equal(t, http.StatusInternalServerError, ask(t.Context(), h, "k").Code)
		require.Less(t, time.Since(begun), time.Second)
		require.ErrorIs(t, failed, redlock.ErrLost)
		require.NotErrorIs(t, failed, context.Canceled, "what was lost was not cancelled")
		losttest.Require(t, failed)

		w := ask(t.Context(), h, "k")
		require.Equal(t, http.StatusServiceUnavailable, w.Code, "no quorum")
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.NotContains(t, w.Body.String(), "node", "a stranger learns nothing of the masters")
	})
}

// A lock that was lost adds nothing to what the handler has answered, also if
// there is no Failed.
func TestALostLockLeavesTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		h := service(t, d.Client(t), httplock.Options{TTL: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			for _, n := range d.Nodes() {
				n.Refuse(true)
			}
			<-r.Context().Done()
			_, err := w.Write([]byte("half"))
			require.NoError(t, err)
		})
		w := ask(t.Context(), h, "k")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "half", w.Body.String())
		require.Empty(t, w.Header().Get("Retry-After"))
	})
}

// A client that goes away ends its request, or its wait. Nothing is left
// behind, as after a panic.
func TestNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		client := d.Client(t)
		ctx, cancel := context.WithCancel(t.Context())
		h := service(t, client, httplock.Options{Wait: time.Hour}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { ask(ctx, h, "k") })
		}
		time.Sleep(time.Minute)
		cancel()
		wg.Wait()
		synctest.Wait()
		require.Empty(t, d.Node(0).Keys())

		panics := service(t, client, httplock.Options{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { ask(t.Context(), panics, "k") })
		synctest.Wait()
		require.Empty(t, d.Node(0).Keys())
	})
}

// What a handler has read of a form into files is removed with the request,
// also if the handler panics, and a handler around this one recovers.
func TestFilesOfAFormAreRemoved(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	t.Setenv("TMP", folder) // on Windows
	for _, panics := range []bool{false, true} {
		h := service(t, redlocktest.New(t, 3).Client(t, func(c *redlock.Config) { c.NodeTimeout = time.Minute }), httplock.Options{},
			func(w http.ResponseWriter, r *http.Request) {
				if r.ParseMultipartForm(0) == nil {
					files, _ := os.ReadDir(folder)
					w.Header().Set("Files", strconv.Itoa(len(files)))
				}
				if panics {
					panic("handler")
				}
			})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover() }()
			h.ServeHTTP(w, r)
		}))
		defer server.Close()
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		file, err := form.CreateFormFile("receipt", "receipt.pdf")
		require.NoError(t, err)
		_, err = file.Write(make([]byte, 11<<20)) // net/http keeps 10 MB in memory in any case
		require.NoError(t, err)
		require.NoError(t, form.Close())
		r, err := http.NewRequest(http.MethodPost, server.URL, &body)
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", "a")
		r.Header.Set("Content-Type", form.FormDataContentType())
		answer, err := server.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, "1", answer.Header.Get("Files"))
		server.Close() // waits for what the server does after its answer
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// The service answers refusals itself, with the holder's name if it wants.
func TestRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		owned := func(c *redlock.Config) { c.Owner = "web-1" }
		var h http.Handler
		h = service(t, d.Client(t, owned), httplock.Options{
			RetryAfter: 1500 * ms,
			Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
				var held *redlock.HeldError
				require.ErrorAs(t, err, &held)
				w.Header().Set("Handled-By", held.Owner)
				w.WriteHeader(http.StatusTooManyRequests)
			},
		}, func(w http.ResponseWriter, r *http.Request) {
			again := ask(context.Background(), h, "k")
			require.Equal(t, http.StatusTooManyRequests, again.Code)
			require.Equal(t, "2", again.Header().Get("Retry-After"))
			require.Equal(t, "web-1", again.Header().Get("Handled-By"))
		})
		require.Equal(t, http.StatusOK, ask(t.Context(), h, "k").Code)
	})
}

func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redlocktest.New(t, 1).Client(t)
		for says, o := range map[string]httplock.Options{
			"Key":                              {},
			"Prefix":                           {Key: byKey, Prefix: strings.Repeat("p", 954)},
			"httplock: Wait is negative: -1ns": {Key: byKey, Wait: -1},
			"TTL is negative: -1ns":            {Key: byKey, TTL: -1},
			"RetryAfter is negative: -1ns":     {Key: byKey, RetryAfter: -1},
		} {
			_, err := httplock.New(client, o)
			require.ErrorContains(t, err, says)
		}
		// A TTL that the client refuses is an answer, not a panic.
		var refused error
		h := service(t, client, httplock.Options{TTL: time.Hour, Refuse: func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err }}, nil)
		ask(t.Context(), h, "k")
		require.True(t, errors.Is(refused, redlock.ErrTTL))
	})
}
