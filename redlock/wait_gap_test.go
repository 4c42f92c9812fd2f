package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A hold that was granted in turn is released with MinHold: the next caller
// does not have to find out by itself.
func TestMinHoldAndThoseWhoWaitHere(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		held := mustAcquire(t, c, "r", time.Minute)
		got := make(chan *Hold)
		go func() {
			h, err := c.Hold(context.Background(), "r", HoldOptions{TTL: time.Minute, MinHold: 100 * ms})
			assert.NoError(t, err)
			got <- h
		}()
		time.Sleep(20 * ms)
		next := waits(t.Context(), c, "r")
		require.NoError(t, held.Release(t.Context()))
		h := <-got
		begun := h.begun.at
		require.NoError(t, h.Release(t.Context()))
		lasted := next.got(t).Sub(begun)
		require.GreaterOrEqual(t, lasted, 100*ms)
		require.LessOrEqual(t, lasted, 100*ms+4*ms+expiryMargin+expirySpread+4*ms, "the drift, the wait for the end, and the ways")
	})
}

// Clients whose callers come and go, wait or not, and give up one lock in every
// way. While any caller waits, the lock is never free for longer than its keys
// stand.
func TestNobodySleepsWhileALockIsFree(t *testing.T) {
	for seed := range uint64(4) {
		simulated(t, 5, func(t *testing.T, m *memory) {
			s := &sleepers{stop: time.Now().Add(20 * time.Second), gaps: make(map[string]time.Duration)}
			clients := []*Client{m.client(t, Config{}), m.client(t, Config{}), m.client(t, Config{})}
			var wg sync.WaitGroup
			for i := range 3 * len(clients) {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				wg.Go(func() {
					for time.Now().Before(s.stop) {
						s.once(t, clients[i%len(clients)], r)
					}
				})
			}
			wg.Wait()
			t.Log(s.gaps)
			for after, gap := range s.gaps {
				require.LessOrEqual(t, gap, 300*ms, after) // far below the fallback, including kept keys of 100 ms
			}
			require.Len(t, s.gaps, 3)
		})
	}
}

// sleepers record the longest time for which the lock was free while a caller
// waited, by how it had been given up.
type sleepers struct {
	stop time.Time

	mu      sync.Mutex // guards the following
	waiters int
	freeAt  time.Time
	after   string
	gaps    map[string]time.Duration
}

// wait counts callers that wait until they get the lock.
func (s *sleepers) wait(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters += n
}

func (s *sleepers) got() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters > 1 && s.after != "" {
		s.gaps[s.after] = max(s.gaps[s.after], time.Since(s.freeAt))
	}
}

func (s *sleepers) letGo(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeAt, s.after = time.Now(), how
}

func (s *sleepers) once(t *testing.T, c *Client, r *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	if r.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(ctx, spanOf(r, 100*ms))
	} else {
		s.wait(1)
		defer s.wait(-1)
	}
	defer cancel()
	switch r.IntN(3) {
	case 0:
		lock, err := c.Acquire(ctx, "r", time.Duration(1+r.IntN(3))*300*ms)
		if err != nil {
			return
		}
		s.got()
		time.Sleep(spanOf(r, 20*ms))
		if r.IntN(10) == 0 {
			time.Sleep(lock.Validity())
			s.letGo("forgotten")
			return
		}
		s.letGo("released")
		assert.NoError(t, lock.Release(context.Background()))
	case 1:
		o, how := HoldOptions{TTL: 20 * time.Second}, "released"
		if r.IntN(8) == 0 {
			o.MinHold, how = 100*ms, "kept"
		}
		h, err := c.Hold(ctx, "r", o)
		if err != nil {
			return
		}
		s.got()
		time.Sleep(spanOf(r, 20*ms))
		s.letGo(how)
		assert.NoError(t, h.Release(context.Background()))
	default:
		if lock, err := c.TryAcquire(ctx, "r", time.Second); err == nil {
			s.got()
			s.letGo("released")
			assert.NoError(t, lock.Release(context.Background()))
		}
		time.Sleep(spanOf(r, 50*ms))
	}
}
