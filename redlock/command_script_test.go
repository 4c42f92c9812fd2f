package redlock

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// bothSides are a real server and a node in memory, which answer commands. The
// text of an error counts as an answer.
func bothSides(t *testing.T) map[string]func(args ...string) any {
	t.Helper()
	server := redistest.Servers(t, 1)[0]
	network := redistest.NewNetwork()
	t.Cleanup(func() { _ = network.Close() })
	node := redistest.NewNode(redistest.NodeConfig{})
	t.Cleanup(func() { _ = node.Close() })
	node.Serve(network.Listen("node0:6379"))
	inMemory, err := network.Dial(context.Background(), "tcp", "node0:6379")
	require.NoError(t, err)
	t.Cleanup(func() { _ = inMemory.Close() })
	return map[string]func(args ...string) any{
		"real": func(args ...string) any {
			v, err := server.Do(args...)
			if err != nil {
				return err.Error()
			}
			return v
		},
		"memory": func(args ...string) any { return ask(t, inMemory, args...) },
	}
}

// The two scripts on a real server, and the functions of memory_test.go that
// replace them on the node in memory, give the same answers and leave the same
// keys. Otherwise the tests in simulated time would prove nothing.
func TestScripts(t *testing.T) {
	sides := bothSides(t)
	const mine, others = "mine, 20 bytes long.", "another client's token"
	for name, c := range map[string]struct {
		set    []string // how the key is created
		script string
		args   []string
		answer int64
		ttl    int64 // of the key afterwards: -2 none, -1 forever
		value  string
	}{
		"release: ours":             {[]string{"SET", "k", mine, "PX", "60000"}, releaseSource, []string{mine}, 1, -2, ""},
		"release: another's":        {[]string{"SET", "k", others, "PX", "60000"}, releaseSource, []string{mine}, 0, 60000, others},
		"release: missing":          {nil, releaseSource, []string{mine}, 0, -2, ""},
		"release: expired":          {[]string{"SET", "k", mine, "PX", "1"}, releaseSource, []string{mine}, 0, -2, ""},
		"release: without a TTL":    {[]string{"SET", "k", mine}, releaseSource, []string{mine}, 1, -2, ""},
		"release: an empty value":   {[]string{"SET", "k", "", "PX", "60000"}, releaseSource, []string{mine}, 0, 60000, ""},
		"release: a longer value":   {[]string{"SET", "k", mine + "x", "PX", "60000"}, releaseSource, []string{mine}, 0, 60000, mine + "x"},
		"extend: ours, longer":      {[]string{"SET", "k", mine, "PX", "60000"}, extendSource, []string{mine, "90000"}, 1, 90000, mine},
		"extend: ours, shorter":     {[]string{"SET", "k", mine, "PX", "60000"}, extendSource, []string{mine, "30000"}, 1, 60000, mine},
		"extend: ours, a hair":      {[]string{"SET", "k", mine, "PX", "60000"}, extendSource, []string{mine, "1"}, 1, 60000, mine},
		"extend: ours, forever":     {[]string{"SET", "k", mine}, extendSource, []string{mine, "30000", "75000"}, 1, 75_000, mine},
		"extend: another's, longer": {[]string{"SET", "k", others, "PX", "60000"}, extendSource, []string{mine, "90000"}, 0, 60000, others},
		"extend: missing":           {nil, extendSource, []string{mine, "90000"}, 0, -2, ""},
		"extend: expired":           {[]string{"SET", "k", mine, "PX", "1"}, extendSource, []string{mine, "90000"}, 0, -2, ""},
		"extend: the longest TTL":   {[]string{"SET", "k", mine, "PX", "60000"}, extendSource, []string{mine, strconv.FormatInt(pure.LongestTTL.Milliseconds(), 10)}, 1, pure.LongestTTL.Milliseconds(), mine},
	} {
		for side, do := range sides {
			t.Run(name+"/"+side, func(t *testing.T) {
				do("DEL", "k")
				if c.set != nil {
					require.Equal(t, "OK", do(c.set...))
				}
				if len(c.set) == 5 && c.set[4] == "1" {
					time.Sleep(3 * ms) // a real server's clock cannot be simulated
				}
				require.Equal(t, c.answer, do(append([]string{"EVAL", c.script, "1", "k"}, c.args...)...))
				ttl := do("PTTL", "k").(int64)
				require.LessOrEqual(t, ttl, c.ttl)
				if c.ttl > 0 {
					require.Greater(t, ttl, c.ttl-10_000, "the server is not that slow")
				} else {
					require.Equal(t, c.ttl, ttl)
				}
				if c.ttl != -2 {
					require.Equal(t, c.value, do("GET", "k"))
				}
			})
		}
	}

	// The node in memory has only strings.
	real := sides["real"]
	real("DEL", "k")
	real("RPUSH", "k", mine)
	require.EqualValues(t, 0, real("EVAL", releaseSource, "1", "k", mine), "a list is not our token")
	require.EqualValues(t, 0, real("EVAL", extendSource, "1", "k", mine, "1000"))
	require.Equal(t, "list", real("TYPE", "k"))
	require.Equal(t, "OK", real("ACL", "SETUSER", "default", "-get"))
	for _, source := range []string{releaseSource, extendSource} {
		// The first text is that of 7.0, the second that of later versions.
		require.Regexp(t, "can't run this command|no permissions to run the 'get' command", real("EVAL", source, "1", "k", mine, "1000"),
			"what cannot be read may be ours")
	}
	require.Equal(t, "OK", real("ACL", "SETUSER", "default", "+get"))
}

