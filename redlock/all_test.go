package redlock

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestResourcesOfALockOnSeveral_R19(t *testing.T) {
	many := make([]string, MaxResources+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	c := encoding(Config{})
	check := func(names []string) error {
		l := c.All(names...)
		_, err := c.config.checkLock(l.kind, l.name, time.Second)
		return err
	}
	require.NoError(t, check(many[1:]))
	for _, bad := range [][]string{
		nil, {}, many, {"a", "b", "a"}, {"a", ""}, {"a", strings.Repeat("x", 1025)}, {"a", wire.SealName}, {wire.OpeningName, "a"},
	} {
		require.ErrorIs(t, check(bad), ErrResource)
	}
	given := []string{"b", "a"}
	all := c.All(given...)
	given[0] = "x"
	require.Equal(t, []string{"b", "a"}, all.kind.Several(), "a copy")
}

func TestJudgeAll_R16(t *testing.T) {
	for reply, want := range map[string]multiplex.Vote{
		":1\r\n": multiplex.Granted, "$2\r\n1 \r\n": multiplex.Refused, "$4\r\n64 x\r\n": multiplex.Refused,
		"$5\r\n2 a b\r\n": multiplex.Refused, ":0\r\n": multiplex.Alien, ":-1\r\n": multiplex.Alien, ":2\r\n": multiplex.Alien,
		"+OK\r\n": multiplex.Alien, "+1 \r\n": multiplex.Alien, "_\r\n": multiplex.Alien, "$-1\r\n": multiplex.Alien,
		"$1\r\n1\r\n": multiplex.Alien, "$2\r\n0 \r\n": multiplex.Alien, "$3\r\n65 \r\n": multiplex.Alien, "$3\r\n-1 \r\n": multiplex.Alien,
		"$3\r\n+1 \r\n": multiplex.Alien, "$2\r\n x\r\n": multiplex.Alien, "$0\r\n\r\n": multiplex.Alien, "*0\r\n": multiplex.Alien,
		"=6\r\ntxt:1 \r\n": multiplex.Alien,
	} {
		require.Equal(t, want, wire.JudgeTelling(parsed(t, reply)), "%q", reply)
	}
}

func TestCommandsOfSeveralResources(t *testing.T) {
	c := encoding(Config{Prefix: "p:", Owner: "web-1"})
	for _, name := range hostileNames {
		all := []string{name, "another"}
		token := wire.Veil(new(wire.Tokens).Next())
		value := secretOf(token) + ":web-1"
		got := c.kinds.Several(nil, &wire.ExtendAll, all, &token, time.Second, time.Minute)
		require.Equal(t, []string{"EVALSHA", wire.ExtendAll.Digest, "2", "p:" + name, "p:another", value, "1000", "60000"}, decoded(t, got.Bytes))
		got = c.kinds.Several(nil, &wire.ReleaseAll, all, &token)
		require.Equal(t, []string{"EVALSHA", wire.ReleaseAll.Digest, "2", "p:" + name, "p:another", value}, decoded(t, got.Bytes))
	}
}

// sets waits until what was sent has arrived, and returns how many nodes have
// each key.
func (m *memory) sets() map[string]int {
	time.Sleep(100 * ms)
	on := make(map[string]int)
	for _, n := range m.nodes {
		for _, key := range n.Keys() {
			on[key]++
		}
	}
	return on
}

// All resources are locked, or none: an attempt that is refused says which one
// is in the way, and leaves the others free.
func TestAllOrNothing(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		m.ownerless()
		c, other := m.client(t, Config{}), m.client(t, Config{})
		lock, err := c.All("a", "b", "c").TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, lock.Resources())
		require.Equal(t, "a, b, c", lock.Resource())
		require.Greater(t, lock.Validity(), 9*time.Second)
		require.Equal(t, map[string]int{"a": 5, "b": 5, "c": 5}, m.sets())

		_, err = other.All("e", "b", "d").TryAcquire(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		held := (*HeldError)(nil)
		require.ErrorAs(t, err, &held)
		require.Equal(t, "b", held.Resource)
		require.Equal(t, `redlock: "e, b, d": "b" is held`, err.Error())
		_, err = other.TryAcquire(t.Context(), "c", 10*time.Second)
		require.Equal(t, ErrHeld, err)
		require.Equal(t, map[string]int{"a": 5, "b": 5, "c": 5}, m.sets())
		require.EqualValues(t, 2, other.Stats().Attempts.Refused)

		longer, err := lock.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		require.Greater(t, longer.Validity(), 19*time.Second)
		for _, n := range m.nodes {
			left, _ := n.DB().TTL("c")
			require.Greater(t, left, 19*time.Second)
		}
		require.NoError(t, longer.Release(t.Context()))
		require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
		require.Empty(t, m.sets())

		one, err := c.All("a").Acquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, one.Resources())
		require.NoError(t, one.Release(t.Context()))
		_, err = c.All("a", "b").TryAcquire(t.Context(), time.Microsecond)
		require.ErrorIs(t, err, ErrTTL)
	})
}

