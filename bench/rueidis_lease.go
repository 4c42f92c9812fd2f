package bench

import (
	"context"
	"time"

	"github.com/redmux/redmux/redlock"
)

// RueidisLease is a lock that a [Rueidis] granted: a plain value.
type RueidisLease struct {
	round    *round
	number   uint64 // the round's lease of this life
	resource string
	token    redlock.Token
	until    time.Time
	timeout  time.Duration
}

// Until is the end of the validity.
func (l RueidisLease) Until() time.Time { return l.until }

// Token identifies this grant on the nodes.
func (l RueidisLease) Token() redlock.Token { return l.token }

// Resource is what is locked.
func (l RueidisLease) Resource() string { return l.resource }

// Release gives the lock back on every node and waits until the outcome is
// decided, or with WaitAll until every node has answered, but no longer than a
// vote may take or ctx lasts. It returns nil when a quorum still held the
// token, redlock.ErrNotHeld when too many said otherwise and
// redlock.ErrNoQuorum when neither is known (R9). When it returns because ctx
// ended, the release goes on without it. A second Release is
// redlock.ErrNotHeld and sends nothing: the first one has done so.
func (l RueidisLease) Release(ctx context.Context) error {
	r := l.round
	if r == nil || !r.lease.CompareAndSwap(l.number, l.number+1) {
		return redlock.ErrNotHeld
	}
	r.release()
	r.await(ctx, r.delsIn, l.timeout)
	c, n, quorum := r.dels.counts(), len(r.parts), r.owner.quorum
	r.drop()
	switch {
	case c.granted >= quorum:
		return nil
	case c.refused > n-quorum:
		return redlock.ErrNotHeld
	case c.granted+c.refused+c.failed < n && ctx.Err() != nil:
		return ctx.Err()
	default:
		return redlock.ErrNoQuorum
	}
}
