package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func listed(t *testing.T, c *redlock.Client, o ListOptions) Listing {
	t.Helper()
	all, err := List(context.Background(), c, o)
	require.NoError(t, err)
	return all
}

// textsOf returns what is listed, a word for each property.
func textsOf(all Listing) (texts []string) {
	for _, l := range all.Locks {
		text := fmt.Sprintf("%s %s %s on %d by %q for %q", l.Resource, l.Kind, l.State, len(l.Nodes), l.Owner, l.Label)
		if l.Resources > 0 {
			text += fmt.Sprintf(" with %d", l.Resources)
		}
		texts = append(texts, text)
	}
	return texts
}

// everyKind takes locks of all kinds, and returns what is listed of them; n is
// the number of nodes.
func everyKind(t *testing.T, plain, fenced *redlock.Client, n int) []string {
	t.Helper()
	hold := func(l redlock.Locker, label string) {
		_, err := l.TryHold(t.Context(), redlock.HoldOptions{TTL: 20 * time.Second, Label: label})
		require.NoError(t, err)
	}
	hold(plain.Lock("plain"), "a label")
	hold(fenced.Lock("fenced"), "")
	hold(plain.All("b", "a"), "")
	hold(plain.RW("written").Write(), "")
	hold(plain.RW("read").Read(), "")
	hold(plain.RW("read").Read(), "second")
	hold(plain.Semaphore("permits", 3), "")
	hold(plain.Semaphore("permits", 3), "")
	hold(plain.Fair("fair"), "")
	go func() { _, _ = plain.Fair("fair").Acquire(t.Context(), 10*time.Second) }()
	go func() { // its mark is not listed
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _ = plain.Semaphore("permits", 2).Acquire(ctx, 10*time.Second)
	}()
	require.Eventually(t, func() bool {
		found, err := Inspect(t.Context(), plain, "fair")
		return err == nil && len(found.Queue) == 1 && len(found.Queue[0].Nodes) == n
	}, 10*time.Second, 10*ms)
	row := func(resource, what, owner, label string) string {
		return fmt.Sprintf("%s %s on %d by %q for %q", resource, what, n, owner, label)
	}
	return []string{
		row("a", "lock held", "web-1", "") + " with 2", row("b", "lock held", "web-1", "") + " with 2",
		row("fair", "lock held", "web-1", ""), row("fair", "waiter waiting", "", ""),
		row("fenced", "lock held", "", ""),
		row("permits", "permit held", "web-1", ""), row("permits", "permit held", "web-1", ""),
		row("plain", "lock held", "web-1", "a label"),
		row("read", "reader held", "web-1", ""), row("read", "reader held", "web-1", "second"),
		row("written", "lock held", "web-1", ""),
	}
}

