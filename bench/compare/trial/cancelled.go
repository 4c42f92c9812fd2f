package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Cancelled is the result of callers that gave up while their commands were
// under way.
type Cancelled struct {
	Attempts int
	// GaveUp is how many of them ended with an error. The others got the lock,
	// and released it.
	GaveUp int
	// Soon and Later are how many keys were left on all masters together, 100
	// ms and 1 s after the last attempt. They would have stayed for 10 s, the
	// TTL.
	Soon, Later int
	// Left is how many of those that Later counts were there still after half
	// their TTL. No release is that late, even on a busy machine, so they stay
	// until their TTL ends.
	Left int
	// Took is how long all attempts took. If that is long, the first keys may
	// have expired before they are counted.
	Took time.Duration
}

// Cancel makes attempts whose contexts end after 0 to 2 ms, each for a resource
// of its own. With stopped, one master is stopped (SIGSTOP) while they are
// made, and goes on before keys are counted.
func Cancel(ctx context.Context, s *Subject, attempts int, stopped bool, most time.Duration) (Cancelled, error) {
	f, err := newField(ctx, s, 1)
	if err != nil {
		return Cancelled{}, err
	}
	defer f.close()
	last := f.servers[len(f.servers)-1]
	if stopped {
		if err := last.Stop(); err != nil {
			return Cancelled{}, err
		}
	}
	var result Cancelled
	start := time.Now()
	result.Attempts, result.GaveUp = giveUp(ctx, f.clients[0], attempts, most)
	result.Took = time.Since(start)
	ended := time.Now()
	if stopped {
		if err := last.Continue(); err != nil {
			return Cancelled{}, err
		}
	}
	time.Sleep(100 * time.Millisecond)
	if result.Soon, err = f.keys("cancelled-"); err != nil {
		return Cancelled{}, err
	}
	time.Sleep(900 * time.Millisecond)
	if result.Later, err = f.keys("cancelled-"); err != nil {
		return Cancelled{}, err
	}
	for result.Left = result.Later; result.Left > 0 && time.Since(ended) < mostTTL/2; time.Sleep(10 * time.Millisecond) {
		if result.Left, err = f.keys("cancelled-"); err != nil {
			return Cancelled{}, err
		}
	}
	return result, nil
}

// callers is how many attempts are made at once, so that the trial does not
// wait for one that hangs.
const callers = 16

func giveUp(ctx context.Context, client Client, attempts int, most time.Duration) (made, gaveUp int) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1)
				if i > int64(attempts) {
					next.Add(-1)
					return
				}
				patience, end := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(2*time.Millisecond))))
				lock, err := client.TryAcquire(patience, fmt.Sprint("cancelled-", i), mostTTL)
				end()
				if err != nil {
					failed.Add(1)
					continue
				}
				_ = lock.Release(context.WithoutCancel(ctx))
			}
		})
	}
	wg.Wait()
	return int(next.Load()), int(failed.Load())
}
