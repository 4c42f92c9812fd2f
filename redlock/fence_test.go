package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// fenced is the configuration of most tests here.
func fenced(more ...func(*Config)) Config {
	config := Config{Fenced: true, MaxTTL: time.Second}
	for _, change := range more {
		change(&config)
	}
	return config
}

// fenceOf locks and releases a resource and returns the lock's number.
func fenceOf(t *testing.T, c *Client, resource string) uint64 {
	t.Helper()
	lock := mustAcquire(t, c, resource, time.Second)
	require.NoError(t, lock.Release(context.Background()))
	return lock.Fence()
}

// lag makes the clock of a client's numbers wrong: it is ahead of this
// machine's, and never corrected by the nodes'.
func lag(c *Client, ahead time.Duration) {
	c.kinds.Numbers.Numbers = pure.NewNumbers(time.Now())
	c.kinds.Numbers.Correct(ahead)
}

// record returns what a node remembers.
func (m *memory) record(t *testing.T, node int) pure.Record {
	t.Helper()
	text, there := m.nodes[node].Get(wire.RecordName)
	require.True(t, there)
	r, err := pure.ParseRecord(text)
	require.NoError(t, err)
	return r
}

// Each lock has a higher number than all before on any of its resources,
// whichever client takes it, and in whatever form.
func TestFence_F1(t *testing.T) {
	for name, of := range map[string]func(*Client) Locker{
		"one":     func(c *Client) Locker { return c.Lock("y") },
		"several": func(c *Client) Locker { return c.All("x", "y", "z") },
	} {
		simulated(t, 5, func(t *testing.T, m *memory) {
			a, b := m.opened(t, fenced()), m.client(t, fenced())
			last := fenceOf(t, a, "y")
			rises := func(number uint64) {
				t.Helper()
				require.Greater(t, number, last, name)
				last = number
			}
			lock, err := of(b).TryAcquire(t.Context(), time.Second)
			require.NoError(t, err)
			rises(lock.Fence())
			for _, n := range m.nodes[:3] {
				for _, key := range lock.Resources() {
					text, _ := n.Get(key + wire.FenceSuffix)
					require.Equal(t, fmt.Sprint(last), text)
				}
			}
			longer, err := lock.Extend(t.Context(), time.Second)
			require.NoError(t, err)
			require.Equal(t, last, longer.Fence(), "an extension keeps it")
			adopted, err := b.Adopt("y", longer.Token(), "", time.Second, longer.Until())
			require.NoError(t, err)
			require.Zero(t, adopted.Fence())
			require.NoError(t, longer.Release(t.Context()))
			for _, resource := range lock.Resources() {
				rises(fenceOf(t, a, resource))
			}
			hold, err := of(a).Hold(t.Context(), HoldOptions{TTL: time.Second, Heal: name == "one"})
			require.NoError(t, err)
			rises(hold.Current().Fence())
			time.Sleep(5 * time.Second)
			require.Equal(t, last, hold.Current().Fence(), "renewals keep it")
			require.NoError(t, hold.Release(t.Context()))
			require.NoError(t, of(b).Do(t.Context(), time.Second, func(ctx context.Context) error {
				h, ok := FromContext(ctx)
				require.True(t, ok)
				rises(h.Current().Fence())
				return nil
			}))
			plain := m.client(t, Config{MaxTTL: time.Second})
			require.Zero(t, fenceOf(t, plain, "y"))
			held := mustAcquire(t, plain, "y", time.Second)
			_, err = of(a).TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrHeld)
			require.NoError(t, held.Release(t.Context()))
			one, err := a.All("y").Acquire(t.Context(), time.Second)
			require.NoError(t, err)
			rises(one.Fence())
			require.Zero(t, a.Stats().Renumbered+b.Stats().Renumbered, "with clocks that agree, one round is enough")
		})
	}
}

