package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/resp"
)

// statusOf asks for the status of a resource as a program would.
func statusOf(t *testing.T, nodes, resource string, code int) statusReport {
	t.Helper()
	return asJSON[statusReport](t, code, "status", nodes, resource)
}

func TestStatus(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)

	r := statusOf(t, nodes, "job", exitOK)
	assert.Equal(t, verdictFree, r.Verdict)
	assert.Equal(t, 3, r.Agree)
	assert.Nil(t, r.TTL)
	assert.Contains(t, within("status", nodes, "job").stdout, `"job": free on 3 of 3 nodes`)

	c := opened(t, servers)
	defer shut(c)
	lock, err := c.TryAcquire(t.Context(), "job", time.Minute)
	require.NoError(t, err)
	// The last of the keys may be set after the grant.
	eventually(t, "a key on all nodes", func() bool { return statusOf(t, nodes, "job", exitOK).Agree == 3 })
	r = statusOf(t, nodes, "job", exitOK)
	assert.Equal(t, verdictHeld, r.Verdict)
	assert.Equal(t, lock.Token().Fingerprint(), r.Holder)
	assert.Equal(t, 2, r.Quorum)
	require.NotNil(t, r.TTL)
	assert.Greater(t, *r.TTL, 0.0)
	assert.LessOrEqual(t, *r.TTL, 60_000.0)
	for _, n := range r.Nodes {
		assert.Equal(t, r.Holder, n.Holder)
	}
	text := within("status", nodes, "job").stdout
	assert.Contains(t, text, `"job": held by `+r.Holder+" on 3 of 3 nodes, for ")
	token := lock.Token()
	assert.NotContains(t, text, string(token[:]), "R27")
	require.NoError(t, lock.Release(t.Context()))
	// The last of them may also be deleted after the release.
	eventually(t, "no key on any node", func() bool {
		r := statusOf(t, nodes, "job", exitOK)
		return r.Verdict == verdictFree && r.Agree == 3
	})

	// What two clients that competed have left.
	for i, value := range []string{"one", "another"} {
		_, err := servers[i].Do("SET", "job", value, "PX", "600000")
		require.NoError(t, err)
	}
	assert.Equal(t, verdictRemains, statusOf(t, nodes, "job", exitOK).Verdict)
	assert.Contains(t, within("status", nodes, "job").stdout, "remains of failed attempts on 2 of 3 nodes")

	_, err = servers[1].Do("DEL", "job")
	require.NoError(t, err)
	r = statusOf(t, nodes, "job", exitOK)
	assert.Equal(t, verdictFree, r.Verdict)
	assert.Equal(t, 2, r.Agree)
	assert.Contains(t, within("status", nodes, "job").stdout, "free on 2 of 3 nodes, with remains on 1")

	require.NoError(t, servers[2].Kill())
	r = statusOf(t, nodes, "job", exitOK)
	assert.Equal(t, verdictUnclear, r.Verdict, "the one that is away may hold the key")
	assert.NotEmpty(t, r.Nodes[2].Error)
	require.NoError(t, servers[1].Kill())
	r = statusOf(t, nodes, "job", exitNoQuorum)
	assert.Equal(t, verdictUnknown, r.Verdict)
	assert.NotEmpty(t, r.Error)
}

func TestStatusOfStrangeKeys(t *testing.T) {
	servers, nodes := masters(t, 1)
	_, err := servers[0].Do("SET", "app:job", "somebody")
	require.NoError(t, err)
	got := within("status", nodes, "--prefix=app:", "job")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.stdout, "for ever")
	assert.Contains(t, got.stdout, "none")
	assert.NotContains(t, got.stdout, "somebody", "R27")
	_, err = servers[0].Do("LPUSH", "list", "x")
	require.NoError(t, err)
	got = within("status", nodes, "list")
	assert.Contains(t, got.stdout, `"list": a key of type list, 1 element on 1 of 1 node; it never expires; another program may be using it`)

	got = within("status", nodes, "\x1b[2J\u202eevil\n")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.stdout, `"?[2J?evil?": free`)
	assert.NotContains(t, got.stdout, "\x1b")
	assert.Equal(t, exitUsage, within("status", nodes, strings.Repeat("x", 1025)).code)
	assert.Equal(t, exitUsage, within("status", nodes, "--watch", strings.Repeat("x", 1025)).code, "it does not wait for that to change")
	assert.Equal(t, exitUsage, within("status", nodes, "--every=1ms", "x").code)
}