// Locks of all kinds are listed, by whom and since when they are held, and
// nothing else that redlock keeps; whatever the prefix, the database and the
// number of nodes are.
func TestListShowsAllKinds(t *testing.T) {
	check := func(t *testing.T, plain, fenced *redlock.Client, n int) {
		begun := time.Now()
		want := everyKind(t, plain, fenced, n)
		all := listed(t, plain, ListOptions{})
		got := textsOf(all)
		require.ElementsMatch(t, want, got)
		require.True(t, slices.IsSortedFunc(all.Locks, func(a, b ListedLock) int { return strings.Compare(a.Resource, b.Resource) }))
		require.Zero(t, all.Others)
		require.False(t, all.Cut)
		for _, l := range all.Locks {
			require.False(t, l.Since.Before(begun.Add(-time.Second)), "%s %s since %v", l.Resource, l.Kind, l.Since)
			require.False(t, l.Since.After(time.Now().Add(time.Second)), "%s %s since %v", l.Resource, l.Kind, l.Since)
			require.NotEmpty(t, l.Holder)
			require.Equal(t, l.Resource == "fenced", l.Fence > 0)
			require.Greater(t, l.TTL, time.Duration(0))
		}
		for _, node := range all.Nodes {
			require.NoError(t, node.Err)
			require.Greater(t, node.Keys, len(want))
		}
	}
	t.Run("memory", func(t *testing.T) {
		simulated(t, trial.AnyNumber, func(t *testing.T, m *memory) {
			m.Ownerless()
			const prefix = `a*b?[c]\d:`
			fenced := m.Opened(t, redlock.Config{Prefix: prefix, MaxTTL: time.Minute, Fenced: true})
			plain := m.Client(t, redlock.Config{Prefix: prefix, MaxTTL: time.Minute, Owner: "web-1"})
			require.NoError(t, plain.Ready(t.Context()))
			for _, n := range m.Nodes {
				n.DB().Set("axb?[c]\\d:stray", strings.Repeat("x", 27), time.Minute)
			}
			check(t, plain, fenced, len(m.Nodes))
		})
	})
	t.Run("servers", func(t *testing.T) {
		servers := redistest.Servers(t, 3)
		config := redlock.Config{Nodes: redlock.Nodes(redistest.URLs(servers)...), Prefix: `a*b?[c]\d:`, NodeTimeout: 5 * time.Second, MaxTTL: time.Second * 30}
		_, err := Init(t.Context(), config)
		require.NoError(t, err)
		client := func(owner string, fenced bool) *redlock.Client {
			config := config
			config.Owner, config.Fenced = owner, fenced
			c, err := redlock.New(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(func() { trial.CloseNow(t, c) })
			require.Eventually(t, func() bool {
				return !slices.ContainsFunc(c.Nodes(), func(n redlock.NodeStatus) bool { return n.State != redlock.NodeUp || n.Quarantined })
			}, 60*time.Second, 10*ms)
			return c
		}
		for _, s := range servers {
			_, err := s.Do("SET", "axb?[c]\\d:stray", strings.Repeat("x", 27))
			require.NoError(t, err)
		}
		check(t, client("web-1", false), client("", true), 3)
	})
}

// A holder without a quorum holds nothing, if all nodes answered, and may hold
// the lock otherwise. Half of the nodes are no quorum.
func TestListJudgesByQuorum_R12(t *testing.T) {
	for _, x := range []struct {
		have, missing, nodes int
		want                 ListedState
	}{
		{1, 0, 1, ListedHeld}, {1, 0, 2, ListedPartial}, {2, 0, 2, ListedHeld}, {1, 1, 2, ListedUnclear},
		{2, 0, 4, ListedPartial}, {3, 0, 4, ListedHeld}, {2, 1, 4, ListedUnclear},
		{2, 0, 5, ListedPartial}, {1, 1, 5, ListedPartial}, {1, 2, 5, ListedUnclear}, {3, 2, 5, ListedHeld},
	} {
		require.Equal(t, x.want, stateOf(KindLock, x.have, x.missing, x.nodes), "%+v", x)
	}
	require.Equal(t, ListedWaiting, stateOf(KindWaiter, 2, 0, 3))
	require.Equal(t, ListedPartial, stateOf(KindWaiter, 1, 0, 3))

	simulated(t, 5, func(t *testing.T, m *memory) {
		m.Ownerless()
		c := m.Client(t, redlock.Config{})
		lock := trial.MustAcquire(t, c, "held", time.Hour)
		orphan := func(token string, on ...int) {
			for _, i := range on {
				m.Nodes[i].DB().Set("orphaned", token, time.Hour)
			}
		}
		time.Sleep(5 * ms)
		orphan(strings.Repeat("a", 27)+":web-1 the crashed", 0, 1)
		orphan(strings.Repeat("b", 27), 2, 3)
		all := listed(t, c, ListOptions{})
		require.ElementsMatch(t, []string{
			`held lock held on 5 by "" for ""`, `orphaned lock partial on 2 by "web-1" for "the crashed"`, `orphaned lock partial on 2 by "" for ""`,
		}, textsOf(all))
		require.Equal(t, lock.Token().Fingerprint(), all.Locks[0].Holder)
		require.Zero(t, all.Locks[0].Since, "nothing says it")

		m.Link(4).Refuse(true)
		m.Nodes[4].DropConns()
		time.Sleep(5 * ms)
		all = listed(t, c, ListOptions{})
		require.ElementsMatch(t, []string{
			`held lock held on 4 by "" for ""`, `orphaned lock unclear on 2 by "web-1" for "the crashed"`, `orphaned lock unclear on 2 by "" for ""`,
		}, textsOf(all))
		require.Error(t, all.Nodes[4].Err)
		require.NoError(t, all.Nodes[3].Err)

		for i := 2; i < 4; i++ {
			m.Link(i).Refuse(true)
			m.Nodes[i].DropConns()
		}
		time.Sleep(5 * ms)
		all, err := List(t.Context(), c, ListOptions{})
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.True(t, all.Cut)
	})
}

// A node that hangs, or that restarted and is quarantined, is waited for once.
func TestListGoesOnWithoutANode(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Opened(t, redlock.Config{MaxTTL: time.Minute})
		require.NoError(t, c.Ready(t.Context()))
		for i := range 300 {
			trial.MustAcquire(t, c, fmt.Sprint("r", i), 50*time.Second)
		}
		time.Sleep(10 * ms)
		m.Nodes[0].Pause()
		start := time.Now()
		all, err := List(t.Context(), c, ListOptions{})
		require.NoError(t, err)
		require.Less(t, time.Since(start), 2*inspectTimeout)
		require.Len(t, all.Locks, 300)
		require.Error(t, all.Nodes[0].Err)
		for _, l := range all.Locks {
			require.Equal(t, ListedHeld, l.State)
			require.Equal(t, []int{1, 2}, l.Participant.Nodes)
		}
		m.Nodes[0].Resume()
	})
}