// A number that is too low costs a second round, with a token of its own, and
// no attempt more (R3).
func TestFenceOfAClientThatIsBehind(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		ahead, behind := m.opened(t, fenced()), m.client(t, fenced())
		lag(behind, -100*ms)
		last := fenceOf(t, ahead, "r")
		require.Equal(t, last+1, fenceOf(t, behind, "r"))
		require.EqualValues(t, 1, behind.Stats().Renumbered)
		require.EqualValues(t, 1, behind.Stats().Attempts.Total())
		require.Equal(t, last+2, fenceOf(t, behind, "r"), "it has learned")
		tokens := map[string]bool{}
		for _, e := range m.nodes[0].Log() {
			if e.Args[0] == "EVALSHA" && e.Args[1] == wire.AcquireFenced.Digest && e.Args[3] == "r" {
				require.False(t, tokens[e.Args[6]])
				tokens[e.Args[6]] = true
			}
		}
		require.Len(t, tokens, 4)
	})
}

// A number that is far ahead of most nodes' clocks is granted by none of them.
// The clock is corrected, and no harm is left.
func TestFenceOfAClientThatIsFarAhead(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.opened(t, fenced()), m.client(t, fenced())
		a.kinds.Numbers.Correct(24 * 365 * time.Hour)
		_, err := a.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, multiplex.ErrUnbelieved)
		a.kinds.Numbers.Numbers = pure.NewNumbers(time.Now()) // as after the next look at the nodes' clocks
		first := fenceOf(t, a, "r")
		require.InDelta(t, time.Now().UnixMicro(), first, 1e6)
		require.Greater(t, fenceOf(t, b, "r"), first)

		// A floor in the future is no obstacle.
		future := uint64(time.Now().Add(24 * 365 * time.Hour).UnixMicro())
		reset, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), future)
		require.NoError(t, err)
		require.Equal(t, future, reset.Floor)
		for _, c := range []*Client{a, b} {
			start := time.Now()
			lock, err := c.Acquire(t.Context(), "r", time.Second) // when it has looked
			require.NoError(t, err)
			require.Less(t, time.Since(start), time.Second, "soon, since it did not believe the nodes")
			require.Greater(t, lock.Fence(), future)
			require.NoError(t, lock.Release(t.Context()))
		}
	})
}

// countsAgain waits until all nodes count for fenced locks.
func countsAgain(t *testing.T, c *Client, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	time.Sleep(100 * ms) // until it has noticed
	require.NoError(t, c.group.Complete(ctx))
}

// A node that lost its memory counts only after its quarantine, and with a
// floor that it learns from the others: then no lower number is granted, even
// if every node lost its memory in turn, and the clients' clocks are an hour
// late (F3).
func TestFenceAfterRollingRestarts_F3(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced())
		last := fenceOf(t, c, "r")
		for i, n := range m.nodes {
			was := m.record(t, (i+1)%3)
			m.nodes[i].Restart()
			time.Sleep(100 * ms)
			m.nodes[(i+1)%3].Pause() // only two are left, of which one is quarantined
			for _, l := range []Locker{c.Lock("r"), c.All("r", "s")} {
				_, err := l.TryAcquire(t.Context(), 300*ms)
				require.ErrorIs(t, err, ErrNoQuorum)
				require.ErrorIs(t, err, ErrQuarantined)
			}
			_, there := n.Get(wire.RecordName)
			require.True(t, there, "it remembers what it grants meanwhile")
			require.EqualValues(t, pure.NoFloor, m.record(t, i).Floor)
			m.nodes[(i+1)%3].Resume()
			countsAgain(t, c, 3*time.Second)
			require.Equal(t, n.Process(), m.record(t, i).Run)
			require.GreaterOrEqual(t, m.record(t, i).Floor, was.High())
			require.GreaterOrEqual(t, m.record(t, i).Floor, int64(last))
		}
		late := m.client(t, fenced())
		lag(late, -time.Hour)
		require.Greater(t, fenceOf(t, late, "r"), last)
	})
}

// A flushed node says so itself: its vote fails at once, not when the client
// looks at its seal the next time.
func TestFenceOfAFlushedNode_F2(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced())
		last := fenceOf(t, c, "r")
		time.Sleep(time.Second)
		m.nodes[0].FlushAll()
		m.nodes[1].Pause()
		_, err := c.TryAcquire(t.Context(), "r", 300*ms)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNoFloor)
		m.nodes[1].Resume()
		time.Sleep(10 * ms)
		require.Contains(t, c.Nodes()[0].QuarantineWhy, "vanished", "the look came at once")
		countsAgain(t, c, 3*time.Second)
		require.GreaterOrEqual(t, m.record(t, 0).Floor, int64(last))
		lag(c, -time.Hour)
		require.Greater(t, fenceOf(t, c, "r"), last)
	})
}

