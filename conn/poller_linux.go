//go:build !redmux_portable

package conn

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A Poller waits for many connections at once, on behalf of one goroutine at a time. It is an epoll instance of its own,
// whose descriptor is itself known to Go's poller: a goroutine that waits is parked as in any read from the network, no
// thread is held, and whoever waits reads the replies without being handed them by another goroutine.
//
// Kick is a write to an eventfd and not a deadline in the past: it is an event like the others, and none is lost.
//
// Wait belongs to one goroutine at a time. Kick may be called by any, Add and Remove too, for different connections.
type Poller struct {
	epoll  *os.File
	raw    syscall.RawConn
	fd     int // of epoll
	kicker int // an eventfd: each write to it is an event, and nobody ever reads it

	conns []atomic.Pointer[Conn] // by ID
	kicks atomic.Bool            // Kick was called
	full  atomic.Int32           // writers that wait for room

	// The following are owned by whoever waits.
	look    func(fd uintptr) bool // made once, so that Wait allocates nothing
	looks   int
	ready   []syscall.EpollEvent
	found   int
	events  []Event
	hasRead bool // the only connection was read from while we looked; see lookAtOne
	hurried bool // Look was called

	polls []pollfd // owned by the caller of Readable
}

// A pollfd is what ppoll is given for one descriptor.
type pollfd struct {
	fd      int32
	events  int16
	revents int16
}

const pollIn = 0x1 // POLLIN

const (
	// kicked is the ID of the eventfd's events.
	kicked = -1
	// wanted are the events of a connection with an empty backlog. An error or the end of it is an event in any case.
	wanted = syscall.EPOLLIN | syscall.EPOLLRDHUP
	// endings are those of a connection that nothing more will come from.
	endings = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
)

// NewPoller makes a Poller for up to n connections, with the IDs from 0 to n−1. It fails where the system has none
// (errors.ErrUnsupported) or gives no descriptors for one. Close frees it.
func NewPoller(n int) (*Poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("conn: no epoll instance: %w", err)
	}
	// os.NewFile gives a descriptor to Go's poller only if it does not block.
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("conn: epoll instance: %w", err)
	}
	p := &Poller{
		epoll:  os.NewFile(uintptr(fd), "epoll"),
		fd:     fd,
		conns:  make([]atomic.Pointer[Conn], n),
		ready:  make([]syscall.EpollEvent, n+1),
		events: make([]Event, 0, n),
		polls:  make([]pollfd, n),
	}
	p.look = p.lookNow
	if err := p.begin(); err != nil {
		_ = p.epoll.Close()
		return nil, err
	}
	return p, nil
}

func (p *Poller) begin() (err error) {
	if p.raw, err = p.epoll.SyscallConn(); err != nil {
		return fmt.Errorf("conn: epoll instance: %w", err)
	}
	// Deadlines work only where Go's poller has taken the descriptor; without it nobody could wait.
	if err := p.epoll.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("conn: epoll instance: %w", err)
	}
	kicker, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return fmt.Errorf("conn: no eventfd: %w", errno)
	}
	p.kicker = int(kicker)
	if err := p.control(syscall.EPOLL_CTL_ADD, p.kicker, kicked, syscall.EPOLLIN); err != nil {
		_ = syscall.Close(p.kicker)
		return err
	}
	return nil
}

// control changes which events of a descriptor are wanted. All are told once, when they come about: a descriptor that
// was read until nothing was left then costs nothing more.
func (p *Poller) control(op, fd, id int, events uint32) error {
	const edge = 1 << 31 // EPOLLET, which the package syscall has as a negative number
	event := syscall.EpollEvent{Events: events | edge, Fd: int32(id)}
	if err := syscall.EpollCtl(p.fd, op, fd, &event); err != nil {
		return fmt.Errorf("conn: epoll: %w", err)
	}
	return nil
}

// Wait waits until something happens to a connection, or until Kick; then there may be no events. The events are valid
// until the following call. waited says that there was nothing at first, so that what is there now has only just come.
func (p *Poller) Wait() (events []Event, waited bool, err error) {
	p.found, p.looks = 0, 0
	if err := p.raw.Read(p.look); err != nil {
		return nil, false, err // the Poller was closed
	}
	events = p.events[:0]
	if p.hasRead {
		p.hasRead = false
		return append(events, Event{Readable: true}), p.looks > 1, nil
	}
	for i := range p.ready[:p.found] {
		e := &p.ready[i]
		if e.Fd == kicked {
			p.kicks.Store(false) // one that comes meanwhile need not be told again: whoever waits looks around now
			continue
		}
		if c := p.conns[e.Fd].Load(); c != nil && e.Events&endings != 0 {
			c.ending = true
		}
		events = append(events, Event{
			ID:       int(e.Fd),
			Readable: e.Events&^syscall.EPOLLOUT != 0,
			Writable: e.Events&syscall.EPOLLOUT != 0,
		})
	}
	return events, p.looks > 1, nil
}