// A listing that its context ends says whether a quorum had answered a page.
func TestListThatItsContextEnds_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		for i := range 100 {
			trial.MustAcquire(t, c, fmt.Sprint("r", i), time.Hour)
		}
		time.Sleep(10 * ms)
		for name, x := range map[string]struct {
			hang     []int
			from, to time.Duration // when they hang, and when the listing ends
			noQuorum bool
		}{
			"between two pages":           {nil, 0, 2500 * ms, false},
			"while one is waited for":     {[]int{0}, 500 * ms, 1400 * ms, false},
			"while all are waited for":    {[]int{0, 1, 2}, 500 * ms, 1400 * ms, false},
			"without a page of a quorum":  {[]int{0, 1}, 0, 400 * ms, true},
			"before it has begun":         {nil, 0, 0, true},
			"without a page of any, late": {[]int{0, 1, 2}, 0, 800 * ms, true},
		} {
			var hanging sync.WaitGroup
			hanging.Go(func() {
				time.Sleep(x.from)
				for _, i := range x.hang {
					m.Nodes[i].Pause()
				}
			})
			if x.from == 0 {
				hanging.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), x.to)
			all, err := List(ctx, c, ListOptions{Page: 10, Pause: time.Second})
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.Equal(t, x.noQuorum, errors.Is(err, redlock.ErrNoQuorum), name)
			require.True(t, all.Cut, name)
			require.Equal(t, x.noQuorum, len(all.Locks) == 0, name)
			hanging.Wait()
			for _, i := range x.hang {
				m.Nodes[i].Resume()
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// A cursor is the server's own. So a node that got another connection begins
// anew.
func TestListBeginsAnewOnAnotherServer_R12(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		for _, name := range []string{"a", "b", "c"} {
			trial.MustAcquire(t, c, name, time.Hour)
		}
		another, cursors := false, []string(nil)
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			if args[0] != "EVALSHA" || args[1] != scanScript.Digest {
				return nil, false
			}
			cursors = append(cursors, args[3])
			switch {
			case args[3] == "0" && another:
				return []byte("*3\r\n$1\r\n0\r\n:0\r\n$9\r\n1:a1:b1:c\r\n"), true
			case args[3] == "0":
				return []byte("*3\r\n$1\r\n7\r\n:0\r\n$3\r\n1:a\r\n"), true
			}
			return []byte("*3\r\n$1\r\n0\r\n:0\r\n$0\r\n\r\n"), true // to the other, it is near the end
		})
		time.AfterFunc(500*ms, func() { // between two pages
			another = true
			m.Nodes[0].DropConns()
		})
		all := listed(t, c, ListOptions{Pause: time.Second})
		require.Equal(t, []string{"0", "7", "0"}, cursors)
		require.Len(t, all.Locks, 3)
		require.False(t, all.Cut)
		require.Equal(t, 3, all.Nodes[0].Keys, "each is counted once")

		another = false
		time.AfterFunc(500*ms, m.Nodes[0].DropConns)
		time.AfterFunc(1500*ms, m.Nodes[0].Pause) // before it has begun anew
		within, cancel := context.WithTimeout(t.Context(), 2400*ms)
		defer cancel()
		_, err := List(within, c, ListOptions{Pause: time.Second})
		var ended *redlock.CancelledError
		require.ErrorAs(t, err, &ended)
		require.NoError(t, ended.Last, "the node had answered")
		m.Nodes[0].Resume()
	})
}