// A reset counts what a single node remembers, though it is further ahead of
// the clocks than a reset goes by itself: the other nodes may have granted it
// before they lost their memory.
func TestResetFenceKeepsWhatOneNodeRemembers_F1(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		fenceOf(t, m.opened(t, fenced()), "r")
		ahead := time.Now().Add(time.Hour).UnixMicro()
		text, _ := m.nodes[2].Get(wire.RecordName)
		record, err := pure.ParseRecord(text)
		require.NoError(t, err)
		text = fmt.Sprintf("redlock-fence 1 run_id=%s floor=%d period=0 cur=%d prev=0", record.Run, record.Floor, ahead)
		m.nodes[2].DB().Set(wire.RecordName, text, 0)
		reset, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), 0)
		require.NoError(t, err)
		require.EqualValues(t, ahead, reset.Floor)
	})
}

// Locks without a number need no floors: a client with Config.Fenced gets them
// where its other locks must wait for the operator.
func TestLocksWithoutANumberNeedNoFloor_F2(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, fenced())
		time.Sleep(10 * time.Second)
		_, err := c.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoFloor)
		m.link(0).Refuse(true)
		m.link(0).Reset()
		time.Sleep(time.Second)
		rw := c.RW("r")
		for _, k := range []Locker{rw.Read(), rw.Write(), c.Semaphore("r", 2), c.Fair("r")} {
			lock, err := k.Acquire(t.Context(), time.Second)
			require.NoError(t, err)
			lock, err = lock.Extend(t.Context(), time.Second)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
		}
		read, err := rw.Read().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		write, err := rw.Upgrade(t.Context(), read, time.Second)
		require.NoError(t, err)
		require.NoError(t, read.Release(t.Context()))
		read, err = rw.Downgrade(t.Context(), write, time.Second)
		require.NoError(t, err)
		require.NoError(t, read.Release(t.Context()))
		_, err = c.All("r", "s").TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrNoFloor)
	})
}

// A lock with a number waits for no node that has no floor: it would not count
// when it is back.
func TestNodesWithoutFloorsAreNotWaitedFor_F2(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, fenced())
		time.Sleep(10 * time.Second)
		for i := range 2 {
			m.link(i).HoldDials(true)
			m.link(i).Reset()
			defer m.link(i).HoldDials(false)
		}
		synctest.Wait()
		start := time.Now()
		_, err := c.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		_, err = c.All("r", "s").TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Zero(t, time.Since(start))
		_, err = c.RW("r").Write().TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Positive(t, time.Since(start), "this one may have a quorum in a moment")
	})
}

// A reset changes nothing unless all nodes count.
func TestResetFenceNeedsAllNodes(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.opened(t, fenced())
		before := m.record(t, 0)
		m.link(2).Refuse(true)
		m.link(2).Reset()
		_, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), 1<<50)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "needs all nodes")
		require.ErrorContains(t, err, m.addr(2))
		require.Equal(t, before, m.record(t, 0))
		m.link(2).Refuse(false)
		m.nodes[2].Restart()
		limited, cancel := context.WithTimeout(t.Context(), 500*ms)
		defer cancel()
		_, err = ResetFence(limited, m.reach(Config{MaxTTL: time.Second}), 1<<50)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrQuarantined)
		require.Equal(t, before, m.record(t, 0))
		_, err = ResetFence(t.Context(), m.reach(Config{Forgetful: true}), 0)
		require.ErrorIs(t, err, ErrConfig)
		for _, least := range []int64{pure.MostNumber + 1, pure.LastNumber} {
			_, err = ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), uint64(least))
			require.ErrorIs(t, err, ErrConfig)
		}
	})
}

// A node whose seal is another one each time that it is given a floor has none:
// the reset says so, and touches no other node.
func TestResetFenceFailsWhileASealChanges_F3(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.opened(t, fenced())
		before := m.record(t, 2)
		m.answerFloors(2, ":0\r\n", func() bool { return true })
		_, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), 1<<50)
		require.ErrorContains(t, err, "not all nodes were given a floor")
		require.Equal(t, before, m.record(t, 2))
	})
}

