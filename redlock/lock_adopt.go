package redlock

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// Adopt returns a Lock acquired, or last extended, and handed over by another
// process: the resource, the token, the TTL and the end of the validity. It
// asks no node; Extend and Release find out whether the lock is still held. The
// client must have the Config.Owner of the first client with the lock. The
// error is ErrResource or ErrTTL.
//
// until is trusted, so it must come from a clock of both processes, never from
// another machine. A parsed time has only the wall clock (R4): with another
// clock, such as CLOCK_BOOTTIME, pass time.Now plus the smallest remainder by
// any. With an until of zero, or later than the TTL allows, the lock has no
// validity and can only be released.
//
// The first process may still use its own Lock. An extension does not count on
// a node now in quarantine (R23). Lock.Fence is 0: pass the number on too.
func (c *Client) Adopt(resource string, token Token, ttl time.Duration, until time.Time) (Lock, error) {
	c.made()
	ttl, err := c.config.checkLock(c.plain(), resource, ttl)
	if err != nil {
		return Lock{}, named(resource, err)
	}
	if longest := ttl - pure.Drift(ttl, c.config.DriftFactor); pure.Remaining(until, time.Now()) > longest {
		until = time.Time{}
	}
	// Any node may have the key, perhaps since its quarantine. Receipt.Pos is
	// zero, the first: a release is repeated after the end of its connection.
	every := multiplex.All(len(c.config.Nodes))
	anywhere := multiplex.Receipt{Sent: every, Doubted: every}
	lock := c.wanted(c.plain(), resource, ttl)
	lock.grant.Token, lock.grant.Receipt, lock.until = wire.Veil(token), anywhere, until
	return lock, nil
}
