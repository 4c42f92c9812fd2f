package redistest

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// A Side is a test's own connection to a server, as the default user, that
// stays open from one command to the next. It still works where a new
// connection would fail, because the server has its maximum of clients or
// another password by now. Methods are safe for concurrent use; commands are
// sent one after the other.
type Side struct {
	server *Server
	mu     sync.Mutex // guards the following
	conn   net.Conn   // nil before the first command, and after one that failed
}

// Side makes a side connection, which is opened with its first command. Close
// it.
func (s *Server) Side() *Side { return &Side{server: s} }

// Do sends one command and returns the reply as Server.Do does. A connection
// that was lost is opened again by the next command, not by this one: whether
// this one was executed is not known.
func (s *Side) Do(args ...string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		conn, err := s.server.dial()
		if err != nil {
			return nil, fmt.Errorf("redistest: %w", err)
		}
		s.conn = conn
	}
	reply, err := exchange(s.conn, args...)
	var refused *serverError
	if err != nil && !errors.As(err, &refused) {
		s.conn.Close()
		s.conn = nil
	}
	return reply, err
}

// Close ends the connection. A later command would open another.
func (s *Side) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
