package redlock

import "github.com/redmux/redmux/redlock/internal/wire"

// MaxResources is the most resources of one lock.
const MaxResources = wire.MaxResources

// All returns the Locker of one lock on 1 to MaxResources resources: it is
// granted on all of them, or none is locked. Their order does not matter. Each
// other client sees each of them as held, in any call. A waiting caller holds
// none of them: so callers cannot block each other, but one that wants many may
// wait for long if others keep taking some.
//
// ErrHeld is a *HeldError, with a resource in the way and the Config.Owner of
// its holder. Calls return ErrResource for too many resources, none, or one
// twice. For a single one, it is Client.Lock.
func (c *Client) All(resources ...string) Locker {
	c.made()
	k, text := c.kinds.All(resources)
	return Locker{client: c, kind: k, name: text}
}
