package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shares returns the part of the time that clients held a lock in which the
// first had it, and how often each was granted it. Each caller holds the lock,
// and thinks before it wants it again.
func shares(t *testing.T, clients []*Client, callers []int, holds, thinks, lasts time.Duration) (first float64, times []int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	had := make([]time.Duration, len(clients))
	times = make([]int, len(clients))
	stop := time.Now().Add(lasts)
	for i, c := range clients {
		for range callers[i] {
			wg.Go(func() {
				for time.Now().Before(stop) {
					assert.NoError(t, c.Do(t.Context(), "r", 10*time.Second, func(context.Context) error {
						time.Sleep(holds)
						mu.Lock()
						defer mu.Unlock()
						if time.Now().Before(stop) {
							had[i] += holds
							times[i]++
						}
						return nil
					}))
					time.Sleep(thinks)
				}
			})
		}
	}
	wg.Wait()
	return float64(had[0]) / float64(had[0]+had[1]), times
}

// Of two clients each has the lock for about half of the time, however many of
// their callers want it, and even if the queue of one is empty again and again.
func TestTwoClientsShareALock_R11(t *testing.T) {
	for _, c := range []struct {
		callers             []int
		holds, thinks, trip time.Duration
	}{
		{[]int{1, 1}, 5 * ms, ms, ms / 2},
		{[]int{2, 2}, 5 * ms, ms, ms / 2},
		{[]int{2, 2}, 5 * ms, ms, 2 * ms},
		{[]int{2, 1}, 5 * ms, ms, ms / 2},
		{[]int{2, 1}, 20 * ms, ms, ms / 2},
		{[]int{2, 1}, 100 * ms, ms, ms / 2}, // longer than a streak
		{[]int{10, 1}, 5 * ms, ms, ms / 2},
		{[]int{10, 10}, 5 * ms, ms, 2 * ms},
		{[]int{64, 1}, 20 * ms, ms, ms / 2},
		{[]int{64, 1}, 50 * ms, ms, ms / 2},
		{[]int{500, 500}, ms / 10, ms, 2 * ms},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				for i := range m.nodes {
					m.delay(i, c.trip)
				}
				clients := []*Client{m.client(t, Config{}), m.client(t, Config{})}
				first, times := shares(t, clients, c.callers, c.holds, c.thinks, 10*time.Second)
				t.Logf("share %.3f, grants %v, %d and %d handed over", first, times, clients[0].Stats().HandedOver, clients[1].Stats().HandedOver)
				require.InDelta(t, 0.5, first, 0.05)
			})
		})
	}
}

// If each grant asks the nodes, no client starves either.
func TestNoClientStarvesWithoutHandOvers_R11(t *testing.T) {
	for _, callers := range [][]int{{2, 1}, {2, 2}, {10, 1}, {10, 10}} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				clients := []*Client{m.client(t, Config{HandOver: -1}), m.client(t, Config{HandOver: -1})}
				first, times := shares(t, clients, callers, 5*ms, ms, 10*time.Second)
				t.Logf("share %.3f, grants %v", first, times)
				require.InDelta(t, 0.5, first, 0.45)
				require.Zero(t, clients[0].Stats().HandedOver)
			})
		})
	}
}

// A client whose callers have the lock to themselves loses little by giving
// way: a pause for each streak.
func TestGivingWayCostsLittle(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, idle := m.client(t, Config{}), m.client(t, Config{})
		_, times := shares(t, []*Client{c, idle}, []int{10, 0}, ms, 0, 10*time.Second)
		t.Logf("%d grants, %d handed over", times[0], c.Stats().HandedOver)
		require.Greater(t, times[0], 8000)
	})
}

// The end of a streak is where it is nearest to what it should be.
func TestWhenAStreakIsOver(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		left, had time.Duration // until the end of the streak, and since the grant
		over      bool
	}{
		{0, 0, true}, {-ms, 0, true}, {1, 0, false},
		{5*ms + 1, 10 * ms, false}, {5 * ms, 10 * ms, true},
		{time.Hour, ms, false}, {time.Hour, 3 * time.Hour, true},
	} {
		require.Equal(t, c.over, streak{ends: now.Add(c.left)}.over(now.Add(-c.had), now), "%+v", c)
	}
}

// How long a streak lasts follows from what was before.
func TestHowLongAStreakLasts(t *testing.T) {
	start := time.Now()
	gave := start.Add(-9 * ms)
	for name, c := range map[string]struct {
		handOver, usual time.Duration
		before          yielding
		lasts           time.Duration
	}{
		"as configured":           {50 * ms, ms, yielding{}, 50 * ms},
		"without hand-overs":      {-1, ms, yielding{}, streakLong},
		"distant nodes":           {50 * ms, 100 * ms, yielding{}, 400 * ms},
		"one that goes on":        {50 * ms, ms, yielding{streak: streak{ends: start.Add(7 * ms)}}, 7 * ms},
		"another had it":          {50 * ms, ms, yielding{gave: gave, last: 20 * ms, taken: true}, 9 * ms},
		"another had it for long": {5 * ms, ms, yielding{gave: gave, last: 5 * ms, taken: true}, 5 * ms},
		"another came and went":   {50 * ms, ms, yielding{gave: gave, last: 20 * ms, rival: true}, 9 * ms},
		"no other came":           {50 * ms, ms, yielding{gave: gave, last: 20 * ms}, 40 * ms},
		"none comes any more":     {50 * ms, ms, yielding{gave: gave, last: 40 * ms}, 50 * ms},
	} {
		var client Client
		client.config = &Config{HandOver: c.handOver}
		client.quorumTime.Store(int64(c.usual))
		require.Equal(t, c.lasts, client.streakAfter(c.before, start).ends.Sub(start), name)
	}
}
