//go:build !redmux_portable

package conn

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A Poller waits for many connections at once. The goroutine that calls Wait
// reads the replies itself, with Fill; no other goroutine hands them over.
//
// One goroutine at a time may call Wait, Look and Fill: it owns the read side
// of every connection. Any goroutine may call Kick, and also Add and Remove, if
// no other does so for the same connection.
//
// A Poller is an epoll instance whose descriptor is registered with Go's own
// poller: a goroutine in Wait is parked as in any read from the network, and
// holds no thread. Kick writes to an eventfd instead of setting a deadline in
// the past, so it is an event like the others and none is lost.
type Poller struct {
	epoll  *os.File
	raw    syscall.RawConn
	fd     int // of epoll
	kicker int // an eventfd: each write is an event; it is never read

	conns []atomic.Pointer[Conn] // by ID
	kicks atomic.Bool            // Kick was called
	added atomic.Uint64          // IDs of those that may hold earlier bytes
	full  atomic.Int32           // writers that wait for room

	// The following are owned by the goroutine that calls Wait.
	look    func(fd uintptr) bool // made once, so that Wait allocates nothing
	looks   int
	ready   []syscall.EpollEvent
	found   int
	events  []Event
	hasRead bool // lookAtOne has read from the only connection
	hurried bool // Look was called

	// The following are owned by the goroutine that calls Readable. They are
	// large for the stack: that of each caller would be twice as large.
	polls []pollfd
	using []*descriptor // of polls
}

// A pollfd is the struct pollfd of ppoll(2).
type pollfd struct {
	fd      int32
	events  int16
	revents int16
}

const pollIn = 0x1 // POLLIN

const (
	// kicked is the ID of the eventfd's events.
	kicked = -1
	// wanted are the events of a connection with an empty backlog. The kernel
	// adds those of an error and of the end.
	wanted = syscall.EPOLLIN | syscall.EPOLLRDHUP
	// endings are the events after which nothing more comes.
	endings = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR
)

// made is the door of all methods.
func (p *Poller) made() {
	must(p != nil && p.epoll != nil, "a nil or zero Poller: NewPoller makes one")
}

// NewPoller returns a Poller for up to n connections, at most 64, with the IDs
// 0 to n−1. It returns errors.ErrUnsupported where the system has no epoll, and
// another error if there are no descriptors left. The caller must call Close.
func NewPoller(n int) (*Poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("conn: no epoll instance: %w", err)
	}
	// os.NewFile registers a descriptor with Go's poller only if it does not
	// block.
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
		using:  make([]*descriptor, n),
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
	// Deadlines work only if Go's poller has taken the descriptor. Without it,
	// Wait would spin.
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

// control changes which events of a descriptor are wanted. All are
// edge-triggered: the kernel reports each only once.
func (p *Poller) control(op, fd, id int, events uint32) error {
	const edge = 1 << 31 // EPOLLET; package syscall has it as a negative number
	event := syscall.EpollEvent{Events: events | edge, Fd: int32(id)}
	if err := syscall.EpollCtl(p.fd, op, fd, &event); err != nil {
		return fmt.Errorf("conn: epoll: %w", err)
	}
	return nil
}

// Wait blocks until there are events, or until Kick; then there may be none.
// The events are valid until the following call. waited reports whether Wait
// blocked: then the events are fresh. Wait returns an error only if the Poller
// is closed.
func (p *Poller) Wait() (events []Event, waited bool, err error) {
	p.made()
	p.found, p.looks = 0, 0
	if err := p.raw.Read(p.look); err != nil {
		return nil, false, err // the Poller was closed
	}
	events = p.events[:0]
	if p.hasRead {
		p.hasRead = false
		return append(events, Event{Readable: true}), p.looks > 1, nil
	}
	added := p.takeAdded()
	for i := range p.ready[:p.found] {
		e := &p.ready[i]
		if e.Fd == kicked {
			// A Kick just before this line needs no event of its own: Wait
			// returns now.
			p.kicks.Store(false)
			continue
		}
		if c := p.conns[e.Fd].Load(); c != nil && e.Events&endings != 0 {
			c.polled.ending = true
		}
		events = append(events, Event{
			ID:       int(e.Fd),
			Readable: e.Events&^syscall.EPOLLOUT != 0 || added>>e.Fd&1 != 0,
			Writable: e.Events&syscall.EPOLLOUT != 0,
		})
		added &^= 1 << e.Fd
	}
	for ; added != 0; added &= added - 1 {
		events = append(events, Event{ID: bits.TrailingZeros64(added), Readable: true})
	}
	return events, p.looks > 1, nil
}

// takeAdded returns the set of IDs in added, and empties it.
func (p *Poller) takeAdded() uint64 {
	if p.added.Load() == 0 {
		return 0
	}
	return p.added.Swap(0)
}

// Look is Wait without blocking: it may return no events.
func (p *Poller) Look() (events []Event, err error) {
	p.made()
	p.hurried = true
	defer func() { p.hurried = false }()
	events, _, err = p.Wait()
	return events, err
}

// Fill reads once from c, as Conn.Fill does, but without waiting. It is for the
// goroutine that calls Wait, after an event for bytes from c. Over TLS it reads
// the records that have come, up to a bound (R32). With more, there may be
// bytes left, and no further event reports them. The error, an *Error, is what
// broke the connection.
//
// It panics if the Poller was not given the connection.
func (p *Poller) Fill(c *Conn) (more bool, err error) {
	p.descriptor(c)
	return c.fillNow()
}