// A key of another kind may be a lock that another program holds. It is named,
// and its content is not shown.
func TestStatusOfLocksOfOtherKinds_R27(t *testing.T) {
	servers, nodes := masters(t, 3)
	const owner = "8c1d2f30-1f6a-4c2b-9a61-0d5b2a7e44aa:37"
	do(t, servers, "HSET", "redisson", owner, "1")
	do(t, servers, "PEXPIRE", "redisson", "600000")
	do(t, servers, "HSET", "shared", owner+":write", "1", "mode", "write")
	do(t, servers, "HSET", "profile", "name", "secret", "age", "7")
	do(t, servers, "INCRBY", "counter", "4711")
	do(t, servers, "SET", "page", strings.Repeat("secret", 1000), "PX", "600000")
	do(t, servers, "ZADD", "queue", "1", "secret", "2", "other")
	do(t, servers, "SETBIT", "bits", "3", "1")
	do(t, servers, "SET", "python", "0123456789abcdef0123", "PX", "600000")
	for i, value := range []string{"1", "2", "3"} {
		do(t, servers[i:i+1], "SET", "semaphore", value)
	}
	for resource, want := range map[string]string{
		"redisson":  "a Redisson lock: a hash of 1 field on 3 of 3 nodes; it expires in ",
		"shared":    "a Redisson lock: a hash of 2 fields on 3 of 3 nodes; it never expires",
		"profile":   "a hash of 2 fields on 3 of 3 nodes",
		"counter":   "a whole number (a counter?) on 3 of 3 nodes",
		"semaphore": "a whole number (a counter?) on 3 of 3 nodes",
		"page":      "a string of 6000 bytes on 3 of 3 nodes; it expires in ",
		"queue":     "a key of type zset, 2 elements on 3 of 3 nodes",
	} {
		got := within("status", nodes, resource)
		assert.Equal(t, exitOK, got.code, got)
		assert.Contains(t, got.stdout, want)
		assert.Contains(t, got.stdout, "another program may be using it")
		assert.NotContains(t, got.stdout, "remove")
		for _, secret := range []string{"secret", "8c1d2f30", "4711", "name"} {
			assert.NotContains(t, got.stdout, secret, resource)
		}
		r := statusOf(t, nodes, resource, exitOK)
		assert.Equal(t, verdictForeign, r.Verdict, resource)
		assert.True(t, r.Nodes[0].Foreign)
		assert.NotEmpty(t, r.Nodes[0].Type)
		assert.NotEmpty(t, r.Nodes[0].Kind)
		assert.Empty(t, r.Holder)
	}
	assert.Equal(t, verdictHeld, statusOf(t, nodes, "python", exitOK).Verdict, "the token of another implementation")
	assert.Equal(t, verdictHeld, statusOf(t, nodes, "bits", exitOK).Verdict, "nothing says that it is no token")

	// An attempt says so too.
	got := within("acquire", nodes, "-n", "redisson")
	assert.Equal(t, exitHeld, got.code)
	// The outcome is known when a quorum has answered.
	assert.Regexp(t, `resource "redisson" is held: a key that is not a string on [23] of 3 nodes; it expires in `, got.stderr)

	// A user with only the rights that locks need may not ask for the type.
	do(t, servers, "ACL", "SETUSER", "locks", "on", ">pw", "~*", "+@all", "-type")
	t.Setenv("PW", "pw")
	got = within("status", nodes, "--user=locks", "--password-env=PW", "redisson")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.stdout, "a key that is not a string on 3 of 3 nodes")
}

