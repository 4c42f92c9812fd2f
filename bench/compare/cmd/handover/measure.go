package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/trial"
	"github.com/redmux/redmux/bench/compare/internal/waiter"
)

// A pair is two clients of one implementation: one that holds, and one that
// waits.
type pair struct {
	name             string
	holder, waiter   waiter.Waiter
	first, next      []time.Duration
	rounds, resource int
	unsure           int // releases of the holder that no quorum confirmed
}

func openPair(name string, urls []string) (*pair, error) {
	p := &pair{name: name}
	for _, w := range []*waiter.Waiter{&p.holder, &p.waiter} {
		var err error
		if *w, err = waiter.Open(name, urls); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pair) close() {
	p.holder.Close()
	p.waiter.Close()
}

// measure lets the implementations take turns at one case.
func measure(ctx context.Context, f *flags, pairs []*pair, hold time.Duration, waiters int, out io.Writer) error {
	end := time.Now().Add(f.Most)
	for _, p := range pairs {
		p.first, p.next, p.rounds, p.unsure = nil, nil, 0, 0
	}
	for range f.Rounds {
		for _, p := range pairs {
			if err := p.round(ctx, hold, waiters); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		if time.Now().After(end) || ctx.Err() != nil {
			break
		}
	}
	for _, p := range pairs {
		first, next := trial.SpreadOf(p.first), trial.SpreadOf(p.next)
		µs := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
		fmt.Fprintf(out, "%-8s %7v %8d %7d | %10v %10v %10v | %10v %10v | %6d\n", p.name, hold, waiters, p.rounds,
			µs(first.Median), µs(first.P99), µs(first.Max), µs(next.Median), µs(next.P99), p.unsure)
	}
	return ctx.Err()
}

// round has the holder take the lock and the waiters wait for it, and writes
// down when each got it.
func (p *pair) round(ctx context.Context, hold time.Duration, waiters int) error {
	ctx, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	p.resource++
	resource := fmt.Sprintf("handover:%s:%d", p.name, p.resource)
	release, err := p.holder.Acquire(ctx, resource, ttl)
	if err != nil {
		return err
	}
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex // guards the following
		released time.Time
		handed   int
		failed   error
	)
	for range waiters {
		wg.Go(func() {
			release, err := p.waiter.Acquire(ctx, resource, ttl)
			mu.Lock()
			took := time.Since(released)
			switch handed++; {
			case err != nil:
				failed = err
			case handed == 1:
				p.first = append(p.first, took)
			default:
				p.next = append(p.next, took)
			}
			released = time.Now()
			mu.Unlock()
			if err == nil {
				_ = release()
			}
		})
	}
	time.Sleep(hold)
	mu.Lock()
	released = time.Now()
	mu.Unlock()
	if release() != nil {
		p.unsure++ // votes that came late on a busy machine, as a rule; it is released all the same
	}
	wg.Wait()
	p.rounds++
	return failed
}
