package multiplex

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
