package redlock

import (
	"context"
	"errors"

	"github.com/redmux/redmux/redlock/internal/kind"
)

// FromContext returns the innermost hold that ctx comes from: for its validity,
// its token, and Hold.Err. DoWith releases the hold itself.
func FromContext(ctx context.Context) (*Hold, bool) {
	must(ctx != nil, noContext)
	in, ok := ctx.Value(holdKey{}).(*holdContext)
	if !ok {
		return nil, false
	}
	return in.hold, true
}

// A holdKey asks a context for the innermost context of a hold of one client, a
// *holdContext. A nil client stands for any client.
type holdKey struct{ client *Client }

// answers reports whether key is a holdKey for this hold.
func (h *Hold) answers(key any) bool {
	k, ok := key.(holdKey)
	return ok && (k.client == nil || k.client == h.client)
}

// outer returns the innermost context of a hold of this client that ctx comes
// from, or nil. A nil client stands for any. Those around it are found in its
// own Context. The same hold may come twice: a function may enter it under
// another hold.
func (c *Client) outer(ctx context.Context) *holdContext {
	in, _ := ctx.Value(holdKey{c}).(*holdContext)
	return in
}

// A holdContext is what Hold.Context returns, or the context of a function that
// runs under the hold. The latter derives from the caller's context, inherits
// its deadline and ends with it.
type holdContext struct {
	context.Context
	hold   *Hold
	cancel context.CancelCauseFunc // of Context
}

// Err reads the clocks, and does not wait for the goroutine that passes on the
// end of the hold. It may be called anywhere, even by the group while it holds
// its mutex: it takes no mutex but those of contexts, and does not call the
// group.
func (c *holdContext) Err() error {
	c.judge()
	return c.Context.Err()
}

// Done reads the clocks before it returns the channel: after the process was
// stopped, a select that calls Done again finds the channel closed before any
// timer has fired. Like Err, it may be called anywhere.
func (c *holdContext) Done() <-chan struct{} {
	c.judge()
	return c.Context.Done()
}

// Value reads the clocks too. Package context finds the cause by Value, so
// context.Cause reads them (TestASuspendEndsAHold would fail otherwise).
func (c *holdContext) Value(key any) any {
	if c.hold.answers(key) {
		return c
	}
	c.judge()
	return c.Context.Value(key)
}

func (c *holdContext) judge() {
	c.hold.judge()
	if cause := context.Cause(c.hold.inner); cause != nil {
		c.cancel(cause)
	}
}

// ErrNested is returned by Acquire, Hold and Do if ctx comes from a hold on the
// same resource: the call would wait for itself. TryAcquire returns ErrHeld.
// With HoldOptions.Reentrant, DoWith runs under that hold instead. A hold of
// another Client in the process counts too, in a deployment known to be the
// same.
var ErrNested = errors.New("redlock: the context of this call holds the lock already: the call would wait for itself")

// nested reports whether ctx comes from a hold of one of the resources, not yet
// ended. It allocates nothing.
func (c *Client) nested(ctx context.Context, r *request) bool {
	var any *Client
	for in := any.outer(ctx); in != nil; in = any.outer(in.Context) {
		if kind.Meets(in.hold.lock.kind, r.kind, in.hold.lock.grant.Name, r.name) && in.hold.Err() == nil && c.locksWith(in.hold.client) {
			return true
		}
	}
	return false
}

// locksWith reports whether the locks of another client of this process are
// known to exclude those of this one.
func (c *Client) locksWith(other *Client) bool {
	if c == other {
		return true
	}
	own, id := c.group.Membership().ID, other.group.Membership().ID
	return own != "" && own == id && c.config.Prefix == other.config.Prefix
}