// For an extension and a release, a vote means that all keys are ours. A
// release deletes those that are, and no other.
func TestAVoteNeedsAllKeys_R9(t *testing.T) {
	for name, stranger := range map[string]string{"a key is missing": "", "a key is another's": "stranger"} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			c := m.client(t, Config{})
			lock, err := c.All("a", "b", "c").TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			time.Sleep(100 * ms)
			for _, n := range m.nodes[:3] {
				if n.DB().Delete("b"); stranger != "" {
					n.DB().Set("b", stranger, time.Hour)
				}
			}
			_, err = lock.Extend(t.Context(), 20*time.Second)
			require.ErrorIs(t, err, ErrNotHeld, name)
			left, _ := m.nodes[0].DB().TTL("a")
			require.Less(t, left, 10*time.Second, "nothing is lengthened there")
			require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
			want := map[string]int{}
			if stranger != "" {
				want["b"] = 3
			}
			require.Equal(t, want, m.sets())
		})
	}
}

// A caller that waits is called when the resource that is in the way is
// released, whichever client held it, and as a part of whichever lock, with
// numbers and without.
func TestAcquireAllIsToldOfReleases_R11(t *testing.T) {
	for _, number := range []bool{false, true} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			config := Config{Fenced: number, MaxTTL: 30 * time.Second}
			acquireAllIsTold(t, m, m.opened(t, config), m.client(t, config))
		})
	}
}

func acquireAllIsTold(t *testing.T, m *memory, a, b *Client) {
	free := func(l Lock) { require.NoError(t, l.Release(t.Context())) }
	single := func(c *Client, resource string) Lock {
		lock, err := c.Acquire(t.Context(), resource, 10*time.Second)
		require.NoError(t, err)
		return lock
	}
	several := func(c *Client, resources ...string) Lock {
		lock, err := c.All(resources...).Acquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		return lock
	}
	for name, x := range map[string]struct {
		first func() Lock
		then  func() Lock
	}{
		"a single one of another client":      {func() Lock { return single(a, "x") }, func() Lock { return several(b, "w", "x") }},
		"a single one of the same client":     {func() Lock { return single(a, "x") }, func() Lock { return several(a, "w", "x") }},
		"several of another client":           {func() Lock { return several(a, "x", "y") }, func() Lock { return several(b, "y", "z") }},
		"several of the same client":          {func() Lock { return several(a, "x", "y") }, func() Lock { return several(a, "z", "y") }},
		"several, for a single one":           {func() Lock { return several(a, "x", "y") }, func() Lock { return single(b, "y") }},
		"several, for one of the same client": {func() Lock { return several(a, "x", "y") }, func() Lock { return single(a, "y") }},
	} {
		held := x.first()
		before := a.Stats().Attempts.Refused + b.Stats().Attempts.Refused
		granted := make(chan time.Time)
		go func() {
			lock := x.then()
			granted <- time.Now()
			free(lock)
			close(granted)
		}()
		time.Sleep(700 * ms) // the pauses have grown, and the fallback is half a second away
		attempts := a.Stats().Attempts.Refused + b.Stats().Attempts.Refused
		require.Less(t, attempts-before, uint64(6), "%s: it looks out for the one in the way", name)
		released := time.Now()
		free(held)
		require.Less(t, (<-granted).Sub(released), 30*ms, name)
		require.LessOrEqual(t, a.Stats().Attempts.Refused+b.Stats().Attempts.Refused, attempts+1, name)
		<-granted
		for key := range m.sets() {
			require.Greater(t, len(key), 1, "one that belongs to no lock")
		}
	}
}

