package multiplex

import (
	"testing"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
)

func TestKillCommand(t *testing.T) {
	const here, there = "192.0.2.1:4000", "run-a"
	byID := []string{"CLIENT", "KILL", "ID", "7", "SKIPME", "yes"}
	byBoth := []string{"CLIENT", "KILL", "ID", "7", "ADDR", here, "SKIPME", "yes"}
	table := []struct {
		name     string
		old, now conn.Server
		command  []string // nil: no command
		certain  bool
	}{
		{"id and address known",
			conn.Server{ID: 7, ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: there}, byBoth, true},
		{"the server restarted: ids start again, and its sockets are gone",
			conn.Server{ID: 7, ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: "run-b"}, nil, true},
		{"restarted, and the new connection has the same id",
			conn.Server{ID: 7, ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: "run-b", ID: 7}, nil, true},
		{"the address is a guess, the run is the same: the id alone is safe",
			conn.Server{ID: 7, ClientAddr: here, RunID: there}, conn.Server{RunID: there}, byID, true},
		{"no address, the run is the same",
			conn.Server{ID: 7, RunID: there}, conn.Server{RunID: there}, byID, true},
		{"the run is unknown: an address that is known protects strangers",
			conn.Server{ID: 7, ClientAddr: here, AddrKnown: true}, conn.Server{}, byBoth, true},
		{"run unknown and address a guess: only a hit proves anything",
			conn.Server{ID: 7, ClientAddr: here}, conn.Server{}, byBoth, false},
		{"run unknown now only, address a guess",
			conn.Server{ID: 7, ClientAddr: here, RunID: there}, conn.Server{}, byBoth, false},
		{"run and address unknown: an id alone may hit a stranger",
			conn.Server{ID: 7}, conn.Server{}, nil, false},
		{"run unknown before, address unknown",
			conn.Server{ID: 7}, conn.Server{RunID: there}, nil, false},
		{"no id",
			conn.Server{ClientAddr: here, AddrKnown: true, RunID: there}, conn.Server{RunID: there}, nil, false},
		{"nothing known", conn.Server{}, conn.Server{}, nil, false},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			command, certain := killCommand(&c.old, &c.now)
			var want []byte
			if c.command != nil {
				want = resp.AppendCommand(nil, c.command...)
			}
			assert.Equal(t, string(want), string(command), "R8")
			assert.Equal(t, c.certain, certain)
		})
	}
}