// The keys that are asked about are those of the prefix, in the database of the
// nodes.
func TestStatusOfOtherKindsElsewhere_R1(t *testing.T) {
	config := redlock.Config{MaxTTL: longest, Prefix: "app:"}
	servers, _ := unopened(t, 3)
	urls := redistest.URLs(servers)
	for i := range urls {
		urls[i] += "?db=3"
	}
	config.Nodes = redlock.Nodes(urls...)
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
	do(t, servers, "EVAL", "redis.call('SELECT', 3) return redis.call('HSET', KEYS[1], ARGV[1], 1)", "1",
		"app:shared", "8c1d2f30-1f6a-4c2b-9a61-0d5b2a7e44aa:37")
	do(t, servers, "RPUSH", "app:shared", "in another database")
	do(t, servers, "RPUSH", "shared", "without the prefix")
	got := within("status", "--nodes="+strings.Join(urls, ","), "--prefix=app:", "shared")
	assert.Equal(t, exitOK, got.code, got)
	assert.Contains(t, got.stdout, "a Redisson lock: a hash of 1 field on 3 of 3 nodes")
}

func TestVerdicts(t *testing.T) {
	down := admin.InspectedNode{Err: errors.New("down")}
	free, foreign := admin.InspectedNode{}, admin.InspectedNode{Foreign: true}
	held := func(by string) admin.InspectedNode { return admin.InspectedNode{Holder: by} }
	for _, c := range []struct {
		state admin.LockState
		nodes []admin.InspectedNode
		want  verdict
	}{
		{admin.StateHeld, []admin.InspectedNode{held("a"), held("a"), free}, verdictHeld},
		{admin.StateFree, []admin.InspectedNode{free, free, held("a")}, verdictFree},
		{admin.StateUnclear, []admin.InspectedNode{free, held("a"), held("b")}, verdictRemains},
		{admin.StateUnclear, []admin.InspectedNode{free, held("a"), down}, verdictUnclear},
		{admin.StateUnclear, []admin.InspectedNode{free, held("a"), held("b"), down, free}, verdictRemains},
		{admin.StateUnclear, []admin.InspectedNode{free, held("a"), held("a"), down, free}, verdictUnclear},
		{admin.StateUnclear, []admin.InspectedNode{free, free, down, down}, verdictUnknown},
		{admin.StateUnclear, []admin.InspectedNode{down}, verdictUnknown},
		{admin.StateUnclear, []admin.InspectedNode{foreign, foreign, free}, verdictForeign},
		{admin.StateUnclear, []admin.InspectedNode{foreign, foreign, down}, verdictForeign},
		{admin.StateUnclear, []admin.InspectedNode{foreign, held("a"), down}, verdictUnclear},
		{admin.StateFree, []admin.InspectedNode{foreign, free, free}, verdictFree},
		{admin.StateHeld, []admin.InspectedNode{foreign, held("a"), held("a")}, verdictHeld},
	} {
		assert.Equal(t, c.want, judge(admin.Inspection{State: c.state, Nodes: c.nodes}, nil), "%v", c.nodes)
	}
	// A node that is down may have a reader, and so may decide.
	for want, nodes := range map[verdict][]admin.InspectedNode{
		verdictRemains: {free, free, free}, verdictUnclear: {free, free, down}, verdictUnknown: {free, down, down},
	} {
		found := admin.Inspection{State: admin.StateUnclear, Nodes: nodes, Readers: []admin.Participant{{Nodes: []int{0}}}}
		assert.Equal(t, want, judge(found, nil))
	}
}