// A wait ends as that for a single resource does, and leaves nothing behind.
func TestAcquireAllEnds(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a := m.client(t, Config{})
		lock, err := a.TryAcquire(t.Context(), "x", 30*time.Second)
		require.NoError(t, err)
		both := []string{"x", "y"}
		ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		_, err = a.All(both...).Acquire(ctx, 10*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrHeld, "the last attempt's")
		_, err = m.client(t, Config{MaxWait: 300 * ms}).All(both...).Acquire(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrMaxWait)
		tries := m.client(t, Config{Retry: Retry{Tries: 3}})
		start := time.Now()
		_, err = tries.All(both...).Acquire(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.Less(t, time.Since(start), time.Second, "after random delays, whatever the nodes push")
		require.EqualValues(t, 3, tries.Stats().Attempts.Total())
		closing := m.client(t, Config{})
		time.AfterFunc(300*ms, func() { _ = closing.Close(context.Background()) })
		_, err = closing.All(both...).Acquire(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, map[string]int{"x": 3}, m.sets())
		// The holder may die: the key expires, and is waited for.
		_, err = a.All(both...).Acquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		require.Less(t, time.Until(lock.Until()), 500*ms)
		require.Greater(t, time.Until(lock.Until()), -time.Second)
	})
}

// Locks on several resources renew themselves, are lost as a whole, and end the
// work with them.
func TestHoldAll_R13(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		both := []string{"x", "y"}
		h, err := c.All(both...).Hold(t.Context(), HoldOptions{TTL: time.Second})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, h.Err())
		require.Equal(t, map[string]int{"x": 5, "y": 5}, m.sets())
		require.Equal(t, both, h.Current().Resources())
		for _, n := range m.nodes[:3] {
			n.DB().Delete("y")
		}
		time.Sleep(time.Second)
		require.ErrorIs(t, h.Err(), ErrLost)
		require.ErrorContains(t, h.Err(), `"x, y"`)
		require.ErrorIs(t, h.Release(t.Context()), ErrNotHeld)
		require.Empty(t, m.sets())

		err = c.All(both...).DoWith(t.Context(), HoldOptions{TTL: time.Second}, func(ctx context.Context) error {
			time.Sleep(3 * time.Second)
			for _, nested := range [][]string{{"z", "y"}, {"x", "y"}} {
				_, err := c.All(nested...).Acquire(ctx, time.Second)
				require.ErrorIs(t, err, ErrNested)
			}
			_, err := c.Acquire(ctx, "y", time.Second)
			require.ErrorIs(t, err, ErrNested)
			lock, err := c.All("v", "w").Acquire(ctx, time.Second)
			require.NoError(t, err)
			require.NoError(t, lock.Release(ctx))
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Empty(t, m.sets())
		for _, o := range []HoldOptions{{TTL: time.Second, Heal: true}, {TTL: time.Second, MinHold: ms}} {
			_, err = c.All(both...).Hold(t.Context(), o)
			require.ErrorIs(t, err, ErrHoldOptions)
			_, err = c.All(both...).TryHold(t.Context(), o)
			require.ErrorIs(t, err, ErrHoldOptions)
			h, err := c.All(both[:1]...).Hold(t.Context(), o)
			require.NoError(t, err, "one resource")
			require.NoError(t, h.Release(t.Context()))
		}
	})
}

