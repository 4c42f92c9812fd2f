package redlock

import "github.com/redmux/redmux/redlock/internal/kind"

// MaxPermits is the most permits that a semaphore may have.
const MaxPermits = kind.MaxPermits

// Semaphore returns the Locker of a semaphore: up to so many callers, 1 to
// MaxPermits, hold one of its permits at a time. Each permit is a lock. Make
// the Locker once and keep it: it remembers which permit was free last.
//
// All clients must name the same number of permits. While they do not, no more
// are held than the highest of their numbers; see docs/guide.md. Nothing keeps
// callers that hold several permits from waiting for each other.
//
// The error is ErrResource for another number of permits. They have the keys
// name#0, name#1 and so on, which exclude plain locks on them, and no fencing
// number.
func (c *Client) Semaphore(name string, permits int) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Permit(permits), name: name}
}
