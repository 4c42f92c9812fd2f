package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// maxRetryDelay bounds each of the delay's floor and its random part (R11).
const maxRetryDelay = 200 * time.Millisecond

// Acquire makes attempts until one is granted or ctx ends. In that case its
// error satisfies errors.Is for the context's error and for the last outcome.
func (l *Rueidis) Acquire(ctx context.Context, resource string, ttl time.Duration) (RueidisLease, error) {
	return Retry(ctx, &l.pace, func() (RueidisLease, error) { return l.TryAcquire(ctx, resource, ttl) })
}

// Retry makes attempts like [Rueidis.Acquire], for a peer that has no call which
// waits.
func Retry[L any](ctx context.Context, p *Pace, attempt func() (L, error)) (none L, err error) {
	var pause *time.Timer // created after the first failure: most calls have none
	var last error        // of the last attempt that was not interrupted
	for try := 0; ; try++ {
		lease, err := attempt()
		if err == nil {
			return lease, nil
		}
		if cut := ctx.Err(); cut != nil && errors.Is(err, cut) {
			return none, errors.Join(cut, last)
		}
		last = err
		delay := retryDelay(try, time.Duration(p.took.Load()), rand.Float64())
		if pause == nil {
			pause = time.NewTimer(delay)
			defer pause.Stop()
		} else {
			pause.Reset(delay)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return none, errors.Join(ctx.Err(), last)
		}
	}
}

// retryDelay returns twice the usual time to a quorum, which lets the release
// of the failed attempt arrive first, plus a random part of a window that
// doubles with each try (R11). random is in [0, 1). The first window is as
// short as the time to a quorum allows, and so shorter than redlock's: the
// baseline must not lose by sleeping.
func retryDelay(try int, took time.Duration, random float64) time.Duration {
	floor := min(2*took, maxRetryDelay)
	window := min(max(took, 100*time.Microsecond)<<min(try+1, 16), maxRetryDelay)
	return floor + time.Duration(random*float64(window))
}

// A Pace is the usual time to a quorum. Its zero value is ready for use.
type Pace struct {
	took atomic.Int64 // smoothed, in nanoseconds
}

// Observe smooths the time. Concurrent calls may lose each other's sample, which
// does no harm.
func (p *Pace) Observe(took time.Duration) {
	old := p.took.Load()
	if old == 0 {
		p.took.Store(int64(took))
		return
	}
	p.took.Store(old + (int64(took)-old)/8)
}
