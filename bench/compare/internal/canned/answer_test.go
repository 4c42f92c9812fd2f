package canned

import (
	"crypto/sha1"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// read reads n bytes, and readAll what comes until the other side closes.
func read(t testing.TB, conn net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(conn, b)
	require.NoError(t, err)
	return string(b)
}

func readAll(t testing.TB, conn net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(conn)
	// A server that closes with bytes unread resets the connection, after what it wrote has arrived.
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
	return string(b)
}

func newSession() session {
	return session{endpoint: &endpoint{runID: "run", addr: "127.0.0.1:1"}, id: 7, peer: "127.0.0.1:2", protocol: 2}
}

// ask sends one command through a reader, as the connection does.
func ask(t testing.TB, s *session, args ...string) string {
	t.Helper()
	r := resp.NewReader(limits)
	_, err := r.Fill(strings.NewReader(string(resp.AppendCommand(nil, args...))))
	require.NoError(t, err)
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	replies, _ := s.answer(nil, v)
	return string(replies)
}

func TestAnswers(t *testing.T) {
	sum := sha1.Sum([]byte("return 1"))
	digest := hex.EncodeToString(sum[:])
	const tooMany = "-ERR Number of keys can't be greater than number of args\r\n"
	s := newSession()
	for _, c := range []struct{ command, want string }{
		{"SET k v NX PX 1000", "+OK\r\n"},
		{"set k v", "+OK\r\n"},
		{"SETNX k v", ":1\r\n"},
		{"EVALSHA x 1 k token", ":1\r\n"},
		{"EVAL x 1 k token 1000", ":1\r\n"},
		{"EVALSHA x 1 redlock:trial:ABC token", ":0\r\n"},
		{"EVALSHA x 1 prefix:redlock:trial:ABC token", ":0\r\n"},
		{"EVALSHA x 3 a b c x y z", "*3\r\n:1\r\n:1\r\n:1\r\n"},
		{"EVALSHA x 0", ":1\r\n"},
		{"EVALSHA x 2 a", tooMany},
		{"EVALSHA x -1 a", tooMany},
		{"EVALSHA x many a", tooMany},
		{"EVALSHA x", tooMany},
		{"EVALSHA", tooMany},
		{"SCRIPT LOAD return_1", "$40\r\n" + sha("return_1") + "\r\n"},
		{"SCRIPT EXISTS a b", "*2\r\n:1\r\n:1\r\n"},
		{"SCRIPT EXISTS", "*0\r\n"},
		{"SCRIPT", "-ERR unknown subcommand\r\n"},
		{"GET k", "$-1\r\n"},
		{"DEL k", ":0\r\n"},
		{"PTTL k", ":-2\r\n"},
		{"CLIENT ID", ":7\r\n"},
		{"client setinfo LIB-NAME x", "+OK\r\n"},
		{"CLIENT MAINT_NOTIFICATIONS ON", "-ERR unknown subcommand\r\n"},
		{"CLIENT", "-ERR unknown subcommand\r\n"},
		{"CONFIG GET maxmemory", "*0\r\n"},
		{"COMMAND", "*0\r\n"},
		{"SELECT 2", "+OK\r\n"},
		{"AUTH secret", "+OK\r\n"},
		{"DELEX k IFEQ v", "-ERR unknown command\r\n"},
		{"ANAMELONGERTHANANYTHATISKNOWN", "-ERR unknown command\r\n"},
		{"HELLO 4", "-NOPROTO unsupported protocol version\r\n"},
	} {
		require.Equal(t, c.want, ask(t, &s, strings.Fields(c.command)...), c.command)
	}
	require.Equal(t, "$40\r\n"+digest+"\r\n", ask(t, &s, "SCRIPT", "LOAD", "return 1"))
}

func sha(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// The version of the protocol shows in nulls, maps and texts, and stays until it is changed.
func TestProtocols(t *testing.T) {
	s := newSession()
	require.True(t, strings.HasPrefix(ask(t, &s, "HELLO"), "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n"))
	require.True(t, strings.HasPrefix(ask(t, &s, "INFO"), "$"))
	hello := ask(t, &s, "HELLO", "3", "AUTH", "default", "secret")
	require.True(t, strings.HasPrefix(hello, "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"))
	require.Contains(t, hello, "$5\r\nproto\r\n:3\r\n")
	require.Equal(t, "_\r\n", ask(t, &s, "GET", "k"))
	require.Equal(t, "%0\r\n", ask(t, &s, "CONFIG", "GET", "save"))
	require.Contains(t, ask(t, &s, "INFO", "server"), "txt:# Server\r\n")
	require.Contains(t, ask(t, &s, "CLIENT", "INFO"), "txt:id=7 addr=127.0.0.1:2 laddr=127.0.0.1:1 ")
	require.Contains(t, ask(t, &s, "HELLO", "2"), "$5\r\nproto\r\n:2\r\n")
	require.Equal(t, "$-1\r\n", ask(t, &s, "GET", "k"))
}

// Garbage of the server's own would be CPU that its clients' machine lacks.
func TestLocksAreAnsweredWithoutAllocating(t *testing.T) {
	if raceEnabled {
		t.Skip("skipped: the race detector allocates")
	}
	var commands []byte
	commands = resp.AppendCommand(commands, "SET", "key", "token", "NX", "PX", "10000")
	commands = resp.AppendCommand(commands, "EVALSHA", "digest", "1", "key", "token")
	commands = resp.AppendCommand(commands, "EVALSHA", "digest", "2", "a", "b", "x", "y")
	s, r := newSession(), resp.NewReader(limits)
	replies := make([]byte, 0, 1024)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		replies = replies[:0]
		r.Commit(copy(r.Space(), commands))
		for {
			v, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			replies, _ = s.answer(replies, v)
		}
	}))
	require.Equal(t, "+OK\r\n:1\r\n*2\r\n:1\r\n:1\r\n", string(replies))
}
