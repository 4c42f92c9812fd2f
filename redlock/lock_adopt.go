package redlock

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// Adopt returns a Lock that another process acquired, or has extended, and
// handed over: the resource, the token, the TTL and the end of the validity. It
// asks no node; Extend and Release find out whether the lock is still held. The
// client must have the Config.Owner of the one that was granted the lock. The
// error is ErrResource or ErrTTL.
//
// until is trusted, so it must come from a clock that both processes share,
// never from another machine. A time that was parsed has only the wall clock
// (R4): if there is another clock, such as CLOCK_BOOTTIME, pass time.Now plus
// the smallest remainder by any. If until is zero, or later than the TTL
// allows, the lock has no validity and can only be released.
//
// The first process may still use its own Lock. An extension does not count on
// a node that is quarantined now (R23). Lock.Fence is 0: pass the number on
// too.
func (c *Client) Adopt(resource string, token Token, ttl time.Duration, until time.Time) (Lock, error) {
	c.made()
	ttl, err := c.config.checkLock(c.plain(), resource, ttl)
	if err != nil {
		return Lock{}, named(resource, err)
	}
	if longest := ttl - pure.Drift(ttl, c.config.DriftFactor); pure.Remaining(until, time.Now()) > longest {
		until = time.Time{}
	}
	// Any node may have the key, and may have got it while it was quarantined.
	// Receipt.Pos is zero, the first, so that a release is repeated if its
	// connection ends.
	every := multiplex.All(len(c.config.Nodes))
	anywhere := multiplex.Receipt{Sent: every, Doubted: every}
	lock := c.wanted(c.plain(), resource, ttl)
	lock.grant.Token, lock.grant.Receipt, lock.until = wire.Veil(token), anywhere, until
	return lock, nil
}
