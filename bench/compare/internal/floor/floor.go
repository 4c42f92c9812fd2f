// Package floor measures a lower bound: the least time in which a lone caller in Go can acquire and release a lock on N
// masters. It sends what any Redlock must send and waits for what any Redlock must wait for, with system calls on sockets of
// its own and nothing else: no goroutine, no netpoller, no lock, no allocation, no timer, no validity. What a real client
// takes beyond it is the price of being one, and the part that could still be gained.
//
// It is an instrument and not a client. It has no vote timeout: a master that does not answer costs nothing as long as a
// quorum does and the unanswered commands fit into its socket's buffer (some hundreds), and then an error after ten seconds. A caller locks its goroutine to its thread (runtime.LockOSThread)
// for as long as it measures, so that the scheduler never moves it. The system calls are made behind the scheduler's back,
// as it would otherwise give the caller's processor to others and charge the caller for getting it back; so for as long as
// the masters think, they hold up this process's garbage collector. That is right for a process that does nothing else,
// and wrong for any other.
package floor

import "errors"

var (
	// ErrHeld is returned when too few masters granted the lock. What was granted has been released.
	ErrHeld = errors.New("floor: resource is held")
	// ErrNotHeld is returned when too few masters had the key to release.
	ErrNotHeld = errors.New("floor: lock is not held any more")

	errPatience = errors.New("no answer in time")
	errClosed   = errors.New("floor: closed")
)

// Waiting says how a caller waits for the replies of the masters.
type Waiting int

const (
	// Any waits for whichever masters answer first, with epoll_wait, and reads those that have answered.
	Any Waiting = iota
	// InOrder reads from one master after the other, and sleeps in that, until the outcome is decided; those that were not
	// needed are read in passing, later. It needs the fewest system calls. A slow first master delays it, so no client can
	// do so, but none can beat it while the masters are alike.
	InOrder
	// Spin asks all masters again and again without ever sleeping. It shows what that would gain, and costs a processor.
	Spin
)

func (w Waiting) String() string {
	return [...]string{"any", "in order", "spin"}[w]
}
