package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A result is what came of one measurement.
type result struct {
	Grants   float64       // per second
	Held     time.Duration // how long a lock was held on average
	P50, P99 time.Duration // of the waits
	Shares   []float64     `json:",omitempty"` // of each process, if there are several
}

// A caller is what one goroutine has seen.
type caller struct {
	waits []time.Duration
	held  time.Duration
	err   error
}

// measure lets goroutines compete for a while.
func measure(ctx context.Context, f *flags, urls []string, impl string, hold time.Duration) (result, error) {
	u, err := open(impl, urls, f.Resource, f.TTL)
	if err != nil {
		return result{}, err
	}
	defer u.close()
	ctx, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	callers := make([]caller, f.Goroutines)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { callers[i].compete(ctx, &u, hold) })
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

func (c *caller) compete(ctx context.Context, u *use, hold time.Duration) {
	for ctx.Err() == nil {
		begun := time.Now()
		err := u.once(ctx, func() {
			granted := time.Now()
			c.waits = append(c.waits, granted.Sub(begun))
			if hold > 0 {
				time.Sleep(hold)
				c.held += time.Since(granted)
			}
		})
		if err != nil && ctx.Err() == nil {
			c.err = err
			return
		}
	}
}

// together sums up what processes did at the same time.
func together(all []result) result {
	var sum result
	for _, r := range all {
		sum.Grants += r.Grants
		sum.Held += r.Held / time.Duration(len(all))
		sum.P50, sum.P99 = max(sum.P50, r.P50), max(sum.P99, r.P99)
	}
	for _, r := range all {
		sum.Shares = append(sum.Shares, r.Grants/sum.Grants)
	}
	return sum
}
