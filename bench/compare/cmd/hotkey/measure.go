package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/waiter"
)

// A result is what came of one measurement.
type result struct {
	Grants   float64       // per second
	Held     time.Duration // how long a lock was held on average
	P50, P99 time.Duration // of the waits
	Shares   []float64     `json:",omitempty"` // of each process, if there are several
}

// A job is what one process does.
type job struct {
	impl       string
	hold       time.Duration
	resource   string
	goroutines int
}

// A caller is what one goroutine has seen.
type caller struct {
	waits []time.Duration
	held  time.Duration
	err   error
}

// measure lets goroutines compete for a while. It calls begin when it is ready,
// and goes on when that returns.
func measure(ctx context.Context, f *flags, urls []string, j job, begin func() error) (result, error) {
	w, err := waiter.Open(j.impl, urls)
	if err != nil {
		return result{}, err
	}
	defer w.Close()
	if err := begin(); err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	callers := make([]caller, j.goroutines)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { callers[i].compete(ctx, &w, j, f.TTL) })
	}
	begun := time.Now()
	wg.Wait()
	took := min(time.Since(begun), f.For)
	var r result
	var waits []time.Duration
	for i := range callers {
		if callers[i].err != nil {
			return result{}, callers[i].err
		}
		waits = append(waits, callers[i].waits...)
		r.Held += callers[i].held
	}
	if len(waits) == 0 {
		return result{}, nil
	}
	slices.Sort(waits)
	r.Grants = float64(len(waits)) / took.Seconds()
	r.Held /= time.Duration(len(waits))
	r.P50, r.P99 = waits[len(waits)/2], waits[len(waits)*99/100]
	return r, nil
}

func (c *caller) compete(ctx context.Context, w *waiter.Waiter, j job, ttl time.Duration) {
	for ctx.Err() == nil {
		begun, had := time.Now(), false
		err := w.Do(ctx, j.resource, ttl, func() {
			had = true
			granted := time.Now()
			c.waits = append(c.waits, granted.Sub(begun))
			if j.hold > 0 {
				time.Sleep(j.hold)
				c.held += time.Since(granted)
			}
		})
		// A release is on its way, even if no quorum answered in time.
		if err != nil && !had && ctx.Err() == nil {
			c.err = err
			return
		}
	}
}

// together sums up what processes did at the same time.
func together(all []result) (sum result) {
	granting := 0
	for _, r := range all {
		sum.Grants += r.Grants
		if r.Grants > 0 {
			granting++
			sum.Held += r.Held
		}
		sum.P50, sum.P99 = max(sum.P50, r.P50), max(sum.P99, r.P99)
	}
	if granting == 0 {
		return sum
	}
	sum.Held /= time.Duration(granting)
	for _, r := range all {
		sum.Shares = append(sum.Shares, r.Grants/sum.Grants)
	}
	return sum
}