// A watch that goes to a file or a pipe consists of plain lines. It shows
// changes, survives a lost quorum, and ends with success after an interrupt.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 1)
	cmd := program(t, "status", nodes, "--watch", "--every=100ms", "job")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, redistest.Spawn(cmd))
	lines := bufio.NewScanner(out)
	until := func(what string) {
		t.Helper()
		for lines.Scan() {
			assert.NotContains(t, lines.Text(), "\x1b")
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		require.FailNow(t, "it ended", "before it said %q", what)
	}
	until(`"job": free`)
	c := client(t, servers)
	lock, err := c.TryAcquire(context.Background(), "job", time.Minute)
	require.NoError(t, err)
	until(`"job": held by ` + lock.Token().Fingerprint())
	require.NoError(t, servers[0].Kill())
	until(`"job": unknown`)
	require.NoError(t, servers[0].Restart())
	until(`"job": free`)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	assert.Equal(t, exitOK, await(t, cmd))
}

// An interrupt during a wait for a node ends a look as interrupted, and a watch
// with success.
func TestStatusInterrupted(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 1)
	require.NoError(t, servers[0].Stop())
	for command, want := range map[string]int{
		"status --watch x": exitOK, "status --json x": signalCode(syscall.SIGTERM),
		"nodes --watch": exitOK, "nodes": signalCode(syscall.SIGTERM), "doctor": signalCode(syscall.SIGTERM),
		"release --force --yes x": signalCode(syscall.SIGTERM),
	} {
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		var stdout, stderr bytes.Buffer
		code := run(append(strings.Fields(command), nodes, "--timeout=1h"), strings.NewReader(""), &stdout, &stderr, signals)
		assert.Equal(t, want, code, command)
		assert.Empty(t, stdout.String())
	}
}

// The command works with another MaxTTL, or with one while the masters are
// quarantined: nothing is granted, and nothing kept.
func TestStatusDoesNotMindMaxTTL(t *testing.T) {
	servers, nodes := masters(t, 1)
	do(t, servers, "SET", "redlock:seal", regexp.MustCompile(`max_ttl_ms=\d+`).ReplaceAllString(seal(t, servers[0]), "max_ttl_ms=5000"))
	assert.Equal(t, verdictFree, statusOf(t, nodes, "job", exitOK).Verdict)
	got := within("status", nodes, "--max-ttl=1h", "job")
	assert.Equal(t, exitOK, got.code, got)
}

func TestWatchAsJSON(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 1)
	signals := make(chan os.Signal, 1)
	out := &tell{until: 3, done: func() { signals <- os.Interrupt }}
	var stderr bytes.Buffer
	code := run([]string{"status", nodes, "--watch", "--json", "--every=100ms", "x"}, strings.NewReader(""), out, &stderr, signals)
	assert.Equal(t, exitOK, code, stderr.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.GreaterOrEqual(t, len(lines), 3)
	for _, line := range lines {
		var r statusReport
		require.NoError(t, json.Unmarshal([]byte(line), &r))
	}
}

// tell is a writer that calls done after some number of writes.
type tell struct {
	bytes.Buffer
	until int
	done  func()
}

func (w *tell) Write(p []byte) (int, error) {
	if w.until--; w.until == 0 {
		w.done()
	}
	return w.Buffer.Write(p)
}

// untilStatus waits until the status is as wanted, which it is when the last
// node has been reached.
func untilStatus(t *testing.T, nodes, resource string, is func(statusReport) bool) (r statusReport) {
	t.Helper()
	eventually(t, "the status of "+resource, func() bool {
		r = statusOf(t, nodes, resource, exitOK)
		return is(r)
	})
	return r
}

