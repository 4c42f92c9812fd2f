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

// descriptor is a TCP or unix socket watched by a Poller, and not registered
// with Go's own poller. It is the link of a connection that is polled.
type descriptor struct {
	fd     int
	tcp    bool
	poller *Poller
	id     int

	// users counts the calls that use fd at the moment, and one for the
	// connection itself. The call that makes it 0 closes fd. If fd were closed
	// earlier, its number could already be another socket's, and a lock command
	// must never go there.
	users atomic.Int64
	// writable holds one token for the writer after an event that reports room.
	writable chan struct{}
	gone     chan struct{} // closed by shut
	shutting atomic.Bool
}

// newDescriptor duplicates the descriptor of a TCP or unix socket. It stays
// non-blocking.
func newDescriptor(nc net.Conn, p *Poller, id int) (*descriptor, error) {
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	_, tcp := nc.(*net.TCPConn)
	d := &descriptor{tcp: tcp, poller: p, id: id, writable: make(chan struct{}, 1), gone: make(chan struct{})}
	d.users.Store(1)
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		var dup uintptr
		dup, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
		d.fd = int(dup)
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return d, err
}

// use keeps fd open until done. It returns false if fd is closed already.
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

// free ends the connection's own use of fd. It is called once.
func (d *descriptor) free() { d.done() }

// readNow reads without waiting; 0 without an error means that there is nothing
// to read. It need not call use: its caller, the owner of the read side, also
// calls free.
func (d *descriptor) readNow(p []byte) (int, error) {
	for {
		// The call never waits, so the scheduler need not know of it.
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

// errPolled is returned by Conn.Fill if a Poller has the connection.
var errPolled = errors.New("conn: the connection is polled")

// Read fails: a second reader beside Poller.Fill would take bytes from the
// stream.
func (d *descriptor) Read([]byte) (int, error) { return 0, errPolled }

func (d *descriptor) tryWrite(p []byte) (int, error) {
	if !d.use() {
		return 0, net.ErrClosed
	}
	defer d.done()
	for {
		// The call never waits, so the scheduler need not know of it. Telling
		// it would wake the runtime's monitor thread for each node.
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(d.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, errno
		}
	}
}

// Write is called by the writer goroutine. It waits for room until
// Poller.Resume. The owner of the read side calls that after an event.
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

// await waits for room in the socket's buffer. It asks for that event only
// here: a unix socket reports room each time its peer reads.
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

// resume wakes the writer: there is room.
func (d *descriptor) resume() {
	_ = d.poller.control(syscall.EPOLL_CTL_MOD, d.fd, d.id, wanted)
	select {
	case d.writable <- struct{}{}:
	default: // the writer has not taken the token before
	}
}

func (d *descriptor) unread() int {
	if d.shutting.Load() || !d.use() {
		return 0
	}
	defer d.done()
	return unreadNow(uintptr(d.fd))
}

// shut ends the connection. It does not close the descriptor, which free does:
// the Poller must still report the end, and the number must not become another
// socket's.
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
		// Some kernels (gVisor) do not support it. Then shutdown reports the
		// end, and the last close sends the RST.
		_ = syscall.SetsockoptLinger(d.fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	return syscall.Shutdown(d.fd, syscall.SHUT_RDWR)
}

// abort sends an RST and throws away what the peer has not acknowledged (R8).
// Unlike a close after SO_LINGER 0, it works while other calls use the
// descriptor: connect(2) with AF_UNSPEC dissolves the association.
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