// A reset that had to look again tells of the nodes as they were before it, not
// of the floors that it has given them itself.
func TestResetFenceTellsOfTheNodesBeforeIt_F3(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.opened(t, Config{MaxTTL: time.Second})
		for _, n := range m.nodes {
			n.DB().Delete(wire.RecordName)
		}
		asked := 0
		m.answerFloors(2, ":0\r\n", func() bool { asked++; return asked == 1 })
		done, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), 1<<50)
		require.NoError(t, err)
		require.Equal(t, 2, asked, "its seal had changed")
		for i, n := range done.Nodes {
			require.Equal(t, FenceNode{Addr: m.addr(i)}, n)
			require.Equal(t, int64(done.Floor), m.record(t, i).Floor)
		}
	})
}

// answerFloors makes a node answer a floor that it is given with reply, for as
// long as it should, instead of writing it.
func (m *memory) answerFloors(node int, reply string, should func() bool) {
	m.nodes[node].Handle(func(_ int, args []string) ([]byte, bool) {
		ours := args[0] == "EVALSHA" && args[1] == wire.Floor.Digest && args[len(args)-1] > "1000"
		return []byte(reply), ours && should()
	})
}

// Init with Fenced reports a floor that could not be written: fenced locks
// would wait for it. Without Fenced it is no matter.
func TestInitReportsAFloorThatIsNotWritten_F2(t *testing.T) {
	for _, fence := range []bool{true, false} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			m.answerFloors(2, "-OOM command not allowed\r\n", func() bool { return true })
			_, err := Init(t.Context(), m.reach(Config{MaxTTL: time.Second, Fenced: fence}))
			if fence {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// A second Init finds the deployment open and touches no floor: one without
// the lead of a reset could be lower than numbers that were granted.
func TestInitLeavesTheFloorsOfWhatIsOpen_F3(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		m.opened(t, fenced())
		before := m.record(t, 0)
		time.Sleep(time.Minute)
		d, err := Init(t.Context(), m.reach(fenced()))
		require.NoError(t, err)
		require.False(t, d.New)
		require.Equal(t, before, m.record(t, 0))
	})
}

// A node that refused its floor for a while, as at maxmemory, gets it
// afterwards, over the same connection.
func TestFloorIsWrittenAfterARefusal_F3(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced())
		last := fenceOf(t, c, "r")
		var full atomic.Bool
		full.Store(true)
		m.answerFloors(0, "-OOM command not allowed when used memory > 'maxmemory'.\r\n", full.Load)
		m.nodes[0].FlushAll()
		time.Sleep(20 * time.Second)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, c.group.Complete(ended), "it has no floor")
		full.Store(false)
		countsAgain(t, c, 6*time.Second)
		require.GreaterOrEqual(t, m.record(t, 0).Floor, int64(last))
	})
}

// A node whose record cannot be true, or is none, by a mistake or a lie, takes
// no numbers from the others. The reset says so, and gives it a new record.
func TestResetFenceReplacesARecordBeyondBelief_R33(t *testing.T) {
	for name := range recordsBeyondBelief(&redistest.Node{}) {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.opened(t, fenced())
				last := fenceOf(t, c, "r")
				m.nodes[2].DB().Set(wire.RecordName, recordsBeyondBelief(m.nodes[2])[name], 0)
				time.Sleep(6 * time.Second)
				require.Greater(t, fenceOf(t, c, "r"), last, "two nodes are enough")
				before := time.Now()
				reset, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), 0)
				require.NoError(t, err)
				require.InDelta(t, before.Add(pure.FenceLead).UnixMicro(), reset.Floor, 1e6)
				for i, n := range reset.Nodes {
					require.Equal(t, i == 2, n.Beyond, "node %d", i)
					require.Equal(t, i != 2, n.Floored, "node %d", i)
					require.EqualValues(t, reset.Floor, m.record(t, i).High(), "node %d", i)
				}
				countsAgain(t, c, 6*time.Second)
				m.link(0).Refuse(true)
				m.link(0).Reset()
				require.Greater(t, fenceOf(t, c, "r"), reset.Floor, "the node counts again")
			})
		})
	}
}

