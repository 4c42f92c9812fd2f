package conn

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// script is a node in memory with given answers. Its connections are net.Pipes,
// which are synchronous: a peer that only writes or only reads deadlocks.
type script struct {
	greet    string            // sent before anything is read
	hangUp   bool              // after greet
	answers  map[string]string // by command name; "" means no answer; for a missing name see defaults
	nameless string            // the answer to HELLO with SETNAME, if any

	mu    sync.Mutex
	conns [][]string // the commands of each connection
}

var defaults = map[string]string{
	"HELLO": "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n" +
		"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
	"AUTH":             "+OK\r\n",
	"SELECT":           "+OK\r\n",
	"CLIENT SETINFO":   "-ERR Unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n",
	"CLIENT SETNAME":   "+OK\r\n",
	"CLIENT ID":        ":7\r\n",
	"CLIENT INFO":      text3("id=7 addr=10.1.2.3:4000 laddr=10.1.2.9:6379 fd=8 name= age=0 db=0\n"),
	"INFO server":      text3("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:00ff\r\nuptime_in_seconds:61\r\n"),
	"INFO replication": text3("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"),
	"INFO memory":      text3("# Memory\r\nmaxmemory_policy:noeviction\r\n"),
	"PING":             "+PONG\r\n",
}

// text3 encodes a text in RESP3.
func text3(s string) string { return string(resp.AppendVerbatimString(nil, "txt", s)) }

// text2 encodes a text in RESP2.
func text2(s string) string { return string(resp.AppendBulkString(nil, s)) }

func (s *script) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	s.mu.Lock()
	n := len(s.conns)
	s.conns = append(s.conns, nil)
	s.mu.Unlock()
	go s.serve(theirs, n)
	return ours, nil
}

func (s *script) serve(nc net.Conn, n int) {
	defer nc.Close()
	if s.greet != "" {
		if _, err := nc.Write([]byte(s.greet)); err != nil || s.hangUp {
			return
		}
	}
	r := resp.NewReader(resp.Limits{})
	for {
		v, ok, err := r.Next()
		if err != nil {
			return
		}
		if !ok {
			if _, err := r.Fill(nc); err != nil {
				return
			}
			continue
		}
		name, line := commandLine(v)
		s.mu.Lock()
		s.conns[n] = append(s.conns[n], line)
		s.mu.Unlock()
		answer, given := s.answers[name]
		if !given {
			answer = defaults[name]
		}
		if s.nameless != "" && name == "HELLO" && strings.Contains(line, "SETNAME") {
			answer = s.nameless
		}
		if _, err := nc.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// commandLine returns a command's name, with its subcommand if there is one,
// and the whole command.
func commandLine(v resp.Value) (name, line string) {
	var args []string
	for e := range v.Elements() {
		args = append(args, string(e.Bytes()))
	}
	name = args[0]
	if name == "CLIENT" || name == "INFO" || name == "SCRIPT" {
		name += " " + args[1]
	}
	return name, strings.Join(args, " ")
}

// received returns the commands of each connection, one line each.
func (s *script) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, commands := range s.conns {
		all = append(all, strings.Join(commands, "\n"))
	}
	return all
}

// connect dials the script and closes the connection with the test.
func (s *script) connect(t testing.TB, cfg Config) *Conn {
	t.Helper()
	cfg.Addr, cfg.NetDial = "node.test:6379", s.dial
	c, err := Dial(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// newCertificates makes them for node.test, or for the names given.
func newCertificates(t testing.TB, names ...string) *redistest.Certificates {
	t.Helper()
	certs, err := redistest.NewCertificates(append(names, "node.test")[:max(1, len(names))]...)
	require.NoError(t, err)
	return certs
}
