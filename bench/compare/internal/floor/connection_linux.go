package floor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// connection is a blocking socket and the count of what was answered on it. Commands are sent to all masters, so the k-th
// answer is that to the k-th command: SETs have the even numbers, releases the odd ones.
type connection struct {
	socket   int
	answered uint64
	granted  bool // by the last answer
	patience time.Duration

	// The buffer is part of the connection, so that reading allocates nothing. It holds some eight hundred answers; a master
	// that was late by more is read in several calls.
	buffer [4096]byte
	held   int // bytes of an answer that is not complete
}

// dial connects and shakes hands. It speaks RESP2, the shorter one: it needs no HELLO.
func dial(raw string) (*connection, error) {
	endpoint, err := conn.ParseURL(raw)
	if err != nil {
		return nil, err
	}
	// What a record costs depends on the cipher and not on the system, so a bound with TLS would bound nothing.
	if endpoint.TLS != nil {
		return nil, errors.New("TLS has no floor that system calls could show")
	}
	network := endpoint.Network
	if network == "" {
		network = "tcp"
	}
	nc, err := net.DialTimeout(network, endpoint.Addr, defaultPatience) // sets TCP_NODELAY
	if err != nil {
		return nil, err
	}
	defer nc.Close() // only the socket's duplicate stays, out of the netpoller's reach
	c := &connection{}
	if c.socket, err = takeSocket(nc); err != nil {
		return nil, err
	}
	err = c.bound(defaultPatience)
	if err == nil {
		err = c.shakeHands(&endpoint)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", endpoint, err), unix.Close(c.socket))
	}
	return c, nil
}

// takeSocket duplicates the connection's descriptor and makes it a blocking one.
func takeSocket(nc net.Conn) (socket int, err error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("%T has no descriptor", nc)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	// A duplicate, because the runtime closes its own descriptor with the connection, and has it in its netpoller, which
	// would be woken by every reply.
	duplicate := func(fd uintptr) {
		if socket, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		if err = unix.SetNonblock(socket, false); err != nil {
			unix.Close(socket)
		}
	}
	if failed := raw.Control(duplicate); failed != nil {
		return -1, failed
	}
	return socket, err
}

// shakeHands says who we are, where the URL does, and makes the script known, so that the release can name it by its digest
// as all clients do. It is not measured, and so is plain: one question after the other.
func (c *connection) shakeHands(e *conn.Endpoint) error {
	var commands [][]string
	switch {
	case e.Username != "":
		commands = append(commands, []string{"AUTH", e.Username, e.Password})
	case e.Password != "":
		commands = append(commands, []string{"AUTH", e.Password})
	}
	if e.DB != 0 {
		commands = append(commands, []string{"SELECT", strconv.Itoa(e.DB)})
	}
	commands = append(commands, []string{"SCRIPT", "LOAD", releaseScript})
	r := resp.NewReader(resp.Limits{})
	for _, command := range commands {
		if err := c.ask(r, command); err != nil {
			return fmt.Errorf("%s: %w", command[0], err)
		}
	}
	// From here on answers are counted, and this reader is forgotten together with what it holds.
	if r.Buffered() > 0 {
		return errors.New("more answers than commands")
	}
	return nil
}

// ask sends one command of the handshake and waits for an answer that is no error.
func (c *connection) ask(r *resp.Reader, command []string) error {
	if err := c.write(resp.AppendCommand(nil, command...)); err != nil {
		return err
	}
	for {
		v, ok, err := r.Next()
		switch {
		case err != nil:
			return err
		case ok && v.IsError():
			return fmt.Errorf("%q", v.Bytes())
		case ok:
			return nil
		}
		n, err := c.receive(r.Space(), 0)
		if err != nil {
			return err
		}
		r.Commit(n)
	}
}

