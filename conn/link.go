package conn

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"syscall"
)

// link is all that a Conn needs of the connection below it.
type link interface {
	io.Reader // waits for bytes; called by the owner of the read side
	io.Writer // may wait for the peer; called by the writer goroutine

	// tryWrite writes as much of p as it can without waiting, which may be
	// nothing. It is called by one goroutine at a time, and never beside Write.
	tryWrite(p []byte) (n int, err error)
	// unread returns how many unread bytes the kernel is known to hold. It
	// never waits.
	unread() int
	// shut ends the link and unblocks its Read and Write. It is called once, by
	// any goroutine, and does not wait for the peer. With abort, the kernel's
	// unsent bytes are thrown away where that is possible.
	shut(abort bool) error
	// free frees what shut has left. It is called after the last Read and
	// Write.
	free()
}

func newLink(nc net.Conn) link {
	bottom := below(nc)
	s := stream{Conn: nc, bottom: bottom, peek: newPeeker(bottom)}
	if isSocket(nc) {
		if raw, err := nc.(syscall.Conn).SyscallConn(); err == nil {
			return newSocket(s, raw)
		}
	}
	return &s
}

// isSocket reports whether nc is a TCP or unix socket with nothing above it.
func isSocket(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// below returns the connection under TLS, or nc itself.
func below(nc net.Conn) net.Conn {
	for {
		switch t := nc.(type) {
		case *tls.Conn:
			nc = t.NetConn()
		case interface{ under() net.Conn }: // a transport
			nc = t.under()
		default:
			return nc
		}
	}
}

// stream is a net.Conn with a Write that may wait: TLS without polling, and a
// connection from a user's dialer. Only the writer goroutine writes to it.
type stream struct {
	net.Conn
	bottom net.Conn // nc without TLS
	peek   *peeker  // nil if there is no known socket
}

func (s *stream) tryWrite([]byte) (int, error) { return 0, nil }

func (s *stream) unread() int {
	if s.peek == nil {
		return 0
	}
	return s.peek.unread()
}

// shut closes the connection below TLS. tls.Conn.Close would first send an
// alert, and wait up to five seconds for the peer to take it.
func (s *stream) shut(abort bool) error {
	if l, ok := s.bottom.(interface{ SetLinger(sec int) error }); ok && abort {
		_ = l.SetLinger(0) // if that fails, Close sends a FIN
	}
	return s.bottom.Close()
}

// free does nothing: shut has closed the connection.
func (s *stream) free() {}

// socket is a plain TCP or unix socket. The caller of Send writes what fits in
// its buffer.
//
// RawConn.Write would take the descriptor's write lock. RawConn.Control takes
// none, so a writer that is about to return from its Write cannot make Send
// wait.
type socket struct {
	stream
	raw  syscall.RawConn
	send func(fd uintptr) // made once, so that tryWrite allocates nothing

	// The arguments and results of send.
	out []byte
	n   int
	err error
}

func newSocket(s stream, raw syscall.RawConn) *socket {
	k := &socket{stream: s, raw: raw}
	k.send = func(fd uintptr) { k.n, k.err = sendNow(fd, k.out) }
	return k
}

func (k *socket) tryWrite(p []byte) (int, error) {
	k.out, k.n, k.err = p, 0, nil
	err := k.raw.Control(k.send)
	k.out = nil // p must not be kept
	if err == nil {
		err = k.err
	}
	return k.n, err
}

// peeker checks whether a socket holds bytes, also while a goroutine is blocked
// in a read: Control takes no lock on the descriptor.
type peeker struct {
	mu    sync.Mutex // guards the following
	raw   syscall.RawConn
	look  func(fd uintptr)
	found int
}

func newPeeker(bottom net.Conn) *peeker {
	if !isSocket(bottom) {
		return nil
	}
	raw, err := bottom.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil
	}
	p := &peeker{raw: raw}
	p.look = func(fd uintptr) { p.found = unreadNow(fd) }
	return p
}

func (p *peeker) unread() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = 0
	if p.raw.Control(p.look) != nil {
		return 0
	}
	return p.found
}