// Where sentinels make another server the primary while it is gone through, a
// listing has every lock, or says that it has not (R12).
func TestListThroughAFailover_R12(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinels(t)
	c, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(g.URL()), NodeTimeout: 5 * time.Second, Forgetful: true})
	require.NoError(t, err)
	t.Cleanup(func() { trial.CloseNow(t, c) })
	require.NoError(t, c.Ready(t.Context()))
	const locks = 300
	_, err = g.Primary().Do("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'r' .. i, ARGV[2]) end", "0", strconv.Itoa(locks), strings.Repeat("x", 27))
	require.NoError(t, err)
	_, err = g.Primary().Do("WAIT", "2", "30000")
	require.NoError(t, err)
	require.Len(t, listed(t, c, ListOptions{}).Locks, locks)
	through := 0
	for try := 0; through == 0 && try < 5; try++ {
		before := c.Nodes()[0].Connects
		over := make(chan error, 1)
		go func() {
			_, err := g.Failover()
			over <- err
		}()
		all, err := List(t.Context(), c, ListOptions{Page: 1 + locks/3, Pause: 5 * time.Second})
		require.NoError(t, <-over)
		t.Log(len(all.Locks), all.Cut, c.Nodes()[0].Connects-before, err)
		if err != nil {
			require.True(t, errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded), err)
			require.True(t, all.Cut)
			require.NoError(t, c.Ready(t.Context()))
			continue
		}
		require.Len(t, all.Locks, locks)
		if c.Nodes()[0].Connects > before {
			through++
		}
	}
	require.Positive(t, through, "no listing lived through a failover")
}

// Limits bound what is looked at, and the listing says that there may be more.
// In place of pages that are too big for a reply there are smaller ones (R32),
// and no name is lost.
func TestListIsBounded_R32(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		const locks = 250 // with 125 KB of names
		for i := range locks {
			trial.MustAcquire(t, c, fmt.Sprintf("%03d%s", i, strings.Repeat("k", i*4)), time.Hour)
		}
		time.Sleep(10 * ms)
		for _, page := range []int{1, 7, 100, 1000} {
			all := listed(t, c, ListOptions{Page: page})
			require.Len(t, all.Locks, locks)
			require.False(t, all.Cut)
			require.Equal(t, []int{locks, locks, locks}, []int{all.Nodes[0].Keys, all.Nodes[1].Keys, all.Nodes[2].Keys})
			require.Equal(t, 1, c.Nodes()[0].Connects)
		}
		require.Len(t, listed(t, c, ListOptions{Prefix: "10"}).Locks, 10)
		require.Empty(t, listed(t, c, ListOptions{Prefix: "?"}).Locks)
		require.Len(t, listed(t, c, ListOptions{Limit: -1, Page: -1, Pause: -1}).Locks, locks)
		for limit, cut := range map[int]bool{1: true, 99: true, locks - 1: true, locks: false, locks + 1: false} {
			all := listed(t, c, ListOptions{Limit: limit})
			require.Len(t, all.Locks, min(limit, locks))
			require.Equal(t, cut, all.Cut, limit)
		}
		start := time.Now()
		listed(t, c, ListOptions{Page: 50, Pause: time.Second})
		require.GreaterOrEqual(t, time.Since(start), locks/50*time.Second, "the pause is kept")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		all, err := List(ctx, c, ListOptions{Page: 50, Pause: time.Second})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, all.Cut)
		require.NotEmpty(t, all.Locks, "what is known")

		// One node names another page for ever.
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			return []byte("*3\r\n$1\r\n7\r\n:0\r\n$6\r\n4:liar\r\n"), args[0] == "EVALSHA" && args[1] == scanScript.Digest
		})
		start = time.Now()
		all, err = List(t.Context(), c, ListOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, all.Locks, locks)
		require.InDelta(t, DefaultListTime, time.Since(start), float64(time.Second))
	})
}