// Status finds out by itself that a resource is read, shows the readers and
// that a writer waits, and says which nodes have a reader that not all have.
func TestStatusOfReaders_R27(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := opened(t, servers)
	defer shut(c)
	read, err := c.RW("prices").Read().TryAcquire(t.Context(), time.Hour)
	require.NoError(t, err)
	_, err = c.RW("prices").Read().TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
	r := untilStatus(t, nodes, "prices", func(r statusReport) bool { return r.Agree == 3 && len(r.Readers) == 2 && len(r.Readers[1].Nodes) == 3 })
	assert.Equal(t, verdictShared, r.Verdict)
	assert.Empty(t, r.Holder)
	assert.Equal(t, read.Token().Fingerprint(), r.Readers[0].Holder)
	assert.False(t, r.WriterWaits)
	got := within("status", nodes, "prices")
	assert.Contains(t, got.stdout, `"prices": shared on 3 of 3 nodes: read by 2, the last for 59m`)
	assert.Regexp(t, `(?m)^READER +HOLDER +TTL +ON\n1 +`+read.Token().Fingerprint()+` +59m.* +all nodes\n2 +`, got.stdout)
	token := read.Token()
	assert.NotContains(t, got.stdout, string(token[:]), "R27")

	ctx, stop := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := c.RW("prices").Write().Acquire(ctx, time.Minute)
		waited <- err
	}()
	untilStatus(t, nodes, "prices", func(r statusReport) bool { return r.WriterWaits })
	eventually(t, "a writer that waits", func() bool {
		return strings.Contains(within("status", nodes, "prices").stdout, "; a writer waits")
	})
	stop()
	require.ErrorIs(t, <-waited, context.Canceled)
	got = within("run", nodes, "-n", "--exclusive", "prices", "--", "true")
	assert.Equal(t, exitHeld, got.code)
	assert.Contains(t, got.stderr, `resource "prices" is shared on `)

	do(t, servers[:1], "ZREM", "prices:redlock:readers", string(token[:]))
	r = statusOf(t, nodes, "prices", exitOK)
	require.Len(t, r.Readers, 2)
	assert.Equal(t, []int{1, 2}, r.Readers[0].Nodes)
	got = within("status", nodes, "prices")
	assert.Contains(t, got.stdout, r.Nodes[1].Addr+", "+r.Nodes[2].Addr)
}

// Status shows how many permits a semaphore has, which are held and by which
// tokens, and what a node says that differs.
func TestStatusOfPermits(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := opened(t, servers)
	defer shut(c)
	s := c.Semaphore("workers", 3)
	for range 2 {
		_, err := s.TryAcquire(t.Context(), time.Hour)
		require.NoError(t, err)
	}
	r := untilStatus(t, nodes, "workers", func(r statusReport) bool {
		return len(r.PermitsHeld) == 2 && len(r.PermitsHeld[0].Nodes) == 3 && len(r.PermitsHeld[1].Nodes) == 3
	})
	assert.Equal(t, verdictShared, r.Verdict)
	assert.Equal(t, 3, r.Permits)
	require.NotNil(t, r.FreePermits)
	assert.Equal(t, 1, *r.FreePermits)
	assert.Equal(t, 3, r.Nodes[0].Permits)
	got := within("status", nodes, "workers")
	assert.Contains(t, got.stdout, `"workers": shared on 3 of 3 nodes: 2 of 3 permits held, 1 free`)
	assert.Regexp(t, `(?m)^NODE +HOLDER +TTL +PERMITS\n\S+ +- +- +3\n`, got.stdout)
	assert.Regexp(t, `(?m)^PERMIT +HOLDER +TTL +ON\n[012] +[0-9a-f]{16} +59m`, got.stdout)

	_, err := s.TryAcquire(t.Context(), time.Hour)
	require.NoError(t, err)
	untilStatus(t, nodes, "workers", func(r statusReport) bool { return *r.FreePermits == 0 && len(r.PermitsHeld[2].Nodes) == 3 })
	got = within("run", nodes, "-n", "--permits=3", "workers", "--", "true")
	assert.Equal(t, exitHeld, got.code)
	assert.Contains(t, got.stderr, "3 of 3 permits held, 0 free")
	ends := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	do(t, servers[:1], "HSET", "workers:redlock:permits", "how many permits there are by each client, and when the last of its ends", "2="+ends+" 3="+ends)
	r = statusOf(t, nodes, "workers", exitOK)
	assert.Equal(t, 3, r.Permits)
	assert.Equal(t, 2, r.Nodes[0].Permits)
	require.NoError(t, servers[2].Kill())
	r = statusOf(t, nodes, "workers", exitOK)
	assert.Equal(t, 2, r.Permits, "both that are left must grant")
	assert.Equal(t, verdictShared, r.Verdict)
}

