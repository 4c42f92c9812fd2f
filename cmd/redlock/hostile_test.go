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
		"holders": func(_ int, args []string) ([]byte, bool) {
			switch command := strings.ToUpper(args[0]); {
			case command == "SET" && slices.Contains(args, "GET"):
				return resp.AppendBulkString(nil, evil+" "+strings.Repeat("A", 27)), true
			case command == "SET":
				return resp.AppendNull(nil), true
			case command == "EVALSHA" && slices.Contains(args, "x"):
				return resp.AppendBulkString(nil, "1 "+evil), true
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
				{"acquire", "-n", "-v", "--owner=a", "x"}, {"acquire", "-w300ms", "--fenced", "x"}, {"acquire", "-n", "--json", "x"},
				{"run", "-n", "--shared", "x", "--", "true"}, {"init"},
			} {
				got := within(append([]string{nodes, "--timeout=300ms"}, command...)...)
				assert.NotEmpty(t, got.stdout+got.stderr, command)
				for _, r := range got.stdout + got.stderr {
					require.True(t, r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar, "%v prints %q: %q", command, r, got)
				}
			}
		})
	}
}

// What is on the command line may come from elsewhere, too. JSON shows bytes
// that are no UTF-8, so that no two names look the same.
func TestMessagesAboutTheCommandLineArePrintable(t *testing.T) {
	_, nodes := masters(t, 3)
	const evil = "\x1b[2J\u202e\xff"
	for _, args := range [][]string{
		{evil}, {"status", "--" + evil}, {"run", "--ttl=" + evil, "r", "--", "true"}, {"run", nodes, evil, "--", evil},
		{"status", nodes, evil}, {"acquire", nodes, "-n", "--token-file=/" + evil + "/x", "r"}, {"help", evil},
		{"run", "--nodes=redis://" + evil, "r", "--", "true"}, {"run", nodes, "--password-env=" + evil, "r", "--", "true"},
	} {
		got := within(args...)
		require.NotEmpty(t, got.stdout+got.stderr, "%q", args)
		for _, r := range got.stdout + got.stderr {
			require.True(t, r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar, "%q prints %q: %q", args, r, got)
		}
	}
	printed := asJSON[outcome](t, exitOK, "acquire", nodes, "-n", "caf\xe9")
	require.Equal(t, `caf\xe9`, printed.Resource)
	require.Equal(t, `caf\xe9`, asJSON[statusReport](t, exitOK, "status", nodes, "caf\xe9").Resource)
}