// What one node makes up is bounded, and the listing says that it may not be
// complete (R33).
func TestListOfALiar_R33(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		trial.MustAcquire(t, c, "a", time.Hour)
		readers := lua.Digest(lua.LookReaders)
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			switch {
			case args[0] != "EVALSHA":
			case args[1] == scanScript.Digest:
				return []byte("*3\r\n$1\r\n0\r\n:0\r\n$40\r\n17:x:redlock:readers17:y:redlock:readers\r\n"), true
			case args[1] == readers:
				return []byte("*5\r\n:0\r\n:9223372036854775807\r\n:0\r\n:1\r\n$5\r\n" + fmt.Sprintf("%05d", m.Nodes[0].Calls("EVALSHA")) + "\r\n"), true
			}
			return nil, false
		})
		all := listed(t, c, ListOptions{})
		require.True(t, all.Cut, "it says that there are more than are asked for")
		require.Greater(t, len(all.Locks), 10)
		all = listed(t, c, ListOptions{Limit: 10})
		require.Len(t, all.Locks, 10)
		require.True(t, all.Cut)

		missing := ":0"
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			return []byte("*3\r\n$1\r\n0\r\n" + missing + "\r\n$0\r\n\r\n"), args[0] == "EVALSHA" && args[1] == scanScript.Digest
		})
		require.False(t, listed(t, c, ListOptions{}).Cut)
		missing = ":1"
		require.True(t, listed(t, c, ListOptions{}).Cut, "it says that names are missing")
	})
}

// A page is taken only in the form that scan.lua gives it (R16).
func TestPageOfNames_R16(t *testing.T) {
	read := func(reply string) (p page, names []string, missing bool, err error) {
		r := resp.NewReader(resp.Limits{})
		r.Commit(copy(r.Space(), reply))
		v, ok, err := r.Next()
		require.True(t, ok, "%q: %v", reply, err)
		names, missing, err = p.read(v)
		return p, names, missing, err
	}
	p, names, missing, err := read("*3\r\n$2\r\n17\r\n:1\r\n$10\r\n3:a:b0:1:\n\r\n")
	require.NoError(t, err)
	require.Equal(t, page{cursor: "17"}, p)
	require.Equal(t, []string{"a:b", "", "\n"}, names)
	require.True(t, missing)
	p, names, missing, err = read("*3\r\n$1\r\n0\r\n:0\r\n$0\r\n\r\n")
	require.NoError(t, err)
	require.True(t, p.done)
	require.Empty(t, names)
	require.False(t, missing)
	for _, reply := range []string{
		":1\r\n", "*0\r\n", "*-1\r\n", "*2\r\n$1\r\n0\r\n:0\r\n", "*3\r\n:0\r\n:0\r\n$0\r\n\r\n", "*3\r\n$1\r\n0\r\n$1\r\n0\r\n$0\r\n\r\n",
		"*3\r\n$1\r\n0\r\n:0\r\n:0\r\n", "*3\r\n$1\r\n0\r\n:0\r\n$1\r\na\r\n", "*3\r\n$1\r\n0\r\n:0\r\n$3\r\n2:a\r\n",
		"*3\r\n$1\r\n0\r\n:0\r\n$4\r\n-1:a\r\n", "*3\r\n$1\r\n0\r\n:0\r\n$2005\r\n2000:" + strings.Repeat("a", 2000) + "\r\n", "*3\r\n$1\r\n0\r\n:0\r\n$12\r\n4294967297:a\r\n",
	} {
		_, _, _, err := read(reply)
		require.ErrorIs(t, err, multiplex.ErrUnexpected, "%q", reply)
	}
}

