package floor

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Supported says whether this system has a floor.
const Supported = true

// Floor is a lone caller with one connection to each master. It is not for use by several goroutines at once.
type Floor struct {
	// Wait is how it waits. It may be changed between two calls of Pair. If zero, Any.
	Wait Waiting

	conns  []*connection
	poll   int // the epoll instance of all connections
	events []unix.EpollEvent

	sent         uint64 // commands sent to each master
	token        token
	set, release []byte // encoded; the room is kept
	patience     time.Duration
	broken       error // why no further Pair can be: replies and commands no longer belong together
}

const (
	// defaultPatience is the longest wait for a quorum. It costs an epoll_wait no more than no bound would.
	defaultPatience = 10 * time.Second
	// drainEvery is how many commands go by until the replies that nobody waited for are read, where nothing else reads them.
	drainEvery = 128
)

// Open connects to every master and makes it know the script of the release. The URLs are as for redlock.Config, without TLS.
func Open(urls []string) (*Floor, error) {
	if len(urls) == 0 {
		return nil, errors.New("floor: no masters")
	}
	// Until there is an epoll instance Close must not close descriptor 0.
	f := &Floor{poll: -1, events: make([]unix.EpollEvent, len(urls)), token: newToken(), patience: defaultPatience}
	for _, raw := range urls {
		c, err := dial(raw)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("floor: %w", err), f.Close())
		}
		f.conns = append(f.conns, c)
	}
	if err := f.watch(); err != nil {
		return nil, errors.Join(fmt.Errorf("floor: %w", err), f.Close())
	}
	return f, nil
}

// watch puts the connections into an epoll instance. An event names its connection by the index, in the place of the
// descriptor.
func (f *Floor) watch() (err error) {
	if f.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	for i, c := range f.conns {
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(f.poll, unix.EPOLL_CTL_ADD, c.socket, &event); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	return nil
}

// Pair acquires the lock on a quorum and releases it on a quorum. It waits for no more answers than that: later ones are
// read by later calls, and belong to their commands because each connection's are counted. ErrHeld and ErrNotHeld leave the
// Floor usable; any other error is also that of all later calls.
func (f *Floor) Pair(resource string, ttl time.Duration) error {
	switch {
	case f.broken != nil:
		return f.broken
	case ttl < time.Millisecond:
		return errors.New("floor: the TTL is below a millisecond")
	}
	f.token.next()
	f.set = appendSet(f.set[:0], resource, &f.token, ttl)
	if err := f.send(f.set); err != nil {
		return f.fail(err)
	}
	// The masters are at work meanwhile.
	f.release = appendRelease(f.release[:0], resource, &f.token)
	acquired, err := f.wait()
	if err != nil {
		return f.fail(err)
	}
	// What was granted is released in any case: on each connection this stands behind the SET.
	if err := f.send(f.release); err != nil {
		return f.fail(err)
	}
	released, err := f.wait()
	switch {
	case err != nil:
		return f.fail(err)
	case !acquired:
		return ErrHeld
	case !released:
		return ErrNotHeld
	}
	return nil
}

// Close closes the connections. Locks whose release was sent are released nonetheless.
func (f *Floor) Close() error {
	var errs []error
	for _, c := range f.conns {
		errs = append(errs, unix.Close(c.socket))
	}
	if f.poll >= 0 {
		errs = append(errs, unix.Close(f.poll))
	}
	f.conns, f.poll, f.broken = nil, -1, errClosed
	return errors.Join(errs...)
}

// fail keeps the first error for all later calls: after it nobody knows which replies are still to come.
func (f *Floor) fail(err error) error {
	f.broken = err
	return err
}

// send writes the command to all masters, one system call for each: there is none that writes to several sockets.
func (f *Floor) send(command []byte) error {
	f.sent++
	for _, c := range f.conns {
		if err := c.write(command); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until the outcome of the last command is decided, and reports whether a quorum granted it.
func (f *Floor) wait() (granted bool, err error) {
	var v votes
	switch {
	case f.Wait == Spin:
		err = f.spin(&v)
	case f.Wait == InOrder || len(f.conns) == 1: // with one master, any is that one, and asking epoll first is a call too many
		err = f.waitInOrder(&v)
	default:
		err = f.waitForAny(&v)
	}
	return v.granted > len(f.conns)/2, err
}

// waitForAny sleeps in epoll_wait. It is level-triggered, so that a reply which was not needed, and comes after the decision,
// shows itself again at the next wait; one call of recvfrom per event then reads all that a master has said.
func (f *Floor) waitForAny(v *votes) error {
	for !v.decided(len(f.conns)) {
		n, err := epollWait(f.poll, f.events, f.patience)
		if err != nil {
			return err
		}
		// All that are ready are read, even when the first of them decide: else they would end the next wait too early.
		for i := range f.events[:n] {
			if err := f.receive(f.conns[f.events[i].Fd], 0, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitInOrder sleeps in recvfrom, on one master after the other: as few calls as the quorum has masters. The masters work at
// the same time, since all were asked before, so the sum of the waits is that for the slowest of them.
func (f *Floor) waitInOrder(v *votes) error {
	n := len(f.conns)
	for _, c := range f.conns {
		for c.answered < f.sent {
			if err := f.receive(c, 0, v); err != nil {
				return err
			}
		}
		if v.decided(n) {
			break
		}
	}
	// Without this the others' replies would pile up in the kernel until those masters could write no more.
	if f.sent%drainEvery != 0 {
		return nil
	}
	for _, c := range f.conns {
		if c.answered == f.sent {
			continue
		}
		if err := f.receive(c, unix.MSG_DONTWAIT, v); err != nil {
			return err
		}
	}
	return nil
}

// spin asks those that have not answered, without sleeping. It looks at the clock so rarely that it costs nothing, but it
// does look: a process that spins for ever cannot even be told to end by its own timers.
func (f *Floor) spin(v *votes) error {
	const sweeps = 10_000
	deadline := time.Time{}
	for i := 1; !v.decided(len(f.conns)); i++ {
		for _, c := range f.conns {
			if c.answered == f.sent {
				continue
			}
			if err := f.receive(c, unix.MSG_DONTWAIT, v); err != nil {
				return err
			}
		}
		if i%sweeps != 0 {
			continue
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(f.patience)
		} else if time.Now().After(deadline) {
			return fmt.Errorf("floor: %w (%v)", errPatience, f.patience)
		}
	}
	return nil
}

// receive reads once from c. A connection votes when the answer to the last command is in, which is once per command.
func (f *Floor) receive(c *connection, flags int, v *votes) error {
	before := c.answered
	if err := c.read(flags, f.sent); err != nil {
		return err
	}
	switch {
	case c.answered == before || c.answered < f.sent:
	case c.granted:
		v.granted++
	default:
		v.refused++
	}
	return nil
}