// A lock on several resources is not handed over: not even to a caller that
// waits for a resource whose name is the text of all of them.
func TestSeveralAreNotHandedOver(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		h, err := c.All("a", "b").Hold(t.Context(), HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		blocker, err := m.client(t, Config{}).TryAcquire(t.Context(), "a, b", 10*time.Second)
		require.NoError(t, err)
		got := make(chan Lock)
		go func() {
			lock, err := c.Acquire(t.Context(), "a, b", 10*time.Second)
			require.NoError(t, err)
			got <- lock
		}()
		time.Sleep(10 * ms)
		require.NoError(t, h.Release(t.Context()))
		require.Equal(t, map[string]int{"a, b": 3}, m.sets())
		require.NoError(t, blocker.Release(t.Context()))
		require.NoError(t, (<-got).Release(t.Context()))
		require.Zero(t, c.Stats().HandedOver)
	})
}

// R8: what a failed attempt may have set on a node is released there: late,
// after the node was away, and without a repetition after NOSCRIPT.
func TestFailedAttemptsForSeveralLeaveNothing_R8(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		both := []string{"x", "y"}
		for _, n := range m.nodes {
			n.FlushScripts()
		}
		_, err := c.All(both...).TryAcquire(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum, "a claim is not repeated")
		require.Empty(t, m.sets())
		lock, err := c.All(both...).TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err, "the nodes have the scripts again")
		require.NoError(t, lock.Release(t.Context()))

		m.nodes[0].DB().Set("y", "stranger", time.Hour)
		m.nodes[1].DB().Set("y", "stranger", time.Hour)
		m.delay(2, 120*ms)
		_, err = c.All(both...).TryAcquire(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(time.Second)
		require.Equal(t, map[string]int{"y": 2}, m.sets(), "the slow node's vote came too late")
		require.Zero(t, c.Nodes()[2].Debts)
	})
}

var seedsOfAll = flag.Uint64("all.seeds", 10, "seeds of TestSixteenWantThreeOfTen")

// Sixteen clients want three of ten resources at a time, of one client or each
// of its own: no two hold a resource within validity, no client has a part of
// what it wants, and all make progress, whatever order they name them in.
func TestSixteenWantThreeOfTen(t *testing.T) {
	for seed := range *seedsOfAll {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, 3)
			referee := &refereeOfAll{until: make(map[string]time.Time)}
			shared := m.client(t, Config{})
			var wg sync.WaitGroup
			for i := range 16 {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				c := shared
				if i%2 == 0 {
					c = m.client(t, Config{})
				}
				wg.Go(func() {
					for range 10 {
						var want []string
						for _, k := range random.Perm(10)[:3] {
							want = append(want, fmt.Sprint("r", k))
						}
						if random.IntN(4) == 0 {
							want = want[:1]
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						lock, err := c.All(want...).Acquire(ctx, 5*time.Second)
						cancel()
						if err != nil {
							t.Errorf("seed %d: %v", seed, err)
							return
						}
						referee.take(t, lock, m)
						time.Sleep(time.Duration(random.Int64N(int64(5 * ms))))
						referee.free(lock)
						if err := lock.Release(t.Context()); err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
					}
				})
			}
			wg.Wait()
			require.Equal(t, 160, referee.grants)
			require.Empty(t, m.sets())
		})
	}
}

// A refereeOfAll knows who holds what.
type refereeOfAll struct {
	mu     sync.Mutex
	until  map[string]time.Time
	grants int
}

// take checks that no other holds one of the lock's resources, and that a
// quorum of nodes has all of its keys.
func (r *refereeOfAll) take(t *testing.T, lock Lock, m *memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants++
	whole := 0
	for _, n := range m.nodes {
		missing := slices.ContainsFunc(lock.Resources(), func(resource string) bool {
			value, ok := n.DB().Get(resource)
			return !ok || tokenIn(value) != secretOf(lock.grant.Token)
		})
		if !missing {
			whole++
		}
	}
	if whole < multiplex.Quorum(len(m.nodes)) {
		t.Errorf("a part of %v is locked", lock.Resources())
	}
	for _, resource := range lock.Resources() {
		if time.Until(r.until[resource]) > 0 {
			t.Errorf("two hold %s", resource)
		}
		r.until[resource] = lock.Until()
	}
}