// recordsBeyondBelief are values of a node's record that cannot be true.
func recordsBeyondBelief(n *redistest.Node) map[string]string {
	far := time.Now().Add(24 * 365 * time.Hour).UnixMicro()
	run := n.RunID()
	return map[string]string{
		"the last number": pure.Record{Run: run, Cur: pure.LastNumber}.String(),
		"a year ahead":    pure.Record{Run: run, Floor: far}.String(),
		"beyond all":      "redlock-fence 1 run_id=" + run + " floor=0 period=0 cur=99999999999999999999 prev=0",
		"something else":  "12",
		"of a later form": "redlock-fence 2 x",
	}
}

// One bad record does not become the floor of the others when they restart, one
// after the other, and its node is named with the way out: an attempt does not
// say that the lock is held (R33).
func TestOneBadRecordDoesNotSpread_R33(t *testing.T) {
	for name := range recordsBeyondBelief(&redistest.Node{}) {
		t.Run(name, func(t *testing.T) {
			simulated(t, 5, func(t *testing.T, m *memory) {
				c := m.opened(t, fenced())
				last := fenceOf(t, c, "r")
				m.nodes[4].DB().Set(wire.RecordName, recordsBeyondBelief(m.nodes[4])[name], 0)
				time.Sleep(6 * time.Second)
				for i := range 4 {
					m.nodes[i].Restart()
					time.Sleep(10 * time.Second)
					most := time.Now().Add(pure.Belief).UnixMicro()
					require.LessOrEqual(t, m.record(t, i).High(), most, "node %d learned the lie", i)
					number := fenceOf(t, c, "r")
					require.Greater(t, number, last)
					require.LessOrEqual(t, number, uint64(most))
					require.Contains(t, fmt.Sprint(c.Nodes()[4].Warnings), "redlock fence reset")
					last = number
				}
				require.Empty(t, c.Nodes()[3].Warnings)
				require.NoError(t, c.Ready(t.Context()))
			})
		})
	}
}

// Where no quorum can have a floor again, waiting cannot help (R31): attempts
// and Ready say so and name the way out. After the reset, numbers go on rising.
func TestFencedLocksThatNeedAReset_R31_R33(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		c := m.client(t, fenced())
		time.Sleep(10 * time.Second)
		_, there := m.nodes[0].Get(wire.RecordName)
		require.False(t, there, "a client that opens a deployment makes no floors up")
		last := uint64(0)
		try := func(name string) {
			start := time.Now()
			_, tried := c.TryAcquire(t.Context(), "r", time.Second)
			_, waited := c.Acquire(t.Context(), "r", time.Second)
			for _, err := range []error{tried, waited} {
				require.ErrorIs(t, err, ErrNoQuorum, name)
				require.NotErrorIs(t, err, ErrHeld, name)
				require.ErrorContains(t, err, "redlock fence reset", name)
			}
			require.ErrorIs(t, c.Ready(t.Context()), ErrNoFloor, name)
			require.Less(t, time.Since(start), 100*ms, name)
			reset, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), 0)
			require.NoError(t, err)
			require.Greater(t, reset.Floor, last)
			countsAgain(t, c, 6*time.Second)
			last = fenceOf(t, c, "r")
			require.Greater(t, last, reset.Floor)
		}
		try("no floor yet")
		m.nodes[0].Restart()
		time.Sleep(6 * time.Second)
		try("restarted")
		for name, value := range recordsBeyondBelief(m.nodes[0]) {
			if name == "a year ahead" {
				continue // a quorum says so
			}
			m.nodes[0].DB().Set(wire.RecordName, value, 0)
			time.Sleep(6 * time.Second)
			require.Contains(t, fmt.Sprint(c.Nodes()[0].Warnings), "redlock fence reset", name)
			try(name)
		}
	})
}

