package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/stretchr/testify/require"
)

// The scripts among keys that are no locks, and for a user with fewer rights:
// what cannot be read may be ours, and each key of a merged command has its own
// result. What they do to locks is recorded in testdata/scripts.
func TestScriptsAmongOddKeys(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	do := func(args ...string) any {
		v, err := server.Do(args...)
		if err != nil {
			return err.Error()
		}
		return v
	}
	do("RPUSH", "k", mine)
	require.EqualValues(t, 0, do("EVAL", releaseSource, "1", "k", mine), "a list is not our token")
	require.EqualValues(t, 0, do("EVAL", extendSource, "1", "k", mine, "1000"))
	require.Equal(t, "list", do("TYPE", "k"))
	for _, right := range []string{"+mget", "-mget"} { // without it, the keys are read one by one
		require.Equal(t, "OK", do("ACL", "SETUSER", "default", right))
		releaseManyAmongOddKeys(t, do)
		extendManyAmongOddKeys(t, do)
	}
	require.Equal(t, "OK", do("ACL", "SETUSER", "default", "-get"))
	for _, source := range []string{releaseSource, extendSource} {
		// The first text is that of 7.0, the second that of later versions.
		require.Regexp(t, "can't run this command|no permissions to run the 'get' command", do("EVAL", source, "1", "k", mine, "1000"))
	}
	require.Equal(t, []any{int64(-1), int64(-1)}, do("EVAL", releaseManySource, "2", "a", "b", mine, mine))
	require.Equal(t, []any{int64(-1), int64(-1)}, do("EVAL", extendManySource, "2", "a", "list", mine, "90000", "90000", mine, "90000", "90000"))
}

const mine = "mine, 20 bytes long."

func releaseManyAmongOddKeys(t *testing.T, do func(...string) any) {
	do("FLUSHALL")
	odd := map[string][]string{
		"list": {"RPUSH", "list", mine}, "set": {"SADD", "set", mine}, "hash": {"HSET", "hash", mine, mine},
		"zset": {"ZADD", "zset", "1", mine}, "stream": {"XADD", "stream", "*", mine, mine},
	}
	for kind, create := range odd {
		do(create...)
		do("SET", "a", mine)
		do("SET", "b", mine)
		require.Equal(t, []any{int64(1), int64(0), int64(1), int64(0)},
			do("EVAL", releaseManySource, "4", "a", kind, "b", kind, mine, mine, mine, mine))
		require.Equal(t, kind, do("TYPE", kind))
		require.EqualValues(t, 0, do("EXISTS", "a", "b"))
	}
	do("SET", "a", mine)
	do("SET", "b", mine)
	do("CONFIG", "SET", "min-replicas-to-write", "1")
	answer := do("EVAL", releaseManySource, "3", "nothing", "a", "b", mine, mine, mine)
	require.Contains(t, answer, "NOREPLICAS", "all are refused, and nothing is done")
	require.EqualValues(t, 2, do("EXISTS", "a", "b"))
	do("CONFIG", "SET", "min-replicas-to-write", "0")
}

func extendManyAmongOddKeys(t *testing.T, do func(...string) any) {
	do("FLUSHALL")
	do("SET", "a", mine, "PX", "60000")
	do("RPUSH", "list", mine)
	require.Equal(t, []any{int64(0), int64(1), int64(0)},
		do("EVAL", extendManySource, "3", "list", "a", "none", mine, "90000", "90000", mine, "90000", "90000", mine, "90000", "90000"))
	require.Greater(t, do("PTTL", "a"), int64(60000))
	require.Equal(t, []any{int64(1)}, do("EVAL", extendManySource, "1", "a", mine, "30000", "30000"))
	require.Greater(t, do("PTTL", "a"), int64(60000), "it never shortens")
	require.EqualValues(t, -1, do("PTTL", "list"))
}