func (r *refereeOfAll) free(lock Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range lock.Resources() {
		delete(r.until, resource)
	}
}

// The same on real servers, and with fencing numbers: for each resource, they
// rise in the order of the locks on it.
func TestSixteenWantThreeOfTenOnRealServers(t *testing.T) {
	for _, number := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced=%t", number), func(t *testing.T) {
			servers := redistest.Servers(t, 3)
			referee := &realReferee{servers: servers, holds: make(map[string]bool), last: make(map[string]uint64)}
			config := Config{Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Fenced: number, MaxTTL: time.Minute}
			_, err := Init(t.Context(), config)
			require.NoError(t, err)
			var wg sync.WaitGroup
			for i := range 16 {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				c, err := New(t.Context(), config)
				require.NoError(t, err)
				t.Cleanup(func() { closeNow(t, c) })
				require.NoError(t, c.Ready(t.Context()))
				wg.Go(func() {
					for range 20 {
						var want []string
						for _, k := range random.Perm(10)[:3] {
							want = append(want, fmt.Sprint("r", k))
						}
						lock, err := c.All(want...).Acquire(t.Context(), time.Minute)
						if err != nil {
							t.Error(err)
							return
						}
						referee.take(t, lock)
						time.Sleep(time.Duration(random.Int64N(int64(ms))))
						referee.free(lock)
						if err := lock.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.Equal(t, 16*20, referee.grants)
			require.Equal(t, number, len(referee.last) == 10)
			for _, s := range servers {
				require.Eventually(t, func() bool {
					n, err := s.Do("EXISTS", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9")
					return err == nil && n == int64(0)
				}, 15*time.Second, ms)
			}
		})
	}
}

// A realReferee knows who holds what on real servers.
type realReferee struct {
	servers []*redistest.Server

	mu     sync.Mutex // guards the following
	holds  map[string]bool
	last   map[string]uint64 // numbers
	grants int
}

// take checks that no other holds one of the lock's resources, that a quorum of
// servers has all of its keys, and that its number is above theirs.
func (r *realReferee) take(t *testing.T, lock Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants++
	whole, value := 0, secretOf(lock.grant.Token)
	for _, s := range r.servers {
		values, err := s.Do(append([]string{"MGET"}, lock.Resources()...)...)
		if err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(values.([]any), func(v any) bool { return v != value }) {
			whole++
		}
	}
	if whole < multiplex.Quorum(len(r.servers)) {
		t.Errorf("a part of %v is locked", lock.Resources())
	}
	for _, resource := range lock.Resources() {
		if r.holds[resource] {
			t.Errorf("two hold %s", resource)
		}
		r.holds[resource] = true
		if number := lock.Fence(); number > 0 {
			if number <= r.last[resource] {
				t.Errorf("%s got %d after %d", resource, number, r.last[resource])
			}
			r.last[resource] = number
		}
	}
}

func (r *realReferee) free(lock Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range lock.Resources() {
		r.holds[resource] = false
	}
}

// The release of a lock calls the callers of the client that wait for one of
// its resources: their SETs stand behind it.
func TestReleaseOfSeveralCallsTheQueues(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for _, release := range []func(Lock) error{
			func(l Lock) error { return l.Release(t.Context()) },
			func(l Lock) error { c.abandon(l); return nil },
		} {
			lock, err := c.All("a", "b").TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			w := c.queues.join(c, request{kind: c.kinds.Plain(), name: "b", ttl: time.Second}, ErrHeld, 0, false)
			require.False(t, c.queues.isDue(w))
			require.NoError(t, release(lock))
			require.True(t, c.queues.isDue(w))
			w.leave()
		}
	})
}
