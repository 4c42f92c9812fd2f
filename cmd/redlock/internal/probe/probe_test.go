package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
)

// patience bounds the wait for what comes at once on an idle machine.
const patience = 30 * time.Second

// to returns a probe of the node at a URL, which is closed with the test.
func to(t *testing.T, url string) *Probe {
	t.Helper()
	e, err := conn.ParseURL(url)
	require.NoError(t, err)
	p := New(e, "lock:")
	t.Cleanup(p.Close)
	return p
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestLookAtARealServer(t *testing.T) {
	redistest.NoLeaks(t)
	server := redistest.Servers(t, 1, redistest.OverTCP)[0]
	p := to(t, server.URL())
	f := p.Look(soon(t))
	require.NoError(t, f.Err)
	assert.True(t, f.Local)
	assert.False(t, f.TLS || f.Unverified || f.Secret)
	assert.Len(t, f.RunID(), 40)
	assert.Equal(t, "master", f.Role())
	assert.Equal(t, "noeviction", f.Policy())
	assert.False(t, f.Clustered())
	_, known := f.Uptime()
	assert.True(t, known)
	assert.Equal(t, "default", f.User)
	assert.Equal(t, "no", f.Config["appendonly"])
	assert.Equal(t, "", f.Config["save"])
	assert.Contains(t, f.Config, "save", "it was told, and is empty")
	assert.EqualValues(t, 0, f.Watchers)
	assert.EqualValues(t, 0, f.Flushes)
	assert.Equal(t, SealAbsent, f.Seal.State)
	used, ok := f.Info.Number("used_memory")
	assert.True(t, ok && used > 0)
	for _, r := range f.Rights {
		assert.Equal(t, conn.ClassNone, r.Class, r.Name)
	}
	assert.Empty(t, p.Others(soon(t), f.RunID()))
	assert.Equal(t, []string{f.RunID()}, p.Others(soon(t), "another"), "it is dialed again (R22)")
	keys, err := server.Do("DBSIZE")
	require.NoError(t, err)
	assert.Zero(t, keys, "a look leaves nothing behind")

	_, err = server.Do("FLUSHALL")
	require.NoError(t, err)
	const member = "0123456789abcdef"
	seal := pure.Seal{
		Seat: pure.Seat{Member: member, Open: pure.IdentityOf([]string{member})}, Names: pure.Names("").With(member, p.Name()),
		Run: "ab", MaxTTL: time.Minute, Watched: 61 * time.Second,
	}
	_, err = server.Do("SET", "lock:redlock:seal", seal.String())
	require.NoError(t, err)
	_, err = server.Do("SET", "lock:x", "y", "PX", "100000")
	require.NoError(t, err)
	f = p.Look(soon(t))
	require.NoError(t, f.Err)
	assert.EqualValues(t, 1, f.Flushes)
	assert.Equal(t, Seal{State: SealThere, Seal: seal}, f.Seal)
	all, expiring, ok := f.Keyspace(0)
	assert.True(t, ok)
	assert.EqualValues(t, 2, all)
	assert.EqualValues(t, 1, expiring)
	all, _, ok = f.Keyspace(3)
	assert.True(t, ok)
	assert.Zero(t, all)
}

func TestLookAsAUserWhoMayLittle(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	_, err := server.Do("ACL", "SETUSER", "poor", "on", ">secret", "resetchannels", "~lock:*", "+get", "+set", "+hello", "+auth", "+ping")
	require.NoError(t, err)
	f := to(t, strings.Replace(server.URL(), "unix://", "unix://poor:secret@", 1)).Look(soon(t))
	require.NoError(t, f.Err)
	assert.True(t, f.Secret)
	assert.Nil(t, f.Config)
	assert.EqualValues(t, -1, f.Flushes)
	assert.EqualValues(t, -1, f.Watchers)
	assert.Equal(t, "", f.RunID())
	_, _, ok := f.Keyspace(0)
	assert.False(t, ok)
	_, ok = f.Uptime()
	assert.False(t, ok)
	for _, r := range f.Rights {
		want := conn.ClassNoPerm
		if r.Name == "SET" || r.Name == "GET" || r.Name == "PING" {
			want = conn.ClassNone
		}
		assert.Equal(t, want, r.Class, r.Name)
	}
	keys, err := server.Do("DBSIZE")
	require.NoError(t, err)
	assert.Zero(t, keys, "a trial leaves nothing behind, though the user may not delete")
	_, err = to(t, strings.Replace(server.URL(), "unix://", "unix://poor:secret@", 1)).Clock(soon(t), 2)
	require.ErrorContains(t, err, "TIME")
	assert.NotContains(t, err.Error(), "secret")
}

// The trial script reads its key: a user who may run scripts, but not on keys
// with this prefix, is found out.
func TestLookWithAnotherPrefix(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	_, err := server.Do("ACL", "SETUSER", "other", "on", ">secret", "~other:*", "+@all")
	require.NoError(t, err)
	f := to(t, strings.Replace(server.URL(), "unix://", "unix://other:secret@", 1)).Look(soon(t))
	require.NoError(t, f.Err)
	for _, r := range f.Rights {
		switch r.Name {
		case "SET", "GET", "MGET", "DEL", "PTTL", "PEXPIRE", "EVALSHA":
			assert.Equal(t, conn.ClassNoPerm, r.Class, r.Name)
		default:
			assert.Equal(t, conn.ClassNone, r.Class, r.Name)
		}
	}
	assert.Equal(t, SealUnknown, f.Seal.State)
}

func TestClockOfARealServer(t *testing.T) {
	server := redistest.Servers(t, 1, redistest.OwnClock)[0]
	server.Clock().Jump(time.Hour)
	server.Clock().SetRate(1.5)
	p := to(t, server.URL())
	first, err := p.Clock(soon(t), 5)
	require.NoError(t, err)
	require.Len(t, first, 5)
	var clock Clock
	// Until the rate is certainly off by a tenth, which may take several bursts
	// on a busy machine.
	require.Eventually(t, func() bool {
		later, err := p.Clock(soon(t), 5)
		require.NoError(t, err)
		clock, _ = Estimate([][]Sample{first, later})
		rate, wrong := clock.Rate()
		return wrong < 0.1 && rate > 0.4
	}, patience, 50*ms)
	rate, wrong := clock.Rate()
	assert.InDelta(t, 0.5, rate, wrong)
	assert.Greater(t, clock.Ahead, 59*time.Minute)
	assert.Greater(t, clock.RoundTrip, time.Duration(0))
}

func TestAProbeOfADeadNodeTriesAgain(t *testing.T) {
	redistest.NoLeaks(t)
	server := redistest.Servers(t, 1)[0]
	p := to(t, server.URL())
	require.NoError(t, server.Kill())
	require.Error(t, p.Look(soon(t)).Err)
	require.NoError(t, server.Restart())
	before := p.Look(soon(t))
	require.NoError(t, before.Err)
	require.NoError(t, server.Restart())
	var after Facts
	require.Eventually(t, func() bool { // the first call may find the connection lost
		after = p.Look(soon(t))
		return after.Err == nil
	}, patience, 10*ms)
	assert.NotEqual(t, before.RunID(), after.RunID())
}

func TestAStoppedNodeIsGivenUpInTime(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	p := to(t, server.URL())
	require.NoError(t, p.Look(soon(t)).Err)
	require.NoError(t, server.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
	defer cancel()
	require.ErrorIs(t, p.Look(ctx).Err, context.DeadlineExceeded)
	_, err := p.Clock(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// Whatever a node answers, Look returns, keeps little of it, and nothing that
// could move a cursor.
func TestHostileAnswers(t *testing.T) {
	huge := strings.Repeat("9", 400)
	for name, reply := range map[string]string{
		"escape sequences": string(resp.AppendBulkString(nil, "used_memory:1\r\nrole:\x1b[2Jmaster\xff\r\nrun_id:"+huge+"\r\ndb0:keys="+huge+",expires=-1\r\n")),
		"huge numbers":     string(resp.AppendBulkString(nil, "cmdstat_flushall:calls="+huge+",\r\nmaxmemory:-9223372036854775808\r\n")),
		"two huge numbers": string(resp.AppendBulkString(nil, fmt.Sprintf("cmdstat_flushall:calls=%d,\r\ncmdstat_flushdb:calls=%d,\r\n", int64(math.MaxInt64), int64(math.MaxInt64)))),
		"an integer":       ":-1\r\n",
		"null":             "_\r\n",
		"nulls of RESP2":   "*-1\r\n",
		"nothing":          "*0\r\n",
		"nested":           "*2\r\n*4\r\n:1\r\n:-9223372036854775808\r\n:9223372036854775807\r\n*1\r\n$3\r\n\x1b[H\r\n*4\r\n:1\r\n:99999999999999\r\n:99999999999999\r\n:0\r\n",
		"odd map":          "%1\r\n:1\r\n*1\r\n:2\r\n",
		"strange time":     "*2\r\n$19\r\n9223372036854775807\r\n$1\r\n0\r\n",
		"an error":         "-ERR \x1b[31m\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			node := redistest.NewNode(redistest.NodeConfig{})
			defer node.Close()
			network := redistest.NewNetwork()
			defer network.Close()
			node.Serve(network.Listen("node:6379"))
			shaken := false
			node.Handle(func(_ int, args []string) ([]byte, bool) {
				switch strings.ToUpper(args[0]) {
				case "HELLO", "CLIENT", "AUTH", "SELECT":
					return nil, false
				case "INFO":
					if len(args) > 1 && args[1] == "memory" && !shaken {
						shaken = true
						return nil, false
					}
					if !shaken {
						return nil, false
					}
				}
				return []byte(reply), true
			})
			p := New(conn.Endpoint{Addr: "node:6379"}, "")
			defer p.Close()
			p.dial = network.Dial
			f := p.Look(soon(t))
			require.NoError(t, f.Err)
			for key, value := range f.Info {
				assert.LessOrEqual(t, len(value), maxLine, key)
				assert.Regexp(t, `^[ -~]*$`, value)
			}
			assert.LessOrEqual(t, len(f.Info), len(wanted)+100)
			assert.LessOrEqual(t, len(f.Slow), slowEntries)
			for _, s := range f.Slow {
				assert.Regexp(t, `^[ -~]{0,64}$`, s.Command)
				assert.GreaterOrEqual(t, s.Took, time.Duration(0))
				assert.GreaterOrEqual(t, s.Ago, time.Duration(0))
			}
			_, _, _ = f.Keyspace(0)
			_, err := p.Clock(soon(t), 1)
			require.Error(t, err)
			assert.True(t, errors.Is(err, errTime) || strings.Contains(err.Error(), "TIME"), err)
		})
	}
}
