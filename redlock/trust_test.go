package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// ours and theirs are deployments of one node.
var ours, theirs = deploymentOf("a"), deploymentOf("b")

func deploymentOf(digit string) pure.Identity {
	return pure.Identity{ID: strings.Repeat(digit, 32), Nodes: 1, Members: pure.MembersOf([]string{"node0:6379"})}
}

// sealOf returns the text of a seal; in the older form, of no deployment.
func sealOf(who pure.Identity, run string, maxTTL, watched time.Duration) string {
	return pure.Seal{Identity: who, Run: run, MaxTTL: maxTTL, Watched: watched}.String()
}

// A seal is never lowered, its time watched is that of one process, a node of
// another deployment keeps its own, and other values are left alone (R23, R30):
// on a real server and in memory.
func TestSealScript_R23_R30(t *testing.T) {
	const s = time.Second
	none := pure.Identity{}
	seal := func(run string, maxTTL, watched time.Duration) string { return sealOf(ours, run, maxTTL, watched) }
	sides := bothSides(t)
	for name, c := range map[string]struct {
		there, written, after string
		answer                int64
	}{
		"nothing is there":     {"", seal("a", 2*s, 3*s), seal("a", 2*s, 3*s), 1},
		"the same":             {seal("a", 2*s, 3*s), seal("a", 2*s, 3*s), seal("a", 2*s, 3*s), 1},
		"more":                 {seal("a", 2*s, 3*s), seal("a", 4*s, 5*s), seal("a", 4*s, 5*s), 1},
		"less":                 {seal("a", 2*s, 3*s), seal("a", s, 2*s), seal("a", 2*s, 3*s), 1},
		"a shorter MaxTTL":     {seal("a", 2*s, 3*s), seal("a", s, 9*s), seal("a", 2*s, 9*s), 1},
		"watched for less":     {seal("a", 2*s, 9*s), seal("a", 5*s, 6*s), seal("a", 5*s, 9*s), 1},
		"another process":      {seal("b", 2*s, 9*s), seal("a", 2*s, 3*s), seal("a", 2*s, 3*s), 1},
		"… of a longer one":    {seal("b", 5*s, 9*s), seal("a", 2*s, 3*s), seal("a", 5*s, 3*s), 1},
		"of the older form":    {sealOf(none, "a", 5*s, 9*s), seal("a", 2*s, 3*s), seal("a", 5*s, 9*s), 1},
		"… of another process": {sealOf(none, "b", 2*s, 9*s), seal("a", 2*s, 3*s), seal("a", 2*s, 3*s), 1},
		"a hundred years":      {seal("a", pure.LongestTTL, s), seal("a", s, pure.LongestTTL), seal("a", pure.LongestTTL, pure.LongestTTL), 1},
		"another deployment":   {sealOf(theirs, "a", 2*s, 3*s), seal("a", 2*s, 9*s), sealOf(theirs, "a", 2*s, 3*s), 0},
		"no seal":              {"a token, 20 bytes in", seal("a", 2*s, 3*s), "a token, 20 bytes in", 0},
		"a seal of the future": {"redlock-seal 4 x", seal("a", 2*s, 3*s), "redlock-seal 4 x", 0},
	} {
		for side, do := range sides {
			t.Run(name+"/"+side, func(t *testing.T) {
				do("DEL", "k")
				if c.there != "" {
					do("SET", "k", c.there)
				}
				require.Equal(t, c.answer, do("EVAL", sealSource, "2", "k", "o", "adopt", ours.String(), c.written))
				require.Equal(t, c.after, do("GET", "k"))
				require.EqualValues(t, -1, do("PTTL", "k"), "it does not expire")
			})
		}
	}
}

func TestMaxTTLBoundsWhatIsAskedFor_R23(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.opened(t, Config{MaxTTL: 2*time.Second + ms/2, MinValidity: ms})
		lock := mustAcquire(t, c, "r", 2*time.Second+ms/2)
		require.Equal(t, 2*time.Second, lock.grant.TTL, "cut to whole milliseconds, as the limit is (R4)")
		for _, ttl := range []time.Duration{2*time.Second + ms, time.Hour} {
			_, err := c.TryAcquire(t.Context(), "r2", ttl)
			require.ErrorIs(t, err, ErrTTL)
			_, err = c.Acquire(t.Context(), "r2", ttl)
			require.ErrorIs(t, err, ErrTTL)
			_, err = lock.Extend(t.Context(), ttl)
			require.ErrorIs(t, err, ErrTTL)
		}
		_, err := lock.Extend(t.Context(), 2*time.Second)
		require.NoError(t, err)
		_, err = Lock{}.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, ErrNotHeld)
		_, err = c.TryAcquire(t.Context(), wire.SealName, time.Second)
		require.ErrorIs(t, err, ErrResource, "the seal is no lock")
		_, err = m.client(t, Config{Prefix: "p:"}).TryAcquire(t.Context(), wire.OpeningName, time.Second)
		require.ErrorIs(t, err, ErrResource)
	})
}