// Look is Wait, but does not wait: there may be no events.
func (p *Poller) Look() (events []Event, err error) {
	p.hurried = true
	defer func() { p.hurried = false }()
	events, _, err = p.Wait()
	return events, err
}

// Readable returns which of the connections hold bytes that were not read, or have ended: bit i stands for the ID i, in the
// argument and in the result. It never waits, and takes no event from Wait. It asks with one system call for all of them. One
// caller at a time; the connections' owners go on meanwhile.
func (p *Poller) Readable(ids uint64) (readable uint64) {
	var using [64]*descriptor
	for i := range p.polls {
		p.polls[i] = pollfd{fd: -1} // is not looked at
		c := p.conns[i].Load()
		if ids>>uint(i)&1 == 0 || c == nil {
			continue
		}
		if d := c.polled.Load(); d.use() {
			using[i] = d
			p.polls[i] = pollfd{fd: int32(d.fd), events: pollIn}
		}
	}
	var noTime syscall.Timespec
	// The call returns at once, so the scheduler need not know of it.
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p.polls[0])), uintptr(len(p.polls)),
		uintptr(unsafe.Pointer(&noTime)), 0, 0, 0)
	for i, d := range using[:len(p.polls)] {
		if d == nil {
			continue
		}
		d.done()
		if errno != 0 || p.polls[i].revents != 0 {
			readable |= 1 << uint(i)
		}
	}
	return readable
}

// lookNow asks without waiting, and reports whether there is anything. It is called anew each time that Go's poller sees
// a change of the epoll instance.
func (p *Poller) lookNow(fd uintptr) bool {
	p.looks++
	if len(p.conns) == 1 && p.full.Load() == 0 {
		if c := p.conns[0].Load(); c != nil {
			return p.lookAtOne(c) || p.hurried
		}
	}
	// The call returns at once, so the scheduler need not know of it.
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, fd,
			uintptr(unsafe.Pointer(&p.ready[0])), uintptr(len(p.ready)), 0, 0, 0)
		if errno == syscall.EINTR {
			continue // an event that was not looked for would not be told again
		}
		if errno == 0 {
			p.found = int(n)
		}
		return p.found > 0 || p.hurried
	}
}

// lookAtOne is lookNow for a single connection: a read instead of the question whether there is something to read, which
// saves a lone caller one of five system calls. The epoll instance still wakes us, though nobody takes its events.
func (p *Poller) lookAtOne(c *Conn) bool {
	if p.kicks.Swap(false) {
		return true
	}
	p.hasRead = c.readEarly()
	return p.hasRead
}

// Kick ends a Wait that is under way, or else the following one. It never waits.
func (p *Poller) Kick() {
	p.kicks.Store(true)
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.kicker), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

// Add takes a connection over, which must be in use by nobody at the moment: from now on it is read with FillNow, when an
// event says so, and Fill is not to be called any more. Events may come before Add returns. It reports false, and changes
// nothing, for what cannot be polled: TLS, a net.Conn of unknown kind, a connection that is broken or still writes.
func (p *Poller) Add(c *Conn, id int) bool {
	s, plain := c.link.(*socket)
	if !plain || c.pending.Load() != 0 {
		return false
	}
	d, err := newDescriptor(s, p, id)
	if err != nil {
		return false
	}
	if !c.relink(d, d) {
		d.free()
		return false
	}
	p.conns[id].Store(c)
	if err := p.control(syscall.EPOLL_CTL_ADD, d.fd, id, wanted); err != nil {
		p.conns[id].Store(nil)
		if c.relink(s, nil) {
			d.free()
		} else {
			_ = s.shut(true) // what broke it meanwhile knows of d only, which Close frees
		}
		return false
	}
	// The socket leaves Go's own poller, which would otherwise look at it for each reply.
	_ = s.Conn.Close()
	return true
}

// Remove ends the polling of a connection: no event of it comes any more.
func (p *Poller) Remove(c *Conn) {
	d := c.polled.Load()
	p.conns[d.id].CompareAndSwap(c, nil)
	_ = p.control(syscall.EPOLL_CTL_DEL, d.fd, d.id, 0) // an error says that it is gone already
}

// Close frees the Poller's descriptors. Nobody may wait or kick any more.
func (p *Poller) Close() error {
	return errors.Join(p.epoll.Close(), syscall.Close(p.kicker))
}
