package redlock

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// Adopt returns a Lock that another process acquired, or has extended, and
// handed over: the resource, the token, the TTL and the end of the validity.
// It asks no node; Extend and Release find out whether the nodes still have
// the lock. The error is ErrResource or ErrTTL. The client must have the
// Config.Owner of the client that was granted the lock, which is a part of the
// value of its keys: otherwise the nodes find that the lock is not ours.
//
// until is trusted, so it must come from a clock that this process shares,
// never from another machine. A time that was parsed has only the wall clock,
// and if that clock is stepped back, the lock looks valid for too long (R4). If
// the two processes share another clock, such as CLOCK_BOOTTIME on one machine,
// pass time.Now plus the smallest remainder by any clock. If until is zero, or
// later than the TTL allows, the lock has no validity and can only be released.
//
// An adopted lock is extended as any other: before its validity has ended
// (R10). It is unknown which nodes were quarantined when they got the key, so
// no extension counts on a node that is quarantined now (R23). Unless
// Config.Forgetful is set, a new client may need some time until nodes count;
// see Ready.
//
// A release goes to every node. If the first process has ended, the release may
// overtake the SET on a node that did not answer; the key then stays there
// until its TTL ends (R8). The first process may still use its own Lock, whose
// validity is unchanged, even after the adopted one was extended or released.
//
// An adopted lock does not know its fencing number: Lock.Fence returns 0.
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