// A real server executes the encoded commands as intended, for names of any
// bytes (R19).
func TestCommandsOnARealServer(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	c := realClient(t, []*redistest.Server{server})
	for _, name := range hostileNames {
		lock, err := c.TryAcquire(context.Background(), name, time.Minute)
		require.NoError(t, err, "%.40q", name)
		token := lock.Token()
		value, err := server.Do("GET", name)
		require.NoError(t, err)
		require.Equal(t, string(token[:]), value)
		keys, err := server.Do("DBSIZE")
		require.NoError(t, err)
		require.EqualValues(t, 1, keys, "%.40q made another key", name)
		lock, err = lock.Extend(context.Background(), time.Hour)
		require.NoError(t, err)
		ttl, err := server.Do("PTTL", name)
		require.NoError(t, err)
		require.Greater(t, ttl, int64(59*60*1000))
		require.NoError(t, lock.Release(context.Background()))
		keys, _ = server.Do("DBSIZE")
		require.EqualValues(t, 0, keys)
	}
	lock, err := c.TryAcquire(context.Background(), "r", pure.LongestTTL)
	require.NoError(t, err, "a hundred years")
	require.NoError(t, lock.Release(context.Background()))
}

// The same over TLS, with the roots of Config.TLS, a password and another
// database.
func TestTLSAndPasswordOnRealServers(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTLS, redistest.Password("hunter2"))
	var urls []string
	for _, s := range servers {
		urls = append(urls, "rediss://"+s.TCPAddr()+"/3")
	}
	config := Config{Nodes: Nodes(urls...), Password: "hunter2", TLS: servers[0].TLSConfig(), NodeTimeout: 5 * time.Second}
	_, err := Init(t.Context(), config)
	require.NoError(t, err)
	c, err := New(t.Context(), config)
	require.NoError(t, err)
	defer closeNow(t, c)
	lock, err := c.Acquire(context.Background(), "r", 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, lock.Release(context.Background()))

	stranger, err := New(t.Context(), Config{Nodes: Nodes(urls...), Password: "hunter2"})
	require.NoError(t, err)
	defer closeNow(t, stranger)
	require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(stranger.Nodes()[0].Err), "certificate") }, 15*time.Second, ms)
	_, err = stranger.TryAcquire(context.Background(), "r", 10*time.Second)
	require.ErrorIs(t, err, ErrNoQuorum, "TLS verifies by default (R27)")
	require.ErrorContains(t, err, "certificate")
	require.NotContains(t, err.Error(), "hunter2")

	_, err = New(t.Context(), Config{Nodes: Nodes("redis://" + servers[0].TCPAddr()), Password: "hunter2", TLS: servers[0].TLSConfig()})
	require.ErrorIs(t, err, ErrConfig, "the password would go out in clear (R27)")
	plain, err := New(t.Context(), Config{Nodes: Nodes("redis://:hunter2@" + servers[0].TCPAddr())})
	require.NoError(t, err)
	defer closeNow(t, plain)
	_, err = plain.TryAcquire(context.Background(), "r", 10*time.Second)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.NotContains(t, err.Error(), "hunter2")
}

// A user with no more than these rights waits for no lock of another kind: a
// server has no class for a permission that a script lacks, but its words, and
// waiting cannot help (R31).
func TestMissingRightsForAKindEndTheWait_R31(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	user := append([]string{"ACL", "SETUSER", "locker", "on", ">hunter2", "~lock:*"}, strings.Fields(pure.Rights)...)
	_, err := server.Do(user...)
	require.NoError(t, err)
	config := Config{Nodes: Nodes(server.URL()), Username: "locker", Password: "hunter2", Prefix: "lock:", NodeTimeout: time.Second}
	_, err = Init(t.Context(), config)
	require.NoError(t, err)
	c, err := New(t.Context(), config)
	require.NoError(t, err)
	defer closeNow(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, k := range map[string]Locker{
		"a reader": c.RW("r").Read(), "a writer": c.RW("w").Write(), "a permit": c.Semaphore("s", 2), "in order": c.Fair("f"),
	} {
		_, err := k.Acquire(ctx, time.Second)
		require.ErrorIs(t, err, ErrNoQuorum, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, name)
		require.ErrorContains(t, err, "answered with the error NOPERM: ERR ", name)
		require.ErrorContains(t, err, "; waiting cannot fix this", name)
	}
}

// nativeCommands returns the native commands that a server has, by its answers,
// not by its version.
func nativeCommands(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	var all []string
	for _, command := range [][]string{{"DELEX", "none", "IFEQ", "a"}, {"DELIFEQ", "none", "a"}} {
		if v, err := s.Do(command...); err == nil && v == int64(0) {
			all = append(all, command[0])
		}
	}
	return all
}

// patient returns a client of real servers that waits for late votes.
func patient(t *testing.T, servers []*redistest.Server) *Client {
	t.Helper()
	c, err := New(t.Context(), Config{Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Forgetful: true})
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(t, c) })
	require.NoError(t, c.Ready(t.Context()))
	return c
}

