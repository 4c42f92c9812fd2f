package main

import (
	"net"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
)

// What a node says reaches a terminal only as printable text, and no command
// that shows it waits for ever.
func TestHostileNodesDoNotReachTheTerminal(t *testing.T) {
	redistest.NoLeaks(t)
	const evil = "\x1b]0;evil\x07\x1b[2J\u202e\u009b31m\xff"
	for name, hook := range map[string]redistest.Hook{
		"texts": func(_ int, args []string) ([]byte, bool) {
			switch command := strings.ToUpper(args[0]); {
			case command == "EVALSHA" && slices.Contains(args, "x"): // status reads the key by a script
				return resp.AppendBulkString(nil, evil), true
			case slices.Contains([]string{"INFO", "GET", "ACL", "CONFIG"}, command):
				return resp.AppendBulkString(nil, "redis_version:"+evil+"\r\nrole:"+evil+"\r\nrun_id:"+evil+"\r\nmaxmemory_policy:"+evil+"\r\n"), true
			}
			return nil, false
		},
		"errors": func(_ int, args []string) ([]byte, bool) {
			switch strings.ToUpper(args[0]) {
			case "HELLO", "CLIENT", "INFO":
				return nil, false
			}
			return resp.AppendSimpleError(nil, "ERR "+evil), true
		},
		"refusals": func(int, []string) ([]byte, bool) { return resp.AppendSimpleError(nil, "NOAUTH "+evil), true },
		"no RESP":  func(int, []string) ([]byte, bool) { return []byte(evil + "\r\n"), true },
		"silence":  func(int, []string) ([]byte, bool) { return nil, true },
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			node := redistest.NewNode(redistest.NodeConfig{})
			defer node.Close()
			node.Serve(listener)
			node.Handle(hook)
			nodes := "--nodes=redis://" + listener.Addr().String()
			for _, command := range [][]string{
				{"status", "x"}, {"status", "--json", "x"}, {"nodes", "--observe=0"}, {"nodes", "--json", "--observe=0"},
				{"doctor", "--observe=0"}, {"doctor", "--json", "--observe=0"}, {"release", "--force", "--yes", "x"},
			} {
				got := within(append(command, nodes, "--timeout=300ms")...)
				assert.NotEmpty(t, got.stdout+got.stderr, command)
				for _, r := range got.stdout + got.stderr {
					require.True(t, r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar, "%v prints %q: %q", command, r, got)
				}
			}
		})
	}
}
