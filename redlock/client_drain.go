package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Held returns the holds of this client that are not released yet, including
// those of Do, ordered by resource. HoldInfo.Err says why one has ended whose
// work may not have. Locks without a hold are not included. Held asks no node.
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
// are refused with ErrClosed, also to callers that are waiting for one. Drain
// waits until every hold is released, so that the work of every Do is finished.
// Until then the holds are renewed as before, and the work under them can
// acquire more locks: a call whose context derives from that of a hold is not
// refused.
//
// If ctx ends first, the error is a CancelledError, and Held returns what is
// still held; work that must stop then can be stopped by cancelling its
// context. ErrClosed is returned if the client was closed meanwhile. Drain
// cannot be undone.
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

// over returns a channel that is closed when a wait for a lock must end.
func (c *Client) over(ctx context.Context) <-chan struct{} {
	if c.outer(ctx) != nil {
		return c.group.Done()
	}
	return c.refused
}
