package trial

import (
	"context"
	"time"
)

// Stalled is what one master that hangs costs a lone caller that acquires and
// releases.
type Stalled struct {
	// Healthy is how long acquisitions took before, AtStop while the master
	// hung. Failed are attempts without a grant then.
	Healthy, Stopped Spread
	Failed           int
	// HealthyRate and StoppedRate are locks acquired and released in a second.
	HealthyRate, StoppedRate float64
	// Gap is the longest time without a grant after the master was stopped.
	Gap time.Duration
}

// Stall stops one of the masters (SIGSTOP), which keeps its connections open
// and answers nothing.
func Stall(ctx context.Context, s *Subject, each time.Duration) (Stalled, error) {
	f, err := newField(ctx, s, 1)
	if err != nil {
		return Stalled{}, err
	}
	defer f.close()
	var result Stalled
	healthy := work(ctx, f.clients[0], each)
	last := f.servers[len(f.servers)-1]
	if err := last.Stop(); err != nil {
		return Stalled{}, err
	}
	stopped := work(ctx, f.clients[0], each)
	result.Healthy, result.HealthyRate = SpreadOf(healthy.took), healthy.rate()
	result.Stopped, result.StoppedRate = SpreadOf(stopped.took), stopped.rate()
	result.Failed, result.Gap = stopped.failed, stopped.gap
	return result, last.Continue()
}

// A shift is what a lone caller did in a time.
type shift struct {
	took   []time.Duration
	failed int
	gap    time.Duration // the longest time without a grant
	lasted time.Duration
}

func (s *shift) rate() float64 { return float64(len(s.took)) / s.lasted.Seconds() }

// work acquires and releases one resource again and again. An acquisition that
// has begun is waited for.
func work(ctx context.Context, client Client, length time.Duration) (s shift) {
	begun := time.Now()
	last := begun
	for ctx.Err() == nil && time.Since(begun) < length {
		start := time.Now()
		lock, err := client.TryAcquire(ctx, "stalled", mostTTL)
		now := time.Now()
		if err != nil {
			s.failed++
			time.Sleep(time.Millisecond)
			continue
		}
		s.took = append(s.took, now.Sub(start))
		s.gap = max(s.gap, now.Sub(last))
		last = now
		_ = lock.Release(ctx)
	}
	s.lasted = time.Since(begun)
	s.gap = max(s.gap, time.Since(last))
	return s
}
