package faults

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/redlock"
)

// A pressure is callers in this process that acquire and release as fast as they can, each its own resources, for the
// measurements of recovery, of memory and of latency: what those measure, the load of Run with its checks and processes
// would disturb. What it keeps is of one size from the beginning, so that the memory that is measured is redlock's.
type pressure struct {
	clients []*redlock.Client
	stop    context.CancelFunc
	ctx     context.Context
	wg      sync.WaitGroup

	phase  atomic.Int32
	phases []pressurePhase
}

// A pressurePhase is what came of the attempts that ended in one part of a measurement.
type pressurePhase struct {
	grants, failures atomic.Uint64
	took             latencies // of the grants

	// Owned by whoever calls to.
	lasted time.Duration
	begun  time.Time
}

const (
	// Nothing that the callers lock expires while they are measured, so that a failure is never for want of time.
	pressureTTL = 30 * time.Second
	// pressureTurns is how many resources each caller takes in turn.
	pressureTurns = 4
	// pressurePause is how long a caller that failed waits: what is known at once is not to be asked a million times.
	pressurePause = time.Millisecond
)

// newPressure starts the callers, spread over the clients, in phase 0 of so many. End it.
func newPressure(clients []*redlock.Client, callers, phases int) *pressure {
	p := &pressure{clients: clients, phases: make([]pressurePhase, phases)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.phases[0].begun = time.Now()
	for i := range callers {
		p.wg.Go(func() { p.call(i) })
	}
	return p
}

// to begins a phase, or goes on with it. One goroutine calls it.
func (p *pressure) to(phase int) {
	now := time.Now()
	was := &p.phases[p.phase.Load()]
	was.lasted += now.Sub(was.begun)
	p.phases[phase].begun = now
	p.phase.Store(int32(phase))
}

// end returns when every caller has released what it had; the numbers are final then.
func (p *pressure) end() {
	if p.ctx.Err() != nil {
		return
	}
	p.to(int(p.phase.Load()))
	p.stop()
	p.wg.Wait()
}

func (p *pressure) call(caller int) {
	client := p.clients[caller%len(p.clients)]
	var resources [pressureTurns]string
	for i := range resources {
		resources[i] = fmt.Sprintf("pressure:%d:%d", caller, i)
	}
	for n := 0; p.ctx.Err() == nil; n++ {
		// The attempts are not cancelled at the end, so that none is counted as a failure for that.
		start := time.Now()
		lock, err := client.TryAcquire(context.Background(), resources[n%pressureTurns], pressureTTL)
		took := time.Since(start)
		phase := &p.phases[p.phase.Load()]
		if err != nil {
			phase.failures.Add(1)
			time.Sleep(pressurePause)
			continue
		}
		phase.grants.Add(1)
		phase.took.add(took)
		_ = lock.Release(context.Background()) // what the nodes made of it is other tests' concern
	}
}

// rate is grants a second.
func (p *pressurePhase) rate() float64 {
	if p.lasted <= 0 {
		return 0
	}
	return float64(p.grants.Load()) / p.lasted.Seconds()
}

// latencies counts durations in buckets, 32 for each doubling, so that a quantile is true to 3 %. Adding to it
// allocates nothing, and any goroutine may do it.
type latencies [latencyBuckets]atomic.Uint64

const (
	latencyBits = 5 // 32 buckets for each doubling
	// Up to 2^36 ns, which is a minute; what took longer counts as that.
	latencyBuckets = (36 - latencyBits + 1) << latencyBits
)

func (l *latencies) add(d time.Duration) { l[latencyBucket(d)].Add(1) }

// latencyBucket takes the highest bit and the five that follow it. The durations below 32 ns are one each.
func latencyBucket(d time.Duration) int {
	ns := uint64(max(d, 0))
	if ns < 1<<latencyBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - latencyBits - 1
	return min(shift<<latencyBits+int(ns>>shift), latencyBuckets-1)
}

// latencyOf is the least duration that is not in the bucket any more.
func latencyOf(bucket int) time.Duration {
	if bucket < 1<<latencyBits {
		return time.Duration(bucket + 1)
	}
	shift := bucket>>latencyBits - 1
	return time.Duration(uint64(bucket-shift<<latencyBits+1) << shift)
}

// quantile is the time within which that part of them came, rounded up; zero if there are none.
func (l *latencies) quantile(q float64) time.Duration {
	var all, seen uint64
	for i := range l {
		all += l[i].Load()
	}
	rank := max(1, uint64(q*float64(all)))
	for i := range l {
		if seen += l[i].Load(); seen >= rank {
			return latencyOf(i)
		}
	}
	return 0
}
