package redlock

import (
	"context"
	"errors"
)

// ErrNested is returned by Acquire, Hold and Do when ctx comes from the context
// of a hold, or of Do, on the same resource: the call would wait for a lock that
// is held until it returns. Locks are not reentrant. TryAcquire returns ErrHeld.
var ErrNested = errors.New("redlock: the context's own hold has the lock, and would be waited for without end")

// nested reports whether ctx comes from that of a hold of the resource that
// lasts. It allocates nothing.
func (c *Client) nested(ctx context.Context, resource string) bool {
	for h := c.outer(ctx); h != nil; h = c.outer(h.inner) { // which has the values of what Hold was called with
		if h.Resource() == resource && h.Err() == nil {
			return true
		}
	}
	return false
}