func TestConfigurationsOfTrust(t *testing.T) {
	nodes := Nodes("redis://:hunter2@a", "redis://b", "redis://c")
	for says, config := range map[string]Config{
		"MaxTTL":                     {Nodes: nodes, MaxTTL: ms / 2},
		"negative":                   {Nodes: nodes, MaxTTL: -time.Second},
		"it must be between 1ms and": {Nodes: nodes, MaxTTL: pure.LongestTTL + ms},
	} {
		_, err := New(t.Context(), config)
		require.ErrorIs(t, err, ErrConfig)
		require.Contains(t, err.Error(), says)
		require.NotContains(t, err.Error(), "hunter2", "R27")
	}
	nodes[0].Durable, nodes[2].Durable = true, true
	require.Equal(t, multiplex.Set(0b101), (&Config{Nodes: nodes}).durable())
}

// Nodes that have just started make the first client wait, unless Init opens
// the deployment; other clients find the seals, under the prefix.
func TestFreshDeployment_R23(t *testing.T) {
	for name, declared := range map[string]bool{"opened by Init": true, "opened by the client": false} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				start := time.Now()
				config := Config{MaxTTL: 5 * time.Second, Prefix: "lock:"}
				if declared {
					_, err := Init(t.Context(), m.reach(config))
					require.NoError(t, err)
				}
				c := m.client(t, config)
				lock, err := c.TryAcquire(t.Context(), "r", time.Second)
				if !declared {
					require.ErrorIs(t, err, ErrNoQuorum)
					require.ErrorIs(t, err, ErrQuarantined)
					var q *multiplex.QuarantineError
					require.ErrorAs(t, err, &q)
					require.InDelta(t, 5055*ms, q.Left, float64(20*ms))
					s := c.Nodes()[1]
					require.True(t, s.Quarantined)
					require.Equal(t, pure.WhyYoung, s.QuarantineWhy)
					require.InDelta(t, 5055*ms, s.QuarantineLeft, float64(20*ms))
					lock, err = c.Acquire(t.Context(), "r", time.Second)
				}
				require.NoError(t, err)
				waited := time.Since(start)
				require.Equal(t, declared, waited < 50*ms, "%v", waited)
				require.Less(t, waited, 5055*ms+250*ms)
				require.NoError(t, lock.Release(t.Context()))
				time.Sleep(time.Second)
				for i, n := range m.nodes {
					keys := []string{"lock:redlock:seal"}
					if declared {
						keys = []string{"lock:redlock:fence", "lock:redlock:seal"}
					}
					require.Equal(t, keys, n.Keys())
					require.True(t, c.Nodes()[i].Sealed)
				}
				mustAcquire(t, m.client(t, config), "r", time.Second)
				_, err = m.client(t, Config{MaxTTL: 2 * time.Second, Prefix: "lock:"}).TryAcquire(t.Context(), "r", ms*3)
				require.ErrorIs(t, err, ErrMaxTTL)
			})
		})
	}
}

// A forgetful client writes no seal (R23 is off).
func TestForgetfulClientsWriteNoSeal(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		nodes := Nodes(m.urls()...)
		nodes[0].Durable = true
		c := m.client(t, Config{Nodes: nodes})
		mustAcquire(t, c, "r", time.Hour)
		time.Sleep(30 * time.Second)
		for i, n := range m.nodes {
			require.Equal(t, []string{"r"}, n.Keys())
			require.Empty(t, c.Nodes()[i].Warnings)
			require.False(t, c.Nodes()[i].Quarantined)
		}
	})
}

// Acquire keeps trying while nodes are quarantined, unless FailFast is set
// (R11).
func TestAcquireWaitsForTheQuarantine_R23(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 500*ms)
		defer cancel()
		_, err := m.client(t, Config{MaxTTL: time.Second}).Acquire(ctx, "r", time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrQuarantined)
		fast := m.client(t, Config{MaxTTL: time.Second, Retry: Retry{FailFast: true}})
		start := time.Now()
		_, err = fast.Acquire(context.Background(), "r", time.Second)
		require.ErrorIs(t, err, ErrQuarantined)
		require.False(t, errors.Is(err, ErrHeld))
		require.Zero(t, time.Since(start))
		err = fast.Ready(ctx)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrQuarantined)
		require.NoError(t, fast.Ready(context.Background()))
		mustAcquire(t, fast, "r", time.Second)
	})
}

// contestTTL is the longest TTL in a contest.
const contestTTL = 150 * ms

// time returns the length of the contest: with quarantined nodes, fewer grants
// come in the same time.
func (c contest) time() time.Duration {
	if c.restarts {
		return 3 * contestTime
	}
	return contestTime
}

// forget restarts one node after another, at a rate that leaves a quorum some
// time without a quarantined node.
func (c contest) forget(ctx context.Context, m *memory) {
	random := rand.New(rand.NewPCG(c.seed, 1<<33))
	for sleep(ctx, contestTTL+spanOf(random, 2*contestTTL), nil) == nil {
		m.nodes[random.IntN(c.nodes)].Restart()
	}
}