// A last number that its node cannot have granted, as its record says, is one
// that something else has set. It moves no numbers, and lasts for one lock.
func TestABadLastNumberMovesNothing_R33(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		simulated(t, nodes, func(t *testing.T, m *memory) {
			c := m.opened(t, fenced())
			last := fenceOf(t, c, "r")
			for _, bad := range []string{strconv.FormatUint(pure.LastNumber, 10), "99999999999999999999", fmt.Sprint(time.Now().Add(time.Hour).UnixMicro())} {
				m.nodes[0].DB().Set("r"+wire.FenceSuffix, bad, 0)
				for range 5 {
					number := fenceOf(t, c, "r")
					require.Greater(t, number, last)
					require.InDelta(t, time.Now().UnixMicro(), number, 5e6)
					last = number
				}
				text, _ := m.nodes[0].Get("r" + wire.FenceSuffix)
				require.Equal(t, fmt.Sprint(last), text)
			}
		})
	}
}

// A node that says of each number that it is too low, or too far ahead, or that
// a free lock is held, and names any number at all, costs no attempt: it counts
// as failed, and moves nothing for others (R33).
func TestANodeThatLiesAboutNumbers_R33(t *testing.T) {
	for name, lie := range map[string]func(now int64) string{
		"stale, the last":        func(int64) string { return fmt.Sprintf("*2\r\n:2\r\n:%d\r\n", int64(pure.LastNumber)) },
		"stale, beyond belief":   func(now int64) string { return fmt.Sprintf("*2\r\n:2\r\n:%d\r\n", now+2*pure.Belief.Microseconds()) },
		"stale, barely believed": func(now int64) string { return fmt.Sprintf("*2\r\n:2\r\n:%d\r\n", now+pure.Belief.Microseconds()-1e6) },
		"ahead of nothing":       func(int64) string { return "*2\r\n:3\r\n:0\r\n" },
		"ahead of the last":      func(int64) string { return fmt.Sprintf("*2\r\n:3\r\n:%d\r\n", int64(pure.LastNumber)) },
		"held, beyond belief":    func(int64) string { return fmt.Sprintf("*3\r\n:0\r\n:%d\r\n$2\r\n1 \r\n", int64(pure.LastNumber)) },
		"held, and in turn stale": func(now int64) string {
			return []string{"*3\r\n:0\r\n:5\r\n$2\r\n1 \r\n", fmt.Sprintf("*2\r\n:2\r\n:%d\r\n", int64(pure.LastNumber))}[now%2]
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				clients := []*Client{m.opened(t, fenced()), m.client(t, fenced())}
				m.nodes[1].Handle(func(_ int, args []string) ([]byte, bool) {
					if args[0] != "EVALSHA" || args[1] != wire.AcquireFenced.Digest {
						return nil, false
					}
					return []byte(lie(time.Now().UnixMicro())), true
				})
				last := map[string]uint64{}
				for i := range 200 {
					resource := fmt.Sprint("r", i%7)
					number := fenceOf(t, clients[i%2], resource)
					require.Greater(t, number, last[resource])
					require.LessOrEqual(t, number, uint64(time.Now().Add(pure.Belief+time.Second).UnixMicro()))
					last[resource] = number
					time.Sleep(30 * ms)
				}
			})
		})
	}
}

func TestFenceRefusesWhatCannotWork(t *testing.T) {
	_, err := New(t.Context(), Config{Nodes: Nodes("redis://a"), Fenced: true, Forgetful: true})
	require.ErrorIs(t, err, ErrConfig)
	simulated(t, 1, func(t *testing.T, m *memory) {
		c, plain := m.opened(t, fenced()), m.client(t, Config{MaxTTL: time.Second})
		for _, name := range []string{wire.RecordName, "r" + wire.FenceSuffix} {
			_, err := c.TryAcquire(t.Context(), name, time.Second)
			require.ErrorIs(t, err, ErrResource)
		}
		_, err := plain.TryAcquire(t.Context(), wire.RecordName, time.Second)
		require.ErrorIs(t, err, ErrResource)
		mustAcquire(t, plain, "r"+wire.FenceSuffix, time.Second)
		_, err = c.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum, "what stands there is no number")
	})
}