// What other programs keep is counted and not shown, even if it looks like a
// password. A lock's name may end as that of a fencing number.
func TestListOfOtherKeys_R27(t *testing.T) {
	simulated(t, trial.AnyNumber, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		trial.MustAcquire(t, c, "job:fence", time.Hour)
		for _, n := range m.Nodes {
			n.DB().Set("session", "the password of the program:hunter2", time.Hour)
			n.DB().Set("counter", "17", 0)
			n.DB().Set("long", strings.Repeat("x", 1<<16), 0)
			n.DB().SetField("hash", "a", "b")
			n.DB().Set("x:fence", "17", time.Hour)
			n.DB().Set("job:fence:fence", "9223372036854775808", time.Hour) // no time
			n.DB().Set("x:redlock:readers", "a string", time.Hour)
			n.DB().Set("x:redlock:other", "a string", time.Hour)
			n.DB().Set("redlock:seal", "a string", time.Hour)
		}
		all := listed(t, c, ListOptions{})
		require.Len(t, all.Locks, 1)
		require.Equal(t, "job:fence", all.Locks[0].Resource)
		require.Equal(t, 4, all.Others)
		text, err := json.Marshal(all)
		require.NoError(t, err)
		require.NotContains(t, string(text)+fmt.Sprintf("%+v", all), "hunter2")
	})
}

// A user who may not run SCAN is told so, on servers of all versions. With that
// right alone, besides those of locks, the keys are listed.
func TestListWithoutTheRight_R24(t *testing.T) {
	servers := redistest.Servers(t, 3)
	for _, s := range servers {
		_, err := s.Do(append([]string{"ACL", "SETUSER", "u", "reset", "on", ">p", "~*"}, strings.Fields(pure.Rights)...)...)
		require.NoError(t, err)
	}
	nodes := redlock.Nodes(redistest.URLs(servers)...)
	c, err := redlock.New(t.Context(), redlock.Config{Nodes: nodes, NodeTimeout: 5 * time.Second, Username: "u", Password: "p", Forgetful: true})
	require.NoError(t, err)
	t.Cleanup(func() { trial.CloseNow(t, c) })
	_, err = c.TryAcquire(t.Context(), "r", time.Minute)
	require.NoError(t, err)
	all, err := List(t.Context(), c, ListOptions{})
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, err, multiplex.ErrPermissions)
	require.ErrorContains(t, err, pure.RightToList)
	require.Empty(t, all.Locks)
	for _, s := range servers {
		_, err := s.Do("ACL", "SETUSER", "u", pure.RightToList)
		require.NoError(t, err)
	}
	require.Len(t, listed(t, c, ListOptions{}).Locks, 1)
	assert.Equal(t, 1, c.Nodes()[0].Connects)
}

// Names in JSON are those of docs/cli.md.
func TestListAsJSON(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	all := Listing{Others: 2, Cut: true, Nodes: []ListedNode{{Addr: "a:1", Keys: 3}, {Addr: "a:2", Err: multiplex.ErrDown}}, Locks: []ListedLock{
		{Resource: "a\xff", Kind: KindLock, State: ListedHeld, Participant: Participant{Holder: "h", Owner: "o", Label: "l", Since: at, Number: 1, TTL: 1500 * ms, Nodes: []int{0}}, Fence: 7, Resources: 2},
		{Resource: "p", Kind: KindPermit, State: ListedPartial, Participant: Participant{Holder: "h", TTL: NoExpiry, Nodes: []int{1}}},
	}}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.JSONEq(t, `{"locks": [
		{"resource": "a\\xff", "kind": "lock", "state": "held", "ttl_ms": 1500, "holder": "h", "owner": "o", "label": "l",
			"since": "2026-11-27T12:00:00Z", "nodes": [0], "fence": 7, "resources": 2},
		{"resource": "p", "kind": "permit", "state": "partial", "number": 0, "ttl_ms": -1, "holder": "h", "nodes": [1]}],
		"others": 2, "cut": true, "nodes": [{"addr": "a:1", "keys": 3}, {"addr": "a:2", "keys": 0, "error": "node is down"}]}`, string(text))
}
