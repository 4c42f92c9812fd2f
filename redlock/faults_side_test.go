package redlock_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// A side is a connection of the test that stays open, with inline commands, for
// what cannot be done over a new connection each time.
type side struct {
	testing.TB
	conn   net.Conn
	reader *bufio.Reader
}

func newSide(f *fleet, server int) *side {
	f.Helper()
	path := strings.TrimPrefix(f.servers[server].UnixURL(), "unix://")
	c, err := net.Dial("unix", path)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return &side{f, c, bufio.NewReader(c)}
}

// must sends a command whose answer is one line.
func (s *side) must(command string) string {
	s.Helper()
	_ = s.conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintf(s.conn, "%s\r\n", command); err != nil {
		s.Fatal(err)
	}
	line, err := s.reader.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "-") {
		s.Fatalf("%s: %q, %v", command, line, err)
	}
	return strings.TrimSpace(line)
}
