package redlock

import "github.com/redmux/redmux/redlock/internal/kind"

// MaxPermits is the most permits that a semaphore may have.
const MaxPermits = kind.MaxPermits

// Semaphore returns the Locker of a semaphore: up to so many callers, 1 to
// MaxPermits, hold one of its permits at a time. A permit is a lock: it expires
// after its TTL, can be extended and held, and is lost as a lock is. Make the
// Locker once and keep it: it remembers which permit was free last.
//
// All clients must name the same number of permits. While they do not, no more
// are held than the highest of their numbers. A lower number stops new grants
// at once; a higher one takes effect when the last TTL that clients with the
// lower one asked for is over. See docs/guide.md.
//
// An attempt asks for the permit that was granted last, or, where callers wait,
// for one that this client has given back; and then, up to three times, for one
// that most nodes say is free.
//
// Callers that wait are told by the nodes when a permit is given back, and some
// of them try to get it: they are not served in turn. A permit whose holder has
// died is found within a second and a half of the end of its TTL. With two or
// more permits, a caller may hold several, and nothing keeps callers from
// waiting for each other.
//
// Calls return ErrResource if the name cannot be locked, or for another number
// of permits. Those have the keys name#0, name#1 and so on, which exclude plain
// locks on them. Permits have no fencing number.
func (c *Client) Semaphore(name string, permits int) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Permit(permits), name: name}
}
