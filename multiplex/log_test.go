package multiplex

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The ring grows without moving what a reader may be looking at, and each
// position keeps its round.
func TestRingGrows(t *testing.T) {
	g := &Group{config: new(Config), size: 1, quorum: 1}
	g.log.init()
	var rounds []*round
	push := func() {
		r := g.log.take(g)
		r.begin(claimKind.verb(), 0, long, Receipt{}, 1)
		g.log.push(r, []byte("x"))
		rounds = append(rounds, r)
	}
	for range firstRing / 2 {
		push()
	}
	g.log.trim(firstRing / 2) // the ring wraps from here
	kept := len(rounds)
	for range 3 * firstRing {
		push()
	}
	old := g.log.ring.Load()
	require.Equal(t, 3*firstRing, g.log.waiting())
	require.Len(t, old.slots, 4*firstRing)
	for pos := g.log.tail; pos < g.log.head; pos++ {
		require.Same(t, rounds[kept+int(pos)-firstRing/2], old.at(pos))
	}
	require.Len(t, g.log.buf, firstRing/2+3*firstRing)
	g.log.trim(g.log.head)
	require.Zero(t, g.log.live)
	require.Equal(t, g.log.head, g.log.oldest)
}

func TestBatchesAreRecycled(t *testing.T) {
	var l broadcast
	l.buf = append(l.buf, "one"...)
	first := l.swap()
	require.Equal(t, "one", string(first))
	l.buf = append(l.buf, "two"...)
	l.recycle(first)
	second := l.swap()
	require.Equal(t, "two", string(second))
	l.buf = append(l.buf, "!!!"...)
	require.Equal(t, "!!!", string(first[:3]), "the room of the batch before is used")
	require.Equal(t, "two", string(second))

	l.recycle(make([]byte, 0, keepBatch+1))
	require.Nil(t, l.spare, "R26: a huge batch is not kept")
}

// Releases that gather while the flusher writes are written by that flusher: it
// gives up its role only when nothing is left. Otherwise they would wait for
// the next flush, which on an idle client is the probe after 5 s.
func TestWhatGathersDuringAFlushIsWritten(t *testing.T) {
	const callers = 4
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		var receipts [callers]Receipt
		for i := range receipts {
			receipts[i] = c.mustClaim(fmt.Sprint("k", i))
		}
		time.Sleep(trip)
		for round := range 1000 {
			spent := took(func() {
				var wg sync.WaitGroup
				for i, receipt := range receipts {
					wg.Go(func() {
						// A refusal after the first round; only its time
						// matters.
						_ = c.release(background, fmt.Sprint("k", i), "t", long, receipt)
					})
				}
				wg.Wait()
			})
			require.Equal(t, trip, spent, "round %d", round)
		}
	}, withConfig(func(config *Config) { config.VoteTimeout = time.Minute }))
}

// If another goroutine computes, a yield lasts until its time slice ends. That
// happens once, and then not again for a while: claims must not wait for it
// each time (R6).
func TestYieldStopsWhereOthersCompute(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
		}
	}()
	defer func() { stop.Store(true); <-done }()

	g := &Group{config: new(Config), epoch: time.Now(), flusher: newFlusher(0)}
	for g.flusher.yieldAfter.Load() == 0 { // until a yield was slow
		g.flusher.yield()
		require.Less(t, g.now(), 30*time.Second, "no yield takes long")
	}
	begun := g.now()
	for range 1000 {
		g.flusher.yield()
	}
	// Each yield takes the other's time slice, so a thousand would take ten
	// seconds.
	require.Less(t, g.now()-begun, 2*time.Second, "a thousand yields that are not made")
	g.flusher.yieldAfter.Store(int64(g.now()))
	require.Eventually(t, func() bool { g.flusher.yield(); return g.flusher.yieldAfter.Load() > int64(g.now()) }, 30*time.Second, time.Millisecond,
		"it is tried again afterwards")
}

func TestLaneIsBounded(t *testing.T) {
	var l lane
	for i := range maxLane {
		require.True(t, l.add(laneEntry{}, []byte("x")))
		if i == maxLane/2 {
			l.handOut(1) // what was written still counts
		}
	}
	require.False(t, l.add(laneEntry{}, []byte("x")), "R26")
	l.await(laneEntry{})
	require.False(t, l.add(laneEntry{}, []byte("x")), "more than full")
	require.Len(t, l.buf, maxLane-maxLane/2-1)
	require.Len(t, l.empty(), maxLane+1)
	require.True(t, l.idle())
}