// The release of many keys, on a real server and on the node in memory: a
// result for each key in its place, and only our keys are deleted.
func TestReleaseManyScript(t *testing.T) {
	sides := bothSides(t)
	const mine, others = "mine, 20 bytes long.", "another client's token"
	states := []struct {
		set    []string // after the key's name
		answer int64
	}{
		{[]string{mine, "PX", "60000"}, 1},
		{nil, 0},
		{[]string{others, "PX", "60000"}, 0},
		{[]string{mine}, 1},
		{[]string{mine + "x", "PX", "60000"}, 0},
		{[]string{""}, 0},
	}
	for n := 1; n <= 64; n++ {
		for side, do := range sides {
			do("FLUSHALL")
			want := make([]any, n)
			keys, tokens := make([]string, n), make([]string, n)
			left := 0
			for i := range n {
				state := states[(i+n)%len(states)]
				keys[i], tokens[i], want[i] = fmt.Sprint("k", i), mine, state.answer
				if state.set == nil {
					continue
				}
				require.Equal(t, "OK", do(append([]string{"SET", keys[i]}, state.set...)...))
				left += 1 - int(state.answer)
			}
			command := append(append([]string{"EVAL", releaseManySource, strconv.Itoa(n)}, keys...), tokens...)
			require.Equal(t, want, do(command...), "%s, %d keys", side, n)
			require.EqualValues(t, left, do("DBSIZE"), "%s, %d keys", side, n)
		}
	}
	for _, do := range sides { // each key has its own token; a key may occur twice
		do("FLUSHALL")
		do("SET", "a", mine)
		do("SET", "b", others)
		require.Equal(t, []any{int64(0), int64(1), int64(0), int64(1)},
			do("EVAL", releaseManySource, "4", "a", "a", "a", "b", others, mine, mine, others))
		require.EqualValues(t, 0, do("DBSIZE"))
	}
}

