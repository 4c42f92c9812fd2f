package faults

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
)

// A muteRelay stands before a server, as a proxy does, until it is told to be mute: from then on each connection works until
// it brings its first SET; what comes from there on is taken and thrown away, and nothing comes back. A client that dials again
// is received as well as before. It is the node that a client can least know from a good one. Close it.
type muteRelay struct {
	listener net.Listener
	target   string
	muted    atomic.Bool
	wg       sync.WaitGroup

	mu     sync.Mutex // guards the following
	conns  map[net.Conn]struct{}
	closed bool
}

func newMuteRelay(target string) (*muteRelay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &muteRelay{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	m.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			m.wg.Go(func() { m.relay(client) })
		}
	})
	return m, nil
}

func (m *muteRelay) addr() string { return m.listener.Addr().String() }

func (m *muteRelay) mute() { m.muted.Store(true) }

// close ends all connections and returns when nothing of it is left.
func (m *muteRelay) close() {
	m.listener.Close()
	m.mu.Lock()
	m.closed = true
	for c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
}

// keep has close end a connection; it reports false if it is too late for that.
func (m *muteRelay) keep(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		c.Close()
		return false
	}
	m.conns[c] = struct{}{}
	return true
}

// drop closes a connection.
func (m *muteRelay) drop(c net.Conn) {
	c.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, c)
}

// relay serves one client to its end, deaf or not.
func (m *muteRelay) relay(client net.Conn) {
	if !m.keep(client) {
		return
	}
	defer m.drop(client)
	server, err := net.Dial("tcp", m.target)
	if err != nil || !m.keep(server) {
		return
	}
	defer m.drop(server)
	var deaf atomic.Bool
	m.wg.Go(func() {
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
		// A command that is split between two reads is overlooked; the next one is not.
		if m.muted.Load() && bytes.Contains(buf[:n], []byte("\r\nSET\r\n")) {
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
