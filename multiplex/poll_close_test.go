//go:build linux && !redmux_portable

package multiplex

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Close while callers poll, wait and arrive, and while connections die: every
// call returns, and nothing is left (R28).
func TestPolledCloseAtAnyTime(t *testing.T) {
	for size, rounds := range map[int]int{5: 150, 1: 50} {
		t.Run(fmt.Sprint("nodes=", size), func(t *testing.T) { closeAtAnyTime(t, size, rounds) })
	}
}

func closeAtAnyTime(t *testing.T, size, rounds int) {
	redistest.NoLeaks(t)
	random := seeded(t, rand.Uint64())
	nodes := startWireNodes(t, size)
	for round := range rounds {
		callers := []int{0, 1, 2, 8, 40}[round%5]
		silent := random.IntN(Quorum(size) + 1) // at the most there is no quorum, so that all wait
		for i, n := range nodes {
			n.silent.Store(i < silent)
		}
		g := onWire(t, nodes, func(c *Config) { c.VoteTimeout = 20 * time.Millisecond })
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { callUntilClosed(t, g, i) })
		}
		if round%3 == 0 {
			dies := random.IntN(2000)
			wg.Go(func() {
				time.Sleep(time.Duration(dies) * time.Microsecond)
				nodes[0].drop()
				nodes[size-1].drop()
			})
		}
		if after := random.IntN(3000); round%7 != 0 {
			time.Sleep(time.Duration(after) * time.Microsecond)
		}
		closesInTime(t, g)
		within(t, fmt.Sprintf("round %d: the callers", round), wg.Wait)
		require.NoError(t, g.settled())
		assert.Zero(t, g.poller.attached.Load())
		for _, n := range g.nodes {
			assert.Nil(t, n.polled.conn.Load())
		}
		if t.Failed() {
			t.Fatalf("round %d: %d callers, %d silent", round, callers, silent)
		}
	}
}

func callUntilClosed(t testing.TB, g *Group, caller int) {
	for n := 0; ; n++ {
		ctx, cancel := background, context.CancelFunc(func() {})
		if n%4 == 3 {
			ctx, cancel = context.WithTimeout(ctx, rand.N(2*time.Millisecond))
		}
		err := pairOn(ctx, g, fmt.Sprint(caller, "-", n))
		cancel()
		if errors.Is(err, ErrClosed) {
			return
		}
		if !assert.True(t, isOutcome(err), "%v", err) {
			return
		}
		if errors.Is(err, ErrUndecided) {
			time.Sleep(100 * time.Microsecond) // the lack of a quorum may be known at once
		}
	}
}

// When every connection has died, no event could wake the polling goroutine:
// Close must.
func TestPolledCloseWithNothingToPoll(t *testing.T) {
	redistest.NoLeaks(t)
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		for range 3 {
			nodes := startWireNodes(t, 3)
			g := onWire(t, nodes, patient)
			require.NoError(t, pairOn(background, g, "k"))
			for _, n := range nodes {
				n.close()
			}
			soon(t, "all are down", func() bool { return g.poller.attached.Load() == 0 })
			time.Sleep(after)
			closesInTime(t, g)
		}
	}
}

// A caller that still has the role when the group is closed wakes the group's
// goroutine when it leaves, although no caller waits: it has to read the ends
// of the connections.
func TestPolledCloseBeforeACallerLeaves(t *testing.T) {
	redistest.NoLeaks(t)
	g := onWire(t, startWireNodes(t, 3))
	takeRole(t, g)
	closed := make(chan error, 1)
	go func() { closed <- g.Close(background) }()
	soon(t, "the group is stopped", func() bool { return g.life.stopped.Err() != nil })
	time.Sleep(5 * time.Millisecond) // until its goroutine has found the role taken
	g.poller.leave()
	within(t, "Close", func() { assert.NoError(t, <-closed) })
}

// Close during a lookout, which learns it from the ends of the connections:
// only the group's goroutine can read those.
func TestPolledCloseWhileSomebodyLooksOut(t *testing.T) {
	redistest.NoLeaks(t)
	nodes := startWireNodes(t, 3)
	for range 20 {
		g := onWire(t, nodes, patient)
		l := g.Lookout([]byte("k"))
		require.True(t, l.Ask())
		soon(t, "the answers", func() bool {
			g.tracker.mu.Lock()
			defer g.tracker.mu.Unlock()
			return l.held.Len() == 3
		})
		closesInTime(t, g)
		within(t, "the signal", func() { <-l.Signal() })
	}
}

// The same while others post and look out, and leave at any time.
func TestPolledCloseAmongAll(t *testing.T) {
	redistest.NoLeaks(t)
	nodes := startWireNodes(t, 3)
	for round := range 60 {
		g := onWire(t, nodes)
		var wg sync.WaitGroup
		for i := range round % 4 {
			wg.Go(func() { callUntilClosed(t, g, i) })
		}
		wg.Go(func() { postUntilClosed(t, g) })
		wg.Go(func() { lookOutUntilClosed(g) })
		time.Sleep(rand.N(5 * time.Millisecond))
		if round%3 == 0 {
			nodes[round%2].drop()
		}
		closesInTime(t, g)
		within(t, "the others", wg.Wait)
		require.NoError(t, g.settled())
		require.Zero(t, g.poller.attached.Load())
		require.Zero(t, g.tracker.listening.Load())
	}
}

func postUntilClosed(t testing.TB, g *Group) {
	inbox, room := NewOutcomes(), make([]Outcome, 0, 7)
	for {
		posted := 0
		for range rand.N(30) {
			switch _, err := g.PostExtension(extendKind, &Command{Encoded: raw(extendCommand("k", "t", long)), TTL: long}, Posting{Inbox: inbox}); {
			case err == nil:
				posted++
			case errors.Is(err, ErrClosed):
				return // and the outcomes are dropped
			}
		}
		g.Flush()
		for posted > 0 {
			got := inbox.Take(room[:0])
			if posted -= len(got); len(got) == 0 {
				<-inbox.Ready()
			}
		}
		assert.Zero(t, posted, "an outcome came twice")
	}
}

func lookOutUntilClosed(g *Group) {
	l := g.Lookout([]byte("k"))
	defer l.Stop()
	for g.life.stopped.Err() == nil {
		if !l.Ask() {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		select {
		case <-l.Signal():
		case <-time.After(1 + rand.N(2*time.Millisecond)):
		}
	}
}

// Close of a group that never had a connection, after the watch has looked.
func TestPolledCloseWithNobodyThere(t *testing.T) {
	redistest.NoLeaks(t)
	n := startWireNode(t)
	n.close()
	for range 20 {
		config := Config{ProbeAfter: time.Millisecond}
		config.Nodes = append(config.Nodes, confOf(n))
		g, err := New(config)
		require.NoError(t, err)
		time.Sleep(rand.N(5 * time.Millisecond))
		closesInTime(t, g)
	}
}

// A goroutine that reads replies ticks like the watch does, perhaps when the
// group is already closed: no timer is left then (R28).
func TestPolledTickAfterClose_R28(t *testing.T) {
	g := onWire(t, startWireNodes(t, 1))
	require.NoError(t, g.Close(background))
	g.watcher.at.Store(0)
	g.tick()
	require.False(t, g.watcher.timer.Stop(), "a timer was set")
}
