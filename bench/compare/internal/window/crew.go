package window

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redmux/redmux/bench/compare"
)

// A crew is the callers of a window. Each works in a closed loop on a resource
// of its own.
type crew struct {
	pairer  compare.Pairer
	job     Job
	phase   atomic.Int32 // warming, measuring, over
	working sync.WaitGroup
	idle    chan struct{} // closed when all callers have come back
	back    atomic.Int64  // callers that have
	books   [bookCount]book
	warmed  atomic.Int64 // pairs of the warm-up
	gaps    gaps
	base    time.Time // of the times in gaps
	began   time.Time
}

const (
	warming = iota
	measuring
	over
)

// A book has the results of some of the callers. There are a few and not one
// for each caller: a histogram has some twenty kilobytes, and a thousand of
// them would hide what a peer's garbage costs.
type book struct {
	mu      sync.Mutex // guards the following; a caller that never returns does not hold it
	pairs   int64
	latency *hdrhistogram.Histogram
	errors  map[string]int64
	_       [64]byte // books lie in different cache lines
}

const bookCount = 16

const longest = time.Minute

func newCrew(p compare.Pairer, job Job) *crew {
	c := &crew{pairer: p, job: job, base: time.Now(), idle: make(chan struct{})}
	for i := range c.books {
		c.books[i].latency = hdrhistogram.New(64, int64(longest), 2)
		c.books[i].errors = map[string]int64{}
	}
	return c
}

func (c *crew) start() {
	for i := range c.job.Callers {
		resource := c.job.Resource + strconv.Itoa(i)
		c.working.Go(func() {
			defer c.back.Add(1)
			c.work(resource, &c.books[i%bookCount])
		})
	}
	go func() {
		c.working.Wait()
		close(c.idle)
	}()
}

// warm waits for the end of the warm-up and returns how long that took.
func (c *crew) warm() time.Duration {
	start := time.Now()
	time.Sleep(c.job.Warmup)
	wanted := int64(c.job.WarmPairs) * int64(c.job.Callers)
	for c.warmed.Load() < wanted && time.Since(start) < c.job.WarmupLimit {
		time.Sleep(time.Millisecond)
	}
	return time.Since(start)
}

// begin lets pairs count from now on.
func (c *crew) begin() {
	// The gaps first: a grant between the two counts from the beginning, never
	// from the time before.
	c.gaps.begin(time.Since(c.base))
	c.began = time.Now()
	c.phase.Store(measuring)
}

// end stops the counting and the callers, and returns how long pairs counted.
func (c *crew) end() time.Duration {
	c.phase.Store(over)
	elapsed := time.Since(c.began) // read when nothing counts any more, so that no rate is flattered
	c.gaps.end(time.Since(c.base))
	return elapsed
}

// wait waits for the callers, but no longer than d, and returns how many have
// not come back.
func (c *crew) wait(d time.Duration) int {
	select {
	case <-c.idle:
	case <-time.After(max(1, d)): // see pure.Soon
	}
	return c.job.Callers - int(c.back.Load())
}

// failurePause keeps callers from spinning if an attempt fails before anything
// was sent.
const failurePause = time.Millisecond

// work is one caller. A pair counts if it ends within the window: as many are
// cut off at one end as are gained at the other.
func (c *crew) work(resource string, b *book) {
	ctx := context.Background()
	var held func()
	if c.job.Gaps {
		held = func() { c.gaps.grant(time.Since(c.base)) }
	}
	for c.phase.Load() != over {
		acquired, err := c.pairer.Pair(ctx, resource, c.job.TTL, held)
		switch c.phase.Load() {
		case warming:
			c.warmed.Add(1) // also if it failed, so that a peer that cannot work does not wait
		case measuring:
			b.write(acquired, err)
		}
		if err != nil {
			time.Sleep(failurePause)
		}
	}
}

// write records a pair. Only whole pairs have a latency: an acquisition whose
// release failed is an error.
func (b *book) write(acquired time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.errors[compare.Kind(err)]++
		return
	}
	b.pairs++
	if acquired == 0 {
		return // a bound does not tell
	}
	_ = b.latency.RecordValue(int64(min(acquired, longest)))
}

// result adds the books up. Callers may still wait, but write no more.
func (c *crew) result() Result {
	r := Result{Errors: map[string]int64{}}
	all := hdrhistogram.New(64, int64(longest), 2)
	for i := range c.books {
		b := &c.books[i]
		b.mu.Lock()
		r.Pairs += b.pairs
		all.Merge(b.latency)
		for kind, n := range b.errors {
			r.Errors[kind] += n
		}
		b.mu.Unlock()
	}
	if all.TotalCount() > 0 {
		at := func(percentile float64) time.Duration { return time.Duration(all.ValueAtPercentile(percentile)) }
		r.P50, r.P99, r.P999, r.Longest = at(50), at(99), at(99.9), time.Duration(all.Max())
	}
	if c.job.Gaps {
		r.Gap = time.Duration(c.gaps.longest.Load())
	}
	return r
}

// gaps finds the longest time between two neighbouring grants of any callers.
type gaps struct {
	last    atomic.Int64 // time of the latest grant, or of the window's beginning
	longest atomic.Int64
	open    atomic.Bool
}

func (g *gaps) begin(now time.Duration) {
	g.last.Store(int64(now))
	g.open.Store(true)
}

// grant records a grant. Two at once may exchange their times; then the
// difference is negative and no gap.
func (g *gaps) grant(now time.Duration) {
	if !g.open.Load() {
		return
	}
	gap := int64(now) - g.last.Swap(int64(now))
	for {
		longest := g.longest.Load()
		if gap <= longest || g.longest.CompareAndSwap(longest, gap) {
			return
		}
	}
}

// end counts the time since the last grant as a gap too: the window may have
// ended in it.
func (g *gaps) end(now time.Duration) {
	g.grant(now)
	g.open.Store(false)
}