// Every form of reply to the script, and its meaning (R16).
func TestFencedJudgement(t *testing.T) {
	for reply, want := range map[string]multiplex.Vote{
		"*2\r\n:1\r\n:0\r\n": multiplex.Granted, "*2\r\n:1\r\n:9007199254740991\r\n": multiplex.Granted,
		"*3\r\n:0\r\n:5\r\n$3\r\n2 x\r\n": multiplex.Refused, "*3\r\n:0\r\n:5\r\n$2\r\n1 \r\n": multiplex.Refused,
		"*2\r\n:0\r\n:5\r\n": multiplex.Alien, "*3\r\n:0\r\n:5\r\n$1\r\nx\r\n": multiplex.Alien, "*3\r\n:0\r\n:5\r\n:1\r\n": multiplex.Alien,
		"*3\r\n:1\r\n:0\r\n$2\r\n1 \r\n": multiplex.Alien, "*3\r\n:2\r\n:5\r\n$2\r\n1 \r\n": multiplex.Alien,
		"*4\r\n:0\r\n:5\r\n$2\r\n1 \r\n$2\r\n1 \r\n": multiplex.Alien, "*3\r\n$2\r\n1 \r\n:0\r\n:5\r\n": multiplex.Alien,
		"*2\r\n:2\r\n:5\r\n": multiplex.Refused, "*2\r\n:3\r\n:5\r\n": multiplex.Beyond,
		"*2\r\n:2\r\n:9007199254740991\r\n": multiplex.Beyond, "*3\r\n:0\r\n:9007199254740991\r\n$2\r\n1 \r\n": multiplex.Beyond,
		"*2\r\n:4\r\n:0\r\n": multiplex.Floorless,
		"*2\r\n:5\r\n:0\r\n": multiplex.Alien, "*2\r\n:-1\r\n:0\r\n": multiplex.Alien, "*2\r\n:1\r\n:-1\r\n": multiplex.Alien,
		"*2\r\n:1\r\n:9007199254740992\r\n": multiplex.Alien, "*2\r\n:1\r\n$1\r\n5\r\n": multiplex.Alien, "*2\r\n+OK\r\n:1\r\n": multiplex.Alien,
		"*1\r\n:1\r\n": multiplex.Alien, "*3\r\n:1\r\n:0\r\n:0\r\n": multiplex.Alien, "*0\r\n": multiplex.Alien, "*-1\r\n": multiplex.Alien,
		":1\r\n": multiplex.Alien, "+OK\r\n": multiplex.Alien, "_\r\n": multiplex.Alien, "~2\r\n:1\r\n:0\r\n": multiplex.Alien,
		"*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n:0\r\n": multiplex.Alien,
	} {
		v := parsed(t, reply)
		c := encoding(Config{Fenced: true})
		command, _ := c.kinds.Plain().Claim(&kind.Grant{}, nil)
		require.Equal(t, want, command.Judge(v), "%q", reply)
	}
}

// The numbers of many clients rise in the order of their locks. Clients whose
// clocks are corrected by the nodes' need no extra rounds, however far apart
// the nodes' clocks are; clients whose clocks are wrong need some (R3).
func TestFenceOfManyClients(t *testing.T) {
	type clocks struct {
		apart       time.Duration
		wrong       bool    // the clients', not the nodes'
		least, most float64 // extra rounds for each grant
	}
	few := []clocks{{10 * ms, true, 0.1, 0.6}, {100 * ms, false, 0, 0.01}}
	for _, c := range redistest.Few(few, append(few, clocks{0, true, 0, 0.01}, clocks{100 * ms, true, 0.5, 2}, clocks{10 * ms, false, 0, 0.01})) {
		t.Run(fmt.Sprintf("%v apart/wrong=%t", c.apart, c.wrong), func(t *testing.T) {
			simulated(t, 5, func(t *testing.T, m *memory) {
				clients := []*Client{m.opened(t, fenced())}
				for i, n := range m.nodes {
					if !c.wrong {
						n.Clock().Step(time.Duration(i)*c.apart/4 - c.apart/2)
					}
				}
				for len(clients) < 16 {
					clients = append(clients, m.client(t, fenced()))
				}
				time.Sleep(6 * time.Second) // each has looked at the nodes' clocks again
				for i := range clients {
					if c.wrong {
						lag(clients[i], time.Duration(i)*c.apart/15-c.apart/2)
					}
				}
				grants, extra := takeTurns(t, clients), uint64(0)
				for _, client := range clients {
					extra += client.Stats().Renumbered
				}
				share := float64(extra) / float64(grants)
				t.Logf("%.3f extra rounds for each grant", share)
				require.GreaterOrEqual(t, share, c.least)
				require.LessOrEqual(t, share, c.most)
			})
		})
	}
}

