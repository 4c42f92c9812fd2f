package redlock

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// set returns a configuration that names some of the nodes.
func (m *memory) set(nodes ...int) Config {
	config := Config{MaxTTL: DefaultMaxTTL}
	for _, i := range nodes {
		config.Nodes = append(config.Nodes, Node{URL: m.nodes[i].URL()})
	}
	return config
}

// foreignLock opens the deployment {2, 3, 4} on nodes that have run for a
// minute, and returns a lock that its client takes on 3 and 4 while node 2 is
// down, after meanwhile. The client is gone by then: it is a command.
func foreignLock(t *testing.T, m *memory, meanwhile func()) Lock {
	t.Helper()
	time.Sleep(time.Minute)
	c := m.client(t, m.set(2, 3, 4))
	mustAcquireFirst(t, c)
	m.link(2).Refuse(true)
	m.nodes[2].DropConns()
	meanwhile()
	lock := mustAcquire(t, c, "r", DefaultMaxTTL)
	closeNow(t, c)
	return lock
}

// A client that has watched two of its nodes for long opens its set as soon as
// the third comes back empty, which was another set's: it counts none of them
// before the locks of that set have run out (R29).
func TestOwnWatchIsNoDebut_R29(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		var second *Client
		lock := foreignLock(t, m, func() {
			second = m.client(t, m.set(0, 1, 2))
			time.Sleep(40 * time.Second) // longer than MaxTTL
		})
		m.nodes[2].Restart()
		m.link(2).Refuse(false)
		start := time.Now()
		mustAcquireIn(t, second, time.Minute)
		require.LessOrEqual(t, lock.Validity(), time.Duration(0), "two holders, %v after the start", time.Since(start))
		fresh := m.client(t, m.set(0, 1, 2))
		_, err := fresh.TryAcquire(t.Context(), "r2", time.Second)
		require.NoError(t, err, "the seals say that all nodes count")
	})
}

// The same if another client of the set opens it, because this one saw the node
// in the other set: the seals that it finds say how long ago that was (R29).
func TestOwnWatchIsNoProofInAnothersDeployment_R29(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		var second *Client
		lock := foreignLock(t, m, func() {
			m.link(2).Refuse(false)
			second = m.client(t, m.set(0, 1, 2)) // it sees whose node 2 is
			m.link(2).Refuse(true)
			m.nodes[2].DropConns()
			time.Sleep(40 * time.Second)
		})
		m.nodes[2].Restart()
		m.link(2).Refuse(false)
		start := time.Now()
		third := m.client(t, m.set(0, 1, 2))
		for _, c := range []*Client{second, third} {
			later := mustAcquireIn(t, c, time.Minute)
			require.NoError(t, later.Release(t.Context()))
			require.LessOrEqual(t, lock.Validity(), time.Duration(0), "two holders, %v after the start", time.Since(start))
		}
	})
}

// A deployment is replaced by one that shares a single master with it. The
// locks of the old one are waited for on all masters, also on durable ones, and
// by a client that has watched them for long, which was refused until then
// (R30).
func TestReplacedLocksAreWaitedFor_R30(t *testing.T) {
	for name, durable := range map[string]bool{"durable": true, "not durable": false} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 5, func(t *testing.T, m *memory) {
				time.Sleep(time.Minute)
				set := func(nodes ...int) Config {
					config := m.set(nodes...)
					for i := range config.Nodes {
						config.Nodes[i].Durable = durable
					}
					return config
				}
				old, err := Init(t.Context(), m.reach(set(0, 1, 2)))
				require.NoError(t, err)
				waits := m.client(t, set(2, 3, 4))
				_, err = waits.Acquire(t.Context(), "r", time.Second)
				require.ErrorIs(t, err, ErrDeployment)
				time.Sleep(time.Minute)
				before := m.client(t, set(0, 1, 2))
				lock := mustAcquire(t, before, "r", DefaultMaxTTL)
				closeNow(t, before)

				next, err := Init(t.Context(), m.reach(set(2, 3, 4)), old.ID)
				require.NoError(t, err)
				require.True(t, next.New)
				m.nodes[2].FlushAll() // its key of the lock, so that the others decide
				for _, c := range []*Client{waits, m.client(t, set(2, 3, 4))} {
					later := mustAcquireIn(t, c, time.Minute)
					require.LessOrEqual(t, lock.Validity(), time.Duration(0), "two holders")
					require.NoError(t, later.Release(t.Context()))
				}
			})
		})
	}
}

// mustAcquireIn acquires the lock "r" in the end, also if the client is refused
// for a while.
func mustAcquireIn(t *testing.T, c *Client, most time.Duration) Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	for {
		lock, err := c.Acquire(ctx, "r", time.Second)
		if err == nil {
			return lock
		}
		require.NoError(t, ctx.Err(), "%v", err)
		time.Sleep(100 * ms)
	}
}

// The locks of a replaced deployment with a longer MaxTTL are waited for, too
// (R30).
func TestReplacedLocksOfALongerMaxTTL_R30(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		time.Sleep(time.Minute)
		long := Config{MaxTTL: 2 * time.Minute}
		old, err := Init(t.Context(), m.reach(long))
		require.NoError(t, err)
		before := m.client(t, long)
		m.link(1).Refuse(true)
		m.nodes[1].DropConns()
		lock := mustAcquire(t, before, "r", 2*time.Minute) // on 0 and 2
		closeNow(t, before)
		m.link(1).Refuse(false)
		time.Sleep(time.Second)
		log := &records{}
		short := Config{MaxTTL: 2 * time.Second, Nodes: Nodes(m.nodes[1].URL())}
		loud := m.reach(short)
		loud.Logger = slog.New(log)
		start := time.Now()
		next, err := Init(t.Context(), loud, old.ID)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, next.MaxTTL)
		longer := 118 * time.Second * 101 / 100 // with the drift
		require.InDelta(t, longer, time.Since(start), float64(50*ms))
		said := log.take()
		said = slices.DeleteFunc(said, func(r map[string]string) bool { return !strings.Contains(r["msg"], "has a longer MaxTTL") })
		require.Len(t, said, 1)
		left, err := time.ParseDuration(said[0]["left"])
		require.NoError(t, err)
		require.InDelta(t, longer, left, float64(50*ms))
		_, err = m.client(t, short).Acquire(t.Context(), "r", time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, lock.Validity(), time.Duration(0), "two holders")
	})
}
