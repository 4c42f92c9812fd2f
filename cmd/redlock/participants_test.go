package main

import (
	"context"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/resp"
)

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

	// One that is down may have a reader, and so may decide.
	require.NoError(t, servers[2].Kill())
	r = statusOf(t, nodes, "prices", exitOK)
	assert.Equal(t, verdictShared, r.Verdict)
	assert.NotEmpty(t, r.Nodes[2].Error)
	do(t, servers[1:2], "DEL", "prices:redlock:readers")
	assert.Equal(t, verdictUnclear, statusOf(t, nodes, "prices", exitOK).Verdict)
	do(t, servers[:1], "DEL", "prices:redlock:readers")
	assert.Equal(t, verdictFree, statusOf(t, nodes, "prices", exitOK).Verdict)
	require.NoError(t, servers[1].Kill())
	assert.Equal(t, verdictUnknown, statusOf(t, nodes, "prices", exitNoQuorum).Verdict)
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
	do(t, servers[:1], "ZADD", "workers:redlock:permits", ends, "2", ends, "3")
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
	do(t, servers, "SET", "texts#0", "secret")
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
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		node := redistest.NewNode(redistest.NodeConfig{})
		defer node.Close()
		node.Serve(listener)
		node.Handle(func(_ int, args []string) ([]byte, bool) {
			return reply, args[0] == "EVALSHA" && args[2] != "1"
		})
		servers, nodes := masters(t, 2)
		do(t, servers, "SET", "job", "x", "PX", "600000")
		nodes += ",redis://" + listener.Addr().String()
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
	permit, err := c.Semaphore("workers", 1).TryAcquire(t.Context(), time.Hour)
	require.NoError(t, err)
	for _, name := range []string{"prices", "workers"} {
		untilStatus(t, nodes, name, func(r statusReport) bool { return r.Agree == 3 })
		got := within("release", nodes, "--force", "--yes", name)
		assert.Equal(t, exitHeld, got.code, got)
		assert.Contains(t, got.stdout, "Nothing to delete.", name)
		assert.Contains(t, got.stderr, "readers or permits are held", name)
		assert.Equal(t, verdictShared, statusOf(t, nodes, name, exitOK).Verdict)
	}
	got := within("release", nodes, "--force", "--yes", "workers#0")
	assert.Equal(t, exitOK, got.code, got)
	require.ErrorIs(t, permit.Release(t.Context()), redlock.ErrNotHeld)
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
	got = within("release", nodes, "--force", "--yes", "printer")
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