// R25 on real servers of any version, or of several versions if REDMUX_SERVERS
// names them: the form is what all have in common. The answers for each kind of
// key match the script's (R9).
func TestReleaseFormOnRealServers_R25(t *testing.T) {
	servers := redistest.Servers(t, 3)
	common := map[string]int{}
	for i, s := range servers {
		commands := nativeCommands(t, s)
		t.Logf("server %d has the native commands %v", i, commands)
		for _, command := range commands {
			common[command]++
		}
	}
	want := "script"
	for _, f := range kind.ReleaseForms {
		if common[f.Name] == len(servers) {
			want = f.Name
			break
		}
	}
	t.Logf("covered: release by %s", want)
	c := patient(t, servers)
	require.Eventually(t, func() bool {
		for _, n := range c.Nodes() {
			if n.State != "up" {
				return false
			}
		}
		return true
	}, 15*time.Second, ms)
	require.Equal(t, want, c.Stats().ReleaseForm)
	for _, kind := range [][]string{{"list", "RPUSH", "r", "x"}, {"hash", "HSET", "r", "f", "x"}, {"string", "SET", "r", "x"}} {
		lock, err := c.TryAcquire(t.Context(), "r", time.Minute)
		require.NoError(t, err)
		for _, s := range servers {
			_, err := s.Do("DEL", "r")
			require.NoError(t, err)
			_, err = s.Do(kind[1:]...)
			require.NoError(t, err)
		}
		require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
		for i, s := range servers {
			require.Eventually(t, func() bool { return c.Nodes()[i].Debts == 0 }, 15*time.Second, ms)
			found, err := s.Do("TYPE", "r")
			require.NoError(t, err)
			require.Equal(t, kind[0], found)
			_, err = s.Do("DEL", "r")
			require.NoError(t, err)
		}
		require.Equal(t, want, c.Stats().ReleaseForm, "a key is no reason to leave the form")
	}
	for i := range 50 {
		lock, err := c.TryAcquire(t.Context(), fmt.Sprint("r", i), time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
	}
	for i, s := range servers {
		require.Eventually(t, func() bool { n, err := s.Do("DBSIZE"); return err == nil && n == int64(0) }, 15*time.Second, ms)
		require.Equal(t, 1, c.Nodes()[i].Connects)
	}
}

// A user who may not run the native command, or loses the right to it while
// connected, still releases everything (R22, R24).
func TestNativeReleaseIsForbiddenOnARealServer_R24(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	commands := nativeCommands(t, server)
	if len(commands) == 0 {
		t.Skip("this server has no native command of release")
	}
	form := commands[0]
	t.Logf("covered: %s", form)
	c := patient(t, []*redistest.Server{server})
	require.Equal(t, form, c.Stats().ReleaseForm)
	lock, err := c.TryAcquire(context.Background(), "r", time.Minute)
	require.NoError(t, err)
	_, err = server.Do("ACL", "SETUSER", "default", "-"+form)
	require.NoError(t, err)
	require.NoError(t, lock.Release(context.Background()), "cured by the script")
	require.Equal(t, "script", c.Stats().ReleaseForm)
	require.Zero(t, c.Nodes()[0].Debts)

	late := patient(t, []*redistest.Server{server})
	require.Equal(t, "script", late.Stats().ReleaseForm, "its handshake was told so")
	lock, err = late.TryAcquire(context.Background(), "r", time.Minute)
	require.NoError(t, err)
	require.NoError(t, lock.Release(context.Background()))
	_, err = server.Do("ACL", "SETUSER", "default", "+"+form)
	require.NoError(t, err)
	n, err := server.Do("DBSIZE")
	require.NoError(t, err)
	require.EqualValues(t, 0, n)
	require.False(t, errors.Is(lock.Release(context.Background()), ErrNoQuorum))
}
