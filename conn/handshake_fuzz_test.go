package conn

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzHandshake answers a dial with arbitrary bytes, in pieces, and then falls
// silent or hangs up. The dial returns within its timeout. It succeeds only
// with an answer to every command and nothing after it (R16, R21). What the
// node said about itself is bounded and printable. An error is the package's
// own, and shows no password even if the peer repeats it (R27). Nothing is left
// (R28).
func FuzzHandshake(f *testing.F) {
	for _, protocol := range []uint8{0, 2, 3} {
		f.Add([]byte(sound3), protocol, uint8(7), true)
		f.Add([]byte(sound2), protocol, uint8(200), false)
		for _, hostile := range handshakeLies {
			f.Add([]byte(hostile+sound3), protocol, uint8(200), false)
			f.Add([]byte(strings.Replace(sound3, "$4\r\nmode", hostile+"$4\r\nmode", 1)), protocol, uint8(3), true)
			f.Add([]byte(sound3+hostile), protocol, uint8(200), false)
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, protocol, piece uint8, hangUp bool) {
		if protocol == 1 || protocol > 3 || len(answer) > 8<<10 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			d := &answering{answer: answer, piece: int(piece) + 1, hangUp: hangUp}
			cfg := Config{NetDial: d.dial, Endpoint: Endpoint{
				Addr: "node.test:1", Password: fuzzPassword, Protocol: int(protocol), DialTimeout: time.Second,
			}}
			start := time.Now()
			c, err := Dial(context.Background(), cfg)
			assert.LessOrEqual(t, time.Since(start), time.Second)
			if err != nil {
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.NotContains(t, err.Error(), fuzzPassword)
				var refusal *resp.Error
				if errors.As(err, &refusal) {
					assert.NotContains(t, refusal.Message, fuzzPassword)
				}
				return
			}
			checkIntroduced(t, c.Server())
			assert.Zero(t, c.reader.Buffered(), "nothing is behind the last reply")
			sent, answered := sentInHandshake(c, &cfg), valuesIn(answer)
			assert.LessOrEqual(t, sent, answered, "a reply for each command")
			if int(piece) >= len(answer) { // otherwise surplus bytes may come after the last read
				assert.Equal(t, sent, answered)
			}
			assert.NoError(t, c.Close())
		})
	})
}

const fuzzPassword = "hunter2"

// checkIntroduced requires that the strings which the node makes us keep,
// compare and show are short and printable.
func checkIntroduced(t *testing.T, s *Server) {
	for _, word := range []string{s.RunID, s.Product, s.Version, s.Role, s.Mode, s.EvictionPolicy} {
		assert.LessOrEqual(t, len(word), maxWord)
		assert.Equal(t, errtext.Printable(word), word)
	}
	assert.LessOrEqual(t, len(s.ClientAddr), maxAddr)
	assert.GreaterOrEqual(t, s.Uptime, time.Duration(0))
	assert.Equal(t, s.AddrKnown, s.AddrKnown && s.ClientAddr != "" && s.ID != 0)
}

// sentInHandshake returns how many commands were sent over the connection.
func sentInHandshake(c *Conn, cfg *Config) int {
	return len(c.handshake(cfg, c.server.Protocol))
}

// valuesIn counts the replies in wire.
func valuesIn(wire []byte) int {
	values, _ := decodeAll(wire)
	return len(values)
}

// An answering is a peer that sends the same bytes to every connection,
// whatever it receives.
type answering struct {
	answer []byte
	piece  int
	hangUp bool
}

func (d *answering) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if _, err := theirs.Read(make([]byte, 4<<10)); err != nil {
			return
		}
		for rest := d.answer; len(rest) > 0; {
			n := min(d.piece, len(rest))
			if _, err := theirs.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		if !d.hangUp {
			_, _ = theirs.Read(make([]byte, 4<<10)) // until the connection ends
		}
	}()
	return ours, nil
}