// Status shows the holder of a fair lock and who waits for it, in their order.
func TestStatusOfAQueue(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := opened(t, servers)
	defer shut(c)
	first, err := c.Fair("printer").TryAcquire(t.Context(), time.Hour)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	waited := make(chan error, 2)
	for i := range 2 {
		go func() {
			_, err := c.Fair("printer").Acquire(ctx, time.Minute)
			waited <- err
		}()
		untilStatus(t, nodes, "printer", func(r statusReport) bool { return len(r.Queue) == i+1 && len(r.Queue[i].Nodes) == 3 })
	}
	r := statusOf(t, nodes, "printer", exitOK)
	assert.Equal(t, verdictHeld, r.Verdict)
	assert.Equal(t, first.Token().Fingerprint(), r.Holder)
	next := r.Queue[0].Holder
	eventually(t, "both in the table", func() bool {
		got := within("status", nodes, "printer")
		return strings.Contains(got.stdout, `"printer": held by `+r.Holder+" on 3 of 3 nodes, for 5") &&
			strings.Contains(got.stdout, "released; 2 in the queue") &&
			regexp.MustCompile(`(?m)^PLACE +WAITER +LEASE +ON\n1 +`+next).MatchString(got.stdout)
	})
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, <-waited)
	r = untilStatus(t, nodes, "printer", func(r statusReport) bool { return len(r.Queue) == 1 })
	assert.NotEqual(t, next, r.Queue[0].Holder)
	stop()
	require.Error(t, <-waited)
}

// Keys of other programs beside the name are no readers, permits or waiters,
// and make no lock look held.
func TestStatusBesideKeysOfOtherPrograms(t *testing.T) {
	servers, nodes := masters(t, 3)
	for _, name := range []string{"jobs:redlock:queue", "jobs:redlock:readers"} {
		do(t, servers, "ZADD", name, "1", "secret", "2", "other")
	}
	do(t, servers, "RPUSH", "lists:redlock:queue", "secret")
	do(t, servers, "SADD", "lists:redlock:readers", "secret")
	do(t, servers, "HSET", "lists:redlock:permits", "secret", "1")
	do(t, servers, "SET", "texts:redlock:queue", "secret")
	do(t, servers, "SET", "texts:redlock:readers", "secret")
	do(t, servers, "SET", "texts:redlock:permits", "secret")
	for _, name := range []string{"jobs", "lists", "texts"} {
		r := statusOf(t, nodes, name, exitOK)
		assert.Equal(t, verdictFree, r.Verdict, name)
		assert.Equal(t, 3, r.Agree, name)
		assert.Empty(t, r.participants, name)
		assert.Equal(t, exitOK, within("release", nodes, "--force", "--yes", name).code, name)
	}
	// These are in the way of writers, so they are shown, and their content is
	// not.
	do(t, servers, "ZADD", "far:redlock:readers", "+inf", "secret\x1b[2J")
	got := within("status", nodes, "far")
	assert.Contains(t, got.stdout, "read by 1")
	assert.NotContains(t, got.stdout, "secret")
	assert.NotContains(t, got.stdout, "\x1b")
}