// takeTurns makes each client lock a resource 40 times, at random moments, and
// checks the order of the numbers.
func takeTurns(t *testing.T, clients []*Client) (grants int) {
	var mu sync.Mutex // guards the following
	var last uint64
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for range 40 {
				time.Sleep(rand.N(100 * ms))
				lock, err := c.Acquire(t.Context(), "r", time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if lock.Fence() <= last {
					t.Errorf("%d after %d", lock.Fence(), last)
				}
				last = lock.Fence()
				grants++
				mu.Unlock()
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return grants
}

// A node that is declared durable keeps its floor when it restarts with its
// keys. If it comes back empty, its grants do not count, though it is not
// quarantined, until it has been watched for so long that no attempt from
// before can be in flight, and the others have told its floor (F2, F3, F4).
func TestFenceOfADurableNode_F2(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		config := fenced()
		config.Nodes = Nodes(m.urls()...)
		config.Nodes[0].Durable = true
		c := m.opened(t, config)
		last := fenceOf(t, c, "r")
		m.nodes[0].RestartDurably()
		time.Sleep(100 * ms)
		m.nodes[1].Pause()
		number := fenceOf(t, c, "r")
		require.Greater(t, number, last)
		m.nodes[1].Resume()
		m.nodes[0].Restart()
		time.Sleep(config.MaxTTL / 2)
		m.nodes[1].Pause()
		_, err := c.TryAcquire(t.Context(), "r", 300*ms)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNoFloor)
		m.nodes[1].Resume()
		require.EqualValues(t, pure.NoFloor, m.record(t, 0).Floor)
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, uint64(m.record(t, 0).Floor), number)
		m.nodes[1].Pause()
		require.Greater(t, fenceOf(t, c, "r"), number)
		m.nodes[1].Resume()
	})
}

// A durable node that was given no floor, as when a reset did not reach it,
// learns it from the others, though its seal names a process that has ended
// (F3, F4).
func TestFloorOfADurableNodeThatRestarted_F3(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		config := fenced()
		config.Nodes = Nodes(m.urls()...)
		config.Nodes[0].Durable = true
		c := m.opened(t, config)
		last := fenceOf(t, c, "r")
		m.nodes[0].DB().Delete(wire.RecordName)
		m.nodes[0].RestartDurably()
		time.Sleep(5 * time.Second)
		require.GreaterOrEqual(t, uint64(m.record(t, 0).Floor), last)
		m.nodes[1].Pause()
		require.Greater(t, fenceOf(t, c, "r"), last)
		m.nodes[1].Resume()
	})
}

// A node that does not say which process it is may have another one's memory:
// its grants of numbers do not count, though those of plain locks do after a
// quarantine (F2).
func TestFenceOfANodeWithoutARunID_F2(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced())
		m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			return []byte("-NOPERM this user has no permissions to run the 'info' command\r\n"), args[0] == "INFO"
		})
		m.nodes[0].DropConns()
		time.Sleep(5 * time.Second)
		require.False(t, c.Nodes()[0].Quarantined)
		m.nodes[1].Pause()
		_, err := c.TryAcquire(t.Context(), "r", 300*ms)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNoFloor)
		require.ErrorContains(t, err, "run id")
		m.nodes[1].Resume()
	})
}

// A reset goes by the clock of most nodes, whatever one of them shows (R33).
func TestResetFenceGoesByMostClocks_R33(t *testing.T) {
	for _, step := range []time.Duration{24 * 365 * time.Hour, -24 * 365 * time.Hour} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			m.opened(t, fenced())
			m.nodes[0].Clock().Step(step)
			reset, err := ResetFence(t.Context(), m.reach(Config{MaxTTL: time.Second}), 0)
			require.NoError(t, err)
			require.InDelta(t, time.Now().Add(pure.FenceLead).UnixMicro(), reset.Floor, 1e6)
		})
	}
}