// What sound nodes answer, by version of the protocol.
var (
	info   = "run_id:00ff\r\nuptime_in_seconds:61\r\nrole:slave\r\nvalkey_version:9.0\r\nmaxmemory_policy:noeviction\r\n"
	sound3 = defaults["HELLO"] + "+OK\r\n+OK\r\n" + defaults["CLIENT INFO"] + defaults["INFO server"] + defaults["INFO replication"] +
		defaults["INFO memory"]
	sound2 = "+OK\r\n:7\r\n+OK\r\n+OK\r\n" + text2("id=7 addr=/tmp/a b:0 laddr=/x:0 fd=8\n") + text2(info) + text2("role:master") + text2("")
)

// handshakeLies are replies that must not come, or not at this point.
var handshakeLies = []string{
	"-ERR max number of clients reached\r\n",
	"-NOAUTH HELLO must be called with the client already authenticated\r\n",
	"-ERR unknown command `HELLO`, with args beginning with: `3` `AUTH` `default` `hunter2`\r\n",
	"-WRONGPASS hunter2 is not it\r\n", "-ERR h\x00hunter2\xff\r\n", "!15\r\nERR hunt\r\nhunter2\r\n",
	">2\r\n+message\r\n+x\r\n", "|1\r\n+a\r\n+b\r\n", "+OK\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ":1\r\n", "%0\r\n", "HTTP/1.1 400 Bad\r\n",
	"-LOADING x\r\n", "-NOPERM x\r\n", "SSH-2.0\r\n", "\x15\x03\x01", "$1048577\r\n", "-NOPROTO x\r\n",
}

// FuzzClientInfo parses a line of CLIENT LIST as a server or an attacker may
// write it. An id and an address are used only if the line contains both, since
// CLIENT KILL uses them (R8).
func FuzzClientInfo(f *testing.F) {
	for _, line := range []string{
		"id=7 addr=127.0.0.1:4000 laddr=127.0.0.1:6379 fd=8", "id=7 addr=/tmp/a b:0 laddr=/x:0", "id=7 addr=a", "id=", "id=-1 addr=x y",
		"id=9223372036854775808 addr=x y", "addr=1 id=2", "id=7 addr= laddr=", "id=1 addr=" + strings.Repeat("x", 300) + " laddr=y",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		id, addr := parseClientInfo(line)
		if id == 0 && addr == "" {
			return
		}
		rest, ok := strings.CutPrefix(string(line), "id=")
		require.True(t, ok)
		digits, rest, ok := strings.Cut(rest, " addr=")
		require.True(t, ok)
		assert.NotEmpty(t, digits)
		assert.LessOrEqual(t, len(addr), maxAddr)
		assert.True(t, strings.HasPrefix(rest, addr))

		var s Server
		assert.NoError(t, s.readClientInfo(textValue(t, line)))
		assert.Equal(t, id, s.ID)
		s = Server{ID: id + 1}
		assert.NoError(t, s.readClientInfo(textValue(t, line)))
		if id != 0 && id+1 != 0 {
			assert.Equal(t, Server{}, s, "ids that differ are neither's")
		}
	})
}

// FuzzInfo parses arbitrary text as INFO.
func FuzzInfo(f *testing.F) {
	f.Add([]byte(info))
	f.Add([]byte("run_id\nrun_id:\nrole:slave:x\r\r\nuptime_in_seconds:9223372036854775807\nredis_version:7\nkeydb_version:\x00"))
	f.Add([]byte("run_id:" + strings.Repeat("x", 100)))
	f.Add([]byte("uptime_in_seconds:9223372036\nuptime_in_seconds:-1\nuptime_in_seconds:9223372037"))
	f.Fuzz(func(t *testing.T, section []byte) {
		var s Server
		require.NoError(t, s.readInfo(textValue(t, section)))
		checkIntroduced(t, &s)
		again := s
		require.NoError(t, again.readInfo(textValue(t, section)))
		if !strings.Contains(string(section), "redis_version") {
			assert.Equal(t, s, again, "the last of several lines is the one")
		}
	})
}

func textValue(t *testing.T, text []byte) resp.Value {
	r := resp.NewReader(resp.Limits{})
	wire := resp.AppendBulkString(nil, text)
	for len(wire) > 0 {
		n := copy(r.Space(), wire)
		r.Commit(n)
		wire = wire[n:]
	}
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	return v
}
