//go:build !redmux_portable

package conn

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// descriptor is a plain TCP or unix socket that a Poller watches, and that Go's own poller knows nothing of. It is the
// link of a connection that is polled.
type descriptor struct {
	fd     int
	tcp    bool
	poller *Poller
	id     int

	// users counts the calls that use fd at this moment, and one for the connection itself. Whoever makes it 0 closes fd:
	// its number may be another socket's the moment after, and a lock command must never go there.
	users atomic.Int64
	// writable holds one token for the writer, when an event said that there is room.
	writable chan struct{}
	gone     chan struct{} // closed by shut
	shutting atomic.Bool
}

// newDescriptor makes a descriptor of its own for the socket, in non-blocking mode as the socket is.
func newDescriptor(s *socket, p *Poller, id int) (*descriptor, error) {
	_, tcp := s.Conn.(*net.TCPConn)
	d := &descriptor{tcp: tcp, poller: p, id: id, writable: make(chan struct{}, 1), gone: make(chan struct{})}
	d.users.Store(1)
	var errno syscall.Errno
	err := s.raw.Control(func(fd uintptr) {
		var dup uintptr
		dup, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
		d.fd = int(dup)
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return d, err
}

// use makes sure that fd stays open until done; false when it is closed already.
func (d *descriptor) use() bool {
	for {
		n := d.users.Load()
		if n == 0 {
			return false
		}
		if d.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (d *descriptor) done() {
	if d.users.Add(-1) == 0 {
		_ = syscall.Close(d.fd)
	}
}

// free lets go of the connection's own use. It is called once.
func (d *descriptor) free() { d.done() }

// readNow reads what is there; 0 without an error means that nothing is. It is called by the owner of the read side, who
// is also the one to free the descriptor.
func (d *descriptor) readNow(p []byte) (int, error) {
	for {
		// It never waits, so the scheduler need not know of the call.
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(d.fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch {
		case errno == 0 && n == 0:
			return 0, io.EOF
		case errno == 0:
			return int(n), nil
		case errno == syscall.EAGAIN:
			return 0, nil
		case errno != syscall.EINTR:
			return 0, errno
		}
	}
}

// errPolled is what waiting for bytes is met with: they would be read twice.
var errPolled = errors.New("conn: the connection is polled")

// Read refuses: whoever polls reads, and a second reader would take bytes from between.
func (d *descriptor) Read([]byte) (int, error) { return 0, errPolled }

func (d *descriptor) tryWrite(p []byte) (int, error) {
	if !d.use() {
		return 0, net.ErrClosed
	}
	defer d.done()
	return sendNow(uintptr(d.fd), p)
}

// Write is for the writer goroutine: it waits until an event says that the socket takes bytes again, which the owner of
// the read side hands on.
func (d *descriptor) Write(p []byte) (n int, err error) {
	for {
		k, err := d.tryWrite(p[n:])
		n += k
		if err != nil || n == len(p) {
			return n, err
		}
		if err := d.await(); err != nil {
			return n, err
		}
	}
}

// await waits for room in the socket's buffer. The event is asked for only then: a unix socket would tell of room each
// time its peer reads.
func (d *descriptor) await() error {
	if !d.use() {
		return net.ErrClosed
	}
	d.poller.full.Add(1)
	defer d.poller.full.Add(-1)
	err := d.poller.control(syscall.EPOLL_CTL_MOD, d.fd, d.id, wanted|syscall.EPOLLOUT)
	d.done()
	if err != nil {
		return err
	}
	select {
	case <-d.writable:
		return nil
	case <-d.gone:
		return net.ErrClosed
	}
}

// resume tells the writer that there is room.
func (d *descriptor) resume() {
	_ = d.poller.control(syscall.EPOLL_CTL_MOD, d.fd, d.id, wanted)
	select {
	case d.writable <- struct{}{}:
	default: // it has yet to take the token before
	}
}

func (d *descriptor) unread() int {
	if d.shutting.Load() || !d.use() {
		return 0
	}
	defer d.done()
	return unreadNow(uintptr(d.fd))
}

// shut ends the connection but leaves the descriptor to free, so that the Poller has something to tell of and its number
// goes to nobody else meanwhile.
func (d *descriptor) shut(abort bool) error {
	if d.shutting.Swap(true) {
		return nil
	}
	close(d.gone)
	if !d.use() {
		return nil
	}
	defer d.done()
	if abort && d.tcp {
		if d.abort() == nil {
			return nil
		}
		// Some kernels do not know it (gVisor). Then the last close sends the RST, and the end is told by a plain shutdown.
		_ = syscall.SetsockoptLinger(d.fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	return syscall.Shutdown(d.fd, syscall.SHUT_RDWR)
}

// abort sends an RST and throws away what the kernel has not got acknowledged (R8). Unlike a close after SO_LINGER 0 this
// can be done while others use the descriptor: connect(2), AF_UNSPEC dissolves the association.
func (d *descriptor) abort() error {
	unspecified := syscall.RawSockaddrAny{}
	unspecified.Addr.Family = syscall.AF_UNSPEC
	_, _, errno := syscall.RawSyscall(sysConnect, uintptr(d.fd),
		uintptr(unsafe.Pointer(&unspecified)), unsafe.Sizeof(unspecified))
	runtime.KeepAlive(&unspecified)
	if errno != 0 {
		return errno
	}
	return nil
}