// A node that says anything about participants costs its own answer at most.
func TestStatusOfALiarAboutParticipants_R32(t *testing.T) {
	redistest.NoLeaks(t)
	for name, reply := range map[string][]byte{
		"garbage": []byte("hello\r\n"),
		"huge":    resp.AppendBulkString(nil, strings.Repeat("x", 1<<20)),
		"many":    []byte("*2\r\n:0\r\n:1000000000\r\n"),
		"evil":    []byte("*5\r\n:0\r\n:1\r\n:0\r\n:1000\r\n$6\r\n\x1b[2Jab\r\n"),
	} {
		node, url := lying(t, func(_ int, args []string) ([]byte, bool) { return reply, args[0] == "EVALSHA" && args[2] != "1" })
		defer node.Close()
		servers, nodes := masters(t, 2)
		do(t, servers, "SET", "job", "x", "PX", "600000")
		nodes += "," + url
		got := within("status", nodes, "job")
		assert.Equal(t, exitOK, got.code, "%s: %v", name, got)
		assert.Contains(t, got.stdout, `"job": held by `, name)
		assert.NotContains(t, got.stdout, "\x1b", name)
		assert.Less(t, len(got.stdout), 2000, name)
	}
}

// To force a lock of several holders takes naming one of its keys: readers and
// permits are not deleted with the name, and are not passed over in silence.
func TestForceLeavesParticipantsAlone(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := opened(t, servers)
	defer shut(c)
	_, err := c.RW("prices").Read().TryAcquire(t.Context(), time.Hour)
	require.NoError(t, err)
	var permits [2]redlock.Lock
	for i := range permits {
		permits[i], err = c.Semaphore("workers", 2).TryAcquire(t.Context(), time.Hour)
		require.NoError(t, err)
	}
	for _, name := range []string{"prices", "workers"} {
		untilStatus(t, nodes, name, func(r statusReport) bool { return r.Agree == 3 })
		got := within("release", nodes, "--force", "--yes", name)
		assert.Equal(t, exitHeld, got.code, got)
		assert.Contains(t, got.stdout, "Nothing to delete.", name)
		assert.Contains(t, got.stderr, "readers or permits are held", name)
		assert.Equal(t, verdictShared, statusOf(t, nodes, name, exitOK).Verdict)
	}
	for number := range permits {
		force := func() result {
			return within("release", nodes, "--force", "--yes", "--permit="+strconv.Itoa(number), "workers")
		}
		got := force()
		assert.Equal(t, exitOK, got.code, got)
		assert.Contains(t, force().stdout, "Nothing to delete.", "and the next one is not taken instead")
		assert.Len(t, statusOf(t, nodes, "workers", exitOK).PermitsHeld, len(permits)-1-number)
	}
	for _, permit := range permits {
		require.ErrorIs(t, permit.Release(t.Context()), redlock.ErrNotHeld)
	}
	assert.Equal(t, verdictFree, statusOf(t, nodes, "workers", exitOK).Verdict)
	assert.Equal(t, exitOK, within("release", nodes, "--force", "--yes", "workers").code)

	// Those who wait for a fair lock get it when it is taken from its holder.
	_, err = c.Fair("printer").TryAcquire(t.Context(), time.Hour)
	require.NoError(t, err)
	untilStatus(t, nodes, "printer", func(r statusReport) bool { return r.Agree == 3 })
	waited := make(chan error, 1)
	go func() {
		_, err := c.Fair("printer").Acquire(t.Context(), time.Hour)
		waited <- err
	}()
	untilStatus(t, nodes, "printer", func(r statusReport) bool { return len(r.Queue) == 1 })
	got := within("release", nodes, "--force", "--yes", "printer")
	assert.Contains(t, got.stdout, "deleted")
	require.NoError(t, <-waited)
}

// A person sees the first twenty, and how many there are besides.
func TestLongTablesAreCut(t *testing.T) {
	found := admin.Inspection{Readers: make([]admin.Participant, longestTable+5)}
	text := participantsTables(found)
	assert.Equal(t, 1+1+longestTable+1, strings.Count(text, "\n"))
	assert.True(t, strings.HasSuffix(text, "\nnot shown: 5 (see --json)\n"), text)
	found.Cut = true
	assert.True(t, strings.HasSuffix(participantsTables(found), "\nnot shown: 5 or more (see --json)\n"))
	found.Readers = found.Readers[:longestTable]
	assert.NotContains(t, participantsTables(found), "not shown")
}
