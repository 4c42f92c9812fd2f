package single

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
)

// A silencer stands before a server, as a proxy does, until it is told to be
// silent. From then on each connection works until its first SET; what comes
// from there on is thrown away, and nothing comes back. A client that dials
// again is received as before. Of all faulty nodes it is the hardest to tell
// from a good one. Close it.
type silencer struct {
	listener net.Listener
	target   string
	muted    atomic.Bool
	wg       sync.WaitGroup

	mu     sync.Mutex // guards the following
	conns  map[net.Conn]struct{}
	closed bool
}

func newSilencer(target string) (*silencer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &silencer{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	s.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.relay(client) })
		}
	})
	return s, nil
}

func (s *silencer) addr() string { return s.listener.Addr().String() }

func (s *silencer) silence() { s.muted.Store(true) }

// close ends all connections and returns when all goroutines have ended.
func (s *silencer) close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// keep lets close end a connection. It reports false if close was called
// before.
func (s *silencer) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// drop closes a connection.
func (s *silencer) drop(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// relay serves one client to its end.
func (s *silencer) relay(client net.Conn) {
	if !s.keep(client) {
		return
	}
	defer s.drop(client)
	server, err := net.Dial("tcp", s.target)
	if err != nil || !s.keep(server) {
		return
	}
	defer s.drop(server)
	var deaf atomic.Bool
	s.wg.Go(func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				if !deaf.Load() {
					client.Close()
				}
				return
			}
			if !deaf.Load() {
				_, _ = client.Write(buf[:n]) // a client that is gone is seen where it is read
			}
		}
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		// A command that is split between two reads is overlooked; the next one
		// is not.
		if s.muted.Load() && bytes.Contains(buf[:n], []byte("\r\nSET\r\n")) {
			deaf.Store(true)
		}
		if deaf.Load() {
			continue
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