// The node in memory has only strings, and no permissions. For a user who may
// not run MGET, the keys are read one by one, and the reply shows which could
// not be read.
func TestReleaseManyAmongOddKeys(t *testing.T) {
	do := bothSides(t)["real"]
	releaseManyAmongOddKeys(t, do)
	require.Equal(t, "OK", do("ACL", "SETUSER", "default", "-mget"))
	releaseManyAmongOddKeys(t, do)
	do("SET", "a", mine)
	require.Equal(t, "OK", do("ACL", "SETUSER", "default", "-get"))
	require.Equal(t, []any{int64(-1), int64(-1)}, do("EVAL", releaseManySource, "2", "a", "b", mine, mine),
		"what cannot be read may be ours")
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

// The extension of many keys, on a real server and on the node in memory: a
// result for each key in its place, as extend.lua gives for a single one, and a
// TTL of its own for each.
func TestExtendManyScript(t *testing.T) {
	const others = "another client's token"
	states := []struct {
		set          []string // after the key's name
		want, answer int64    // the requested TTL
		left         int64    // the TTL afterwards, or a little less
	}{
		{[]string{mine, "PX", "60000"}, 90000, 1, 90000},
		{[]string{mine, "PX", "60000"}, 30000, 1, 60000},
		{nil, 90000, 0, -2},
		{[]string{others, "PX", "60000"}, 90000, 0, 60000},
		{[]string{mine}, 90000, 1, 120_000},
		{[]string{mine + "x", "PX", "60000"}, 90000, 0, 60000},
	}
	sides := bothSides(t)
	for n := 1; n <= 64; n++ {
		for side, do := range sides {
			do("FLUSHALL")
			var want []any
			var keys, args []string
			for i := range n {
				state := states[(i+n)%len(states)]
				keys, want = append(keys, fmt.Sprint("k", i)), append(want, state.answer)
				args = append(args, mine, fmt.Sprint(state.want), "120000")
				if state.set != nil {
					require.Equal(t, "OK", do(append([]string{"SET", keys[i]}, state.set...)...))
				}
			}
			command := append(append([]string{"EVAL", extendManySource, strconv.Itoa(n)}, keys...), args...)
			require.Equal(t, want, do(command...), "%s, %d keys", side, n)
			for i := range n {
				state := states[(i+n)%len(states)]
				ttl := do("PTTL", keys[i]).(int64)
				require.LessOrEqual(t, ttl, state.left, "%s, %d keys", side, n)
				require.Greater(t, ttl, state.left-10_000, "%s, %d keys: the server is not that slow", side, n)
			}
		}
	}
	do := sides["real"]
	extendManyAmongOddKeys(t, do)
	require.Equal(t, "OK", do("ACL", "SETUSER", "default", "-mget"))
	extendManyAmongOddKeys(t, do)
	require.Equal(t, "OK", do("ACL", "SETUSER", "default", "-get"))
	require.Equal(t, []any{int64(-1), int64(-1)}, do("EVAL", extendManySource, "2", "a", "list", mine, "90000", "90000", mine, "90000", "90000"),
		"what cannot be read may be ours")
}

func extendManyAmongOddKeys(t *testing.T, do func(...string) any) {
	do("FLUSHALL")
	do("SET", "a", mine, "PX", "60000")
	do("RPUSH", "list", mine)
	require.Equal(t, []any{int64(0), int64(1), int64(0)},
		do("EVAL", extendManySource, "3", "list", "a", "none", mine, "90000", "90000", mine, "90000", "90000", mine, "90000", "90000"))
	require.Greater(t, do("PTTL", "a"), int64(60000))
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

// A list in place of the lock's key: the lock cannot be acquired, and the list
// stays.
func TestAKeyOfAnotherTypeIsNobodysLock(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	c := realClient(t, []*redistest.Server{server})
	lock, err := c.TryAcquire(context.Background(), "r", time.Minute)
	require.NoError(t, err)
	_, err = server.Do("DEL", "r")
	require.NoError(t, err)
	_, err = server.Do("RPUSH", "r", "x")
	require.NoError(t, err)
	_, err = lock.Extend(context.Background(), time.Minute)
	require.ErrorIs(t, err, ErrNotHeld)
	require.ErrorIs(t, lock.Release(context.Background()), ErrNotHeld)
	_, err = c.TryAcquire(context.Background(), "r", time.Minute)
	require.Equal(t, ErrHeld, err)
	kind, _ := server.Do("TYPE", "r")
	require.Equal(t, "list", kind)
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

	plain, err := New(t.Context(), Config{Nodes: Nodes("redis://:hunter2@" + servers[0].TCPAddr())})
	require.NoError(t, err)
	defer closeNow(t, plain)
	_, err = plain.TryAcquire(context.Background(), "r", 10*time.Second)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.NotContains(t, err.Error(), "hunter2")
}

// The rights of docs/deploy.md suffice for all that a client does, including
// its fence, and fewer do not.
func TestAUserForLocksOnly(t *testing.T) {
	server := redistest.Servers(t, 1, redistest.OverTCP)[0]
	rights := strings.Fields(aclRights)
	for i, dropped := range append([]string{""}, "+set", "+get", "+del", "+pttl", "+pexpire", "+evalsha", "+script|load") {
		user := []string{"ACL", "SETUSER", fmt.Sprintf("locker%d", i), "on", ">hunter2", "~lock:*"}
		for _, right := range rights {
			if right != dropped {
				user = append(user, right)
			}
		}
		_, err := server.Do(user...)
		require.NoError(t, err)
		config := Config{
			Nodes: Nodes("redis://" + server.TCPAddr()), Username: user[2], Password: "hunter2", Prefix: "lock:", MaxTTL: time.Hour,
			NodeTimeout: 200 * ms, // a single node is given up after twenty times that
		}
		if dropped == "" {
			_, err = Init(t.Context(), config)
			require.NoError(t, err)
		}
		c, err := New(t.Context(), config)
		require.NoError(t, err)
		defer closeNow(t, c)
		lock, err := c.TryAcquire(context.Background(), "r", time.Minute)
		if dropped != "" {
			require.ErrorIs(t, err, ErrNoQuorum, "without %s", dropped)
			require.NotContains(t, err.Error(), "hunter2")
			continue
		}
		require.NoError(t, err)
		lock, err = lock.Extend(context.Background(), time.Hour)
		require.NoError(t, err)

		// The connection dies with a command in flight: its successor fences
		// it, and pays the debts.
		require.NoError(t, server.Stop())
		_, err = c.TryAcquire(context.Background(), "r2", 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Eventually(t, func() bool { return c.Nodes()[0].State != "up" }, 30*time.Second, ms, "it was not shed")
		require.NoError(t, server.Continue())
		require.NoError(t, c.Ready(context.Background()))
		require.NoError(t, lock.Release(context.Background()))
		keys, err := server.Do("DBSIZE")
		require.NoError(t, err)
		require.EqualValues(t, 2, keys, "the seal, and the record of fencing numbers")
	}
}

// A user with no more than these rights waits for no lock of another kind: a
// server has no class for a permission that a script lacks, but its words, and
// waiting cannot help (R31).
func TestMissingRightsForAKindEndTheWait_R31(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	user := append([]string{"ACL", "SETUSER", "locker", "on", ">hunter2", "~lock:*"}, strings.Fields(aclRights)...)
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

// ask sends one command over a connection and returns the reply as
// redistest.Server.Do does.
func ask(t *testing.T, nc net.Conn, args ...string) any {
	t.Helper()
	_, err := nc.Write(resp.AppendCommand(nil, args...))
	require.NoError(t, err)
	r := resp.NewReader(resp.Limits{})
	for {
		v, ok, err := r.Next()
		require.NoError(t, err)
		if ok {
			return copied(v)
		}
		_, err = r.Fill(nc)
		require.NoError(t, err)
	}
}

// copied converts a reply to the form that redistest.Server.Do returns: an
// integer, an array, or a text.
func copied(v resp.Value) any {
	if n, ok := v.Int64(); ok {
		return n
	}
	if v.Type() != resp.Array {
		return string(v.Bytes())
	}
	all := []any{}
	for e := range v.Elements() {
		all = append(all, copied(e))
	}
	return all
}
