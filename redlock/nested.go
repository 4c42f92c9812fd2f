package redlock

import (
	"context"
	"errors"
)

// ErrNested is returned by Acquire, Hold and Do when ctx comes from the context
// of a hold, or of Do, on the same resource: the call would wait for a lock that
// is held until it returns. Locks are not reentrant. TryAcquire returns ErrHeld.
var ErrNested = errors.New("redlock: the context's own hold has the lock, and would be waited for without end")

// holdKey is what the context of a hold, and that of Do, have the Hold under.
type holdKey struct{}

// nested reports whether ctx comes from that of a hold of the resource that
// lasts. It allocates nothing.
func (c *Client) nested(ctx context.Context, resource string) bool {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	for h != nil {
		if h.client == c && h.Resource() == resource && h.Err() == nil {
			return true
		}
		h, _ = h.inner.Value(holdKey{}).(*Hold) // what the hold was called with
	}
	return false
}
