package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Held returns the holds of this client before their release, including those
// of Do, ordered by resource. HoldInfo.Err says why one has ended; its work may
// still run. Locks without a hold are not included. Held asks no node.
func (c *Client) Held() []HoldInfo {
	c.made()
	var all []HoldInfo
	for _, h := range c.keeper.kept() {
		err := h.Err()
		if err == ErrReleased {
			continue // the release is under way
		}
		all = append(all, HoldInfo{Resource: h.Resource(), Since: h.begun.at, Until: h.end(), Err: err})
	}
	slices.SortFunc(all, func(a, b HoldInfo) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), a.Since.Compare(b.Since))
	})
	return all
}

// Drain is the first step of a shutdown, before Close. From then on new locks
// are refused with ErrClosed, also to waiting callers. Drain waits for the
// release of every hold, and so for the work of every Do. Until then the holds
// are renewed as before, and the work under them can acquire more locks, with a
// context that comes from a hold's.
//
// If ctx ends first, the error is a CancelledError, and Held returns what is
// still held; to stop its work, cancel the work's context. After Close the
// error is ErrClosed. Drain cannot be undone.
func (c *Client) Drain(ctx context.Context) error {
	c.called(ctx)
	c.refuse()
	drained := c.keeper.drain()
	select {
	case <-drained:
		return nil // even if ctx has ended
	default:
	}
	select {
	case <-drained:
		return nil
	case <-c.group.Done():
		return ErrClosed
	case <-ctx.Done():
		return cancelledError(ctx, fmt.Errorf("redlock: %d holds are not released", len(c.Held())))
	}
}

// refuse makes the client refuse new locks from now on, except to the work
// under a hold.
func (c *Client) refuse() {
	if c.refusing.CompareAndSwap(false, true) {
		close(c.refused)
	}
}

// refuses reports whether a new lock is refused.
func (c *Client) refuses(ctx context.Context) bool {
	return c.refusing.Load() && c.outer(ctx) == nil
}

// over returns a channel, closed to end every wait for a lock.
func (c *Client) over(ctx context.Context) <-chan struct{} {
	if c.outer(ctx) != nil {
		return c.group.Done()
	}
	return c.refused
}