// Resume lets the writer of c continue, after an event reported that c is
// writable. It panics if the Poller was not given the connection.
func (p *Poller) Resume(c *Conn) { p.descriptor(c).resume() }

// descriptor returns the socket of c as the Poller knows it.
func (p *Poller) descriptor(c *Conn) *descriptor {
	p.made()
	c.made()
	d := c.polled.socket.Load()
	if d == nil || d.poller != p {
		panic("conn: the Poller was not given this connection")
	}
	return d
}

// Readable returns which of the connections hold unread bytes or have ended;
// bit i stands for the ID i, in the argument and in the result. It makes one
// system call for all of them, never waits, and takes no event from Wait. Like
// Expect, it does not check connections over TLS. One goroutine at a time may
// call it, beside the one that calls Wait.
func (p *Poller) Readable(ids uint64) (readable uint64) {
	p.made()
	some := false
	for i := range p.polls {
		p.polls[i] = pollfd{fd: -1} // ignored by ppoll
		c := p.conns[i].Load()
		if ids>>uint(i)&1 == 0 || c == nil || !c.arrived.plain {
			continue
		}
		if d := c.polled.socket.Load(); d.use() {
			p.using[i], some = d, true
			p.polls[i] = pollfd{fd: int32(d.fd), events: pollIn}
		}
	}
	if !some {
		return 0
	}
	var noTime syscall.Timespec
	// The call returns at once, so the scheduler need not know of it.
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p.polls[0])), uintptr(len(p.polls)),
		uintptr(unsafe.Pointer(&noTime)), 0, 0, 0)
	for i, d := range p.using {
		if d == nil {
			continue
		}
		p.using[i] = nil
		d.done()
		if errno != 0 || p.polls[i].revents != 0 {
			readable |= 1 << uint(i)
		}
	}
	return readable
}

// lookNow collects events without waiting, and reports whether there are any.
// It is called again each time Go's poller sees the epoll instance change.
func (p *Poller) lookNow(fd uintptr) bool {
	p.looks++
	if len(p.conns) == 1 && p.full.Load() == 0 {
		if c := p.conns[0].Load(); c != nil && c.arrived.plain {
			return p.lookAtOne(c) || p.hurried
		}
	}
	// The call returns at once, so the scheduler need not know of it.
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, fd,
			uintptr(unsafe.Pointer(&p.ready[0])), uintptr(len(p.ready)), 0, 0, 0)
		if errno == syscall.EINTR {
			continue // a missed event would not be reported again
		}
		if errno == 0 {
			p.found = int(n)
		}
		return p.found > 0 || p.hurried
	}
}

// lookAtOne is lookNow for a single connection without TLS (which allocates for
// each read). It reads at once instead of asking first. That saves one of five
// system calls. The epoll instance still wakes the goroutine, though its events
// are never collected.
func (p *Poller) lookAtOne(c *Conn) bool {
	if p.kicks.Swap(false) {
		return true
	}
	p.hasRead = c.readEarly()
	return p.hasRead
}

// Kick makes the Wait in progress return, or else the following one. It never
// waits.
func (p *Poller) Kick() {
	p.made()
	p.kicks.Store(true)
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.kicker), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

// Add takes over a connection that no other goroutine uses at the moment. From
// then on it is read by Poller.Fill, after events, and Conn.Fill must not be
// called. Events may come before Add returns.
//
// Add returns false, and changes nothing, for a connection beyond polling: a
// net.Conn of unknown kind, with TLS or without; TLS with renegotiation by the
// node; and a broken connection, or one still writing.
func (p *Poller) Add(c *Conn, id int) bool {
	p.made()
	c.made()
	before := c.link
	nc, t := pollable(before)
	if nc == nil || c.output.pending.Load() != 0 {
		return false
	}
	d, err := newDescriptor(nc, p, id)
	if err != nil {
		return false
	}
	if !c.relink(d, d, t) {
		d.free()
		return false
	}
	p.conns[id].Store(c)
	if err := p.control(syscall.EPOLL_CTL_ADD, d.fd, id, wanted); err != nil {
		p.conns[id].Store(nil)
		if c.relink(before, nil, t) {
			d.free()
		} else {
			// It was broken meanwhile, which has shut d. Close frees d.
			_ = before.shut(true)
		}
		return false
	}
	if t != nil {
		// No event reports what TLS has read already.
		p.added.Or(1 << uint(id))
		p.Kick()
	}
	// The socket leaves Go's own poller, which would otherwise look at it for
	// each reply.
	_ = nc.Close()
	return true
}

// Remove ends the polling of a connection: no more events of it are reported.
// The connection cannot be read after that, only closed.
func (p *Poller) Remove(c *Conn) {
	d := p.descriptor(c)
	p.conns[d.id].CompareAndSwap(c, nil)
	// An error means that it is gone already.
	_ = p.control(syscall.EPOLL_CTL_DEL, d.fd, d.id, 0)
}

// Close frees the Poller's own descriptors, not those of its connections. No
// other method may run beside it or be called after it.
func (p *Poller) Close() error {
	p.made()
	return errors.Join(p.epoll.Close(), syscall.Close(p.kicker))
}
