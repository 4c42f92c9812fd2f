package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redmux/redmux/redlock"
)

// RueidisLease is a lock that a [Rueidis] granted: a plain value.
type RueidisLease struct {
	round    *round
	number   uint64 // the round's lease number
	resource string
	token    redlock.Token
	until    time.Time
	timeout  time.Duration
}

// Format prints until when the lease is valid, for every verb: the token is
// secret (R27).
func (l RueidisLease) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "(lease until "+l.until.Format(time.RFC3339)+")")
}

// Until returns the end of the validity.
func (l RueidisLease) Until() time.Time { return l.until }

// Token returns the token that identifies this grant on the nodes.
func (l RueidisLease) Token() redlock.Token { return l.token }

// Resource returns the name of the locked resource.
func (l RueidisLease) Resource() string { return l.resource }

// Release releases the lock on every node. It waits until the outcome is
// decided, or with WaitAll until every node has answered, but no longer than
// the vote timeout and ctx. It returns nil if a quorum still held the token,
// redlock.ErrNotHeld if too many nodes did not, and redlock.ErrNoQuorum if
// neither is known (R9). When it returns because ctx ended, the release
// continues without it. A second Release sends nothing and returns
// redlock.ErrNotHeld.
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