// read reads once and takes the complete answers out. There can be as many as commands were sent, and no more.
func (c *connection) read(flags int, sent uint64) error {
	n, err := c.receive(c.buffer[c.held:], flags)
	if err != nil {
		return err
	}
	c.held += n
	b := c.buffer[:c.held]
	for len(b) > 0 {
		if c.answered == sent {
			return fmt.Errorf("floor: %q was asked for by nobody", b[:min(len(b), 100)])
		}
		// Counted and not looked at: the kinds of answers alternate, and a late one is judged like one in time.
		kind := &setReplies
		if c.answered%2 == 1 {
			kind = &releaseReplies
		}
		size, granted, err := kind.parse(b)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		c.answered++
		c.granted = granted
		b = b[size:]
	}
	// What is left is the beginning of one answer, a few bytes at most, so moving it is cheaper than a ring.
	c.held = copy(c.buffer[:], b)
	return nil
}

// bound makes every wait on the socket end. It also lets the runtime's signals interrupt one, which the kernel otherwise
// restarts by itself: without that a garbage collection could not begin before the master answers.
func (c *connection) bound(patience time.Duration) error {
	c.patience = patience
	limit := unix.NsecToTimeval(int64(patience))
	return errors.Join(unix.SetsockoptTimeval(c.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(c.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
}

// The system calls are raw ones: the scheduler does not learn of them, and so cannot take the processor away meanwhile.

// receive reads what is there, or waits for it. With MSG_DONTWAIT it is no error that nothing is there.
func (c *connection) receive(p []byte, flags int) (int, error) {
	w := waitLimit{patience: c.patience}
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.socket), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
			uintptr(flags), 0, 0)
		switch {
		case errno == 0 && n == 0:
			return 0, fmt.Errorf("floor: the master closed the connection: %w", io.ErrUnexpectedEOF)
		case errno == 0:
			return int(n), nil
		case errno == syscall.EAGAIN && flags&unix.MSG_DONTWAIT != 0:
			return 0, nil
		}
		if err := w.judge("recvfrom", errno); err != nil {
			return 0, err
		}
	}
}

// write writes all of p. The socket blocks, so a master that does not read delays the caller once its buffer is full.
func (c *connection) write(p []byte) error {
	w := waitLimit{patience: c.patience}
	for len(p) > 0 {
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.socket), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		if errno == 0 {
			p = p[n:]
		} else if err := w.judge("write", errno); err != nil {
			return err
		}
	}
	return nil
}

// epollWait returns how many events there are.
func epollWait(poll int, events []unix.EpollEvent, patience time.Duration) (int, error) {
	w := waitLimit{patience: patience}
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(poll), uintptr(unsafe.Pointer(&events[0])),
			uintptr(len(events)), uintptr(patience.Milliseconds()), 0, 0)
		switch {
		case errno == 0 && n == 0:
			errno = syscall.EAGAIN
		case errno == 0:
			return int(n), nil
		}
		if err := w.judge("epoll_wait", errno); err != nil {
			return 0, err
		}
	}
}

// waitLimit bounds a system call that is made once more after each signal. The kernel's own bound does not suffice: it
// begins anew with each call, and the runtime sends a signal every 10 ms to a thread that it wants to preempt.
type waitLimit struct {
	patience time.Duration
	deadline time.Time // set by the first signal, so that an undisturbed wait reads no clock
}

// judge returns nil when the call is to be made once more.
func (w *waitLimit) judge(call string, errno syscall.Errno) error {
	switch {
	case errno == syscall.EINTR && w.deadline.IsZero():
		w.deadline = time.Now().Add(w.patience)
		return nil
	case errno == syscall.EINTR && time.Now().Before(w.deadline):
		return nil
	case errno == syscall.EINTR || errno == syscall.EAGAIN:
		return fmt.Errorf("floor: %s: %w (%v)", call, errPatience, w.patience)
	}
	return fmt.Errorf("floor: %w", os.NewSyscallError(call, errno))
}
