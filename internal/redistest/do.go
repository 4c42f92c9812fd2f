package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redmux/redmux/resp"
)

// doTimeout is long, because what it bounds is a test that would hang.
const doTimeout = 30 * time.Second

// Do sends one command over a connection of its own and returns the reply: a
// string (simple, bulk, verbatim), int64, nil, or []any of these. A server's
// error reply is an error whose text is the reply's. It is for looking at a
// server from the side, not for speed.
func (s *Server) Do(args ...string) (any, error) {
	conn, err := s.dial()
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer conn.Close()
	s.mu.Lock()
	user, password := s.user, s.password
	s.mu.Unlock()
	if password != "" {
		auth := []string{"AUTH", password}
		if user != "" {
			auth = []string{"AUTH", user, password}
		}
		if _, err := exchange(conn, auth...); err != nil {
			return nil, err
		}
	}
	return exchange(conn, args...)
}

// Authenticate sets what Do presents to the server from now on: after a CONFIG
// SET requirepass, say. An empty password presents nothing.
func (s *Server) Authenticate(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.password = user, password
}

// dial prefers the unix socket: it needs no TLS and takes no port.
func (s *Server) dial() (net.Conn, error) {
	d := net.Dialer{Timeout: doTimeout}
	switch {
	case s.opts.Unix:
		return d.Dial("unix", s.socket())
	case s.opts.TLS:
		return tls.DialWithDialer(&d, "tcp", s.TCPAddr(), s.TLSConfig())
	}
	return d.Dial("tcp", s.TCPAddr())
}

// serverError is a reply that is an error.
type serverError struct{ text string }

func (e *serverError) Error() string { return e.text }

// IsReply reports whether an error is a server's reply: the command has
// arrived.
func IsReply(err error) bool {
	var reply *serverError
	return errors.As(err, &reply)
}

// exchange sends a command and waits for its reply.
func exchange(conn net.Conn, args ...string) (any, error) {
	conn.SetDeadline(time.Now().Add(doTimeout))
	if _, err := conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	r := resp.NewReader(resp.Limits{})
	for {
		v, ok, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("redistest: %w", err)
		}
		if ok {
			return decode(v)
		}
		if _, err := r.Fill(conn); err != nil {
			return nil, fmt.Errorf("redistest: %w", err)
		}
	}
}

// decode copies a reply out of the reader's buffer.
func decode(v resp.Value) (any, error) {
	switch {
	case v.IsError():
		return nil, &serverError{text: string(v.Bytes())}
	case v.IsNull():
		return nil, nil
	}
	switch v.Type() {
	case resp.SimpleString, resp.BulkString, resp.VerbatimString, resp.BigNumber:
		return string(v.Bytes()), nil
	case resp.Integer:
		n, _ := v.Int64()
		return n, nil
	case resp.Boolean:
		b, _ := v.Bool()
		return b, nil
	case resp.Double:
		f, _ := v.Float64()
		return f, nil
	case resp.Array, resp.Map, resp.Set, resp.Push:
		all := make([]any, 0, v.Len())
		for e := range v.Elements() {
			x, err := decode(e)
			if err != nil {
				x = err // an error inside an array is a value like others
			}
			all = append(all, x)
		}
		return all, nil
	}
	return nil, errors.New("redistest: unknown reply type " + v.Type().String())
}

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
