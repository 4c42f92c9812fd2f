package redlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each call is counted once, by what it returned (R12).
func TestStatsCountEachCall_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.ownerless()
		c := m.client(t, Config{})
		background := context.Background()
		ended, cancel := context.WithCancel(background)
		cancel()
		lock := mustAcquire(t, c, "r", time.Minute)
		_, err := c.TryAcquire(background, "r", time.Minute)
		require.Equal(t, ErrHeld, err)
		_, err = c.TryAcquire(background, "", time.Minute)
		require.ErrorIs(t, err, ErrResource)
		_, err = c.TryAcquire(ended, "r2", time.Minute)
		require.ErrorIs(t, err, context.Canceled)
		short, stop := context.WithTimeout(background, 50*ms)
		defer stop()
		_, err = c.Acquire(short, "r", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		tries := uint64(m.nodes[0].Calls("SET")) - 2

		longer, err := lock.Extend(background, time.Hour)
		require.NoError(t, err)
		_, err = longer.Extend(background, 0)
		require.ErrorIs(t, err, ErrTTL)
		require.NoError(t, longer.Release(background))
		require.ErrorIs(t, lock.Release(background), ErrNotHeld)
		_, err = longer.Extend(background, time.Hour)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, Lock{}.Release(background), ErrNotHeld, "it is not counted")

		s := c.Stats()
		held := s.Attempts.Held
		assert.InDelta(t, 1+tries, held, 1, "the last attempt may have been cut short")
		assert.Equal(t, CallCounts{Granted: 1, Held: held, Cancelled: 1 + (1 + tries - held), Invalid: 1}, s.Attempts)
		assert.Equal(t, CallCounts{Granted: 1, NotHeld: 1, Invalid: 1}, s.Extensions)
		assert.Equal(t, CallCounts{Granted: 1, NotHeld: 1}, s.Releases)
		assert.EqualValues(t, 1, s.Quorum.Total())
		assert.Equal(t, 2*ms, s.QuorumTime)
		assert.Equal(t, 2*ms, s.Quorum.Sum)
		assert.Equal(t, bucketOf(2*ms), bucketOf(s.Quorum.Quantile(0.5)-1))
		assert.False(t, s.Polling, "in memory a goroutine reads each node")

		m.link(0).Refuse(true)
		m.link(1).Refuse(true)
		m.nodes[0].DropConns()
		m.nodes[1].DropConns()
		time.Sleep(10 * ms)
		_, err = c.TryAcquire(background, "r3", time.Minute)
		require.ErrorIs(t, err, ErrNoQuorum)
		assert.EqualValues(t, 1, c.Stats().Attempts.NoQuorum)
		require.NoError(t, c.Close(background))
		_, err = c.TryAcquire(background, "r3", time.Minute)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, lock.Release(background), ErrClosed)
		after := c.Stats()
		assert.EqualValues(t, 1, after.Attempts.Closed)
		assert.EqualValues(t, 1, after.Releases.Closed)
		assert.Equal(t, s.Attempts.Total()+2, after.Attempts.Total())
	})
}

// Renewals count as extensions, whatever their outcome: even if nothing was
// sent, or the answers came too late (R13).
func TestStatsCountRenewals_R13(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{NodeTimeout: time.Minute})
		mustHold(t, c, "r", HoldOptions{})
		time.Sleep(2*holdThird + 10*ms)
		require.Equal(t, CallCounts{Granted: 2}, c.Stats().Extensions)

		for i := range m.nodes {
			m.link(i).Latency(ms, holdValidity-ms)
		}
		time.Sleep(holdThird + holdValidity)
		require.Equal(t, CallCounts{Granted: 2, Expired: 1}, c.Stats().Extensions)
		m.recover()
	})
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		mustHold(t, c, "r", HoldOptions{})
		for i, n := range m.nodes[:2] {
			m.link(i).Refuse(true)
			n.DropConns()
		}
		time.Sleep(holdValidity)
		failed := c.Stats().Extensions
		require.Greater(t, failed.NoQuorum, uint64(3), "tried again and again")
		require.Equal(t, CallCounts{NoQuorum: failed.NoQuorum}, failed)
	})
}

// A hold is lost for one of two causes: a quorum no longer holds the lock, or
// the validity ends. They are counted apart.
func TestStatsTellWhyHoldsWereLost_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		forgotten, expired := mustHold(t, c, "forgotten", HoldOptions{}), mustHold(t, c, "expired", HoldOptions{NoRenewal: true})
		lock := forgotten.Current()
		require.NoError(t, lock.Release(t.Context())) // behind its back
		awaitEnd(t, forgotten.Context())
		require.Equal(t, []uint64{1, 1}, []uint64{c.Stats().Lost, c.Stats().LostNotHeld})
		awaitEnd(t, expired.Context())
		require.Equal(t, []uint64{2, 1}, []uint64{c.Stats().Lost, c.Stats().LostNotHeld})
	})
}

// Holds, losses and waits are counted.
func TestStatsOfHoldsLossesAndWaits_R12(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		kept, lost := mustHold(t, c, "kept", HoldOptions{}), mustHold(t, c, "lost", HoldOptions{NoRenewal: true})
		require.Equal(t, 2, c.Stats().Holds)
		awaitEnd(t, lost.Context())
		require.Equal(t, []uint64{1, 0, 2}, []uint64{c.Stats().Lost, c.Stats().LostNotHeld, c.Stats().HoldsBegun})
		require.Equal(t, 2, c.Stats().Holds, "it is not released yet")
		_ = lost.Release(t.Context())
		require.Equal(t, 1, c.Stats().Holds)
		require.Zero(t, c.Stats().Waits.Total(), "no call has waited")

		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Acquire(short, "kept", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, 3*time.Second, c.Stats().Waits.Sum.Round(10*ms))
		require.NoError(t, c.RW("another").Write().DoWith(t.Context(), HoldOptions{TTL: time.Second}, func(context.Context) error { return nil }))
		require.EqualValues(t, 2, c.Stats().Waits.Total())
		require.NoError(t, kept.Release(t.Context()))
		require.Zero(t, c.Stats().Holds)

		text, err := json.Marshal(c.Stats())
		require.NoError(t, err)
		var named struct {
			Lost  uint64
			Begun uint64 `json:"holds_begun"`
			Waits Histogram
		}
		require.NoError(t, json.Unmarshal(text, &named))
		require.EqualValues(t, 1, named.Lost)
		require.EqualValues(t, 3, named.Begun)
		require.Equal(t, c.Stats().Waits, named.Waits)
		require.Equal(t, "lost", Outcome(lost.Err()))
	})
}

// A tracer that keeps all its calls.
type traces struct {
	attempts, acquires, extends, releases journal[CallInfo]
	contexts                              journal[context.Context] // of acquires
	parents                               journal[any]             // of attempts
}

func (all *traces) tracer() *Tracer {
	return &Tracer{
		AttemptDone: func(ctx context.Context, i CallInfo) {
			all.attempts.add(i)
			all.parents.add(ctx.Value(spanKey{}))
		},
		AcquireDone: func(ctx context.Context, i CallInfo) {
			all.acquires.add(i)
			all.contexts.add(ctx)
		},
		ExtendDone:  func(_ context.Context, i CallInfo) { all.extends.add(i) },
		ReleaseDone: func(_ context.Context, i CallInfo) { all.releases.add(i) },
	}
}

type spanKey struct{}

// The tracer gets each call with its start, its duration, its outcome and the
// caller's own context.
func TestTracer(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var all traces
		c := m.client(t, Config{Tracer: all.tracer()})
		ctx := context.WithValue(context.Background(), spanKey{}, "parent")
		start := time.Now()
		lock, err := c.TryAcquire(ctx, "r", time.Second)
		require.NoError(t, err)
		require.Equal(t, []CallInfo{{
			Resource: "r", TTL: time.Second, Tries: 1,
			Start: start, Elapsed: 2 * ms, Validity: lock.Validity(), Err: nil,
		}}, all.attempts.all())
		require.Equal(t, []any{"parent"}, all.parents.all())
		require.Empty(t, all.acquires.all(), "it was no Acquire")

		start = time.Now()
		longer, err := lock.Extend(ctx, 2*time.Second)
		require.NoError(t, err)
		require.Equal(t, []CallInfo{{
			Resource: "r", TTL: 2 * time.Second, Start: start, Elapsed: 2 * ms, Validity: longer.Validity(),
		}}, all.extends.all())
		_, err = lock.Extend(ctx, 0)
		require.ErrorIs(t, err, ErrTTL)
		require.ErrorIs(t, all.extends.all()[1].Err, ErrTTL)
		require.Zero(t, all.extends.all()[1].Validity)

		time.AfterFunc(100*ms, func() { _ = longer.Release(ctx) })
		before := len(all.attempts.all())
		start = time.Now()
		lock, err = c.Acquire(ctx, "r", time.Second)
		require.NoError(t, err)
		waited := time.Since(start)
		attempts := all.attempts.all()[before:]
		require.Greater(t, len(attempts), 1)
		for i, a := range attempts {
			require.Equal(t, i+1, a.Tries)
			require.Equal(t, i == len(attempts)-1, a.Err == nil)
			require.Equal(t, "r", a.Resource)
		}
		require.Equal(t, []CallInfo{{
			Resource: "r", TTL: time.Second, Tries: len(attempts),
			Start: start, Elapsed: waited, Validity: lock.Validity(),
		}}, all.acquires.all())
		time.Sleep(2 * ms) // the lock is free as soon as it is released; its release has yet to be answered
		synctest.Wait()
		require.Len(t, all.releases.all(), 1)
		require.Equal(t, 2*ms, all.releases.all()[0].Elapsed)
		require.NoError(t, all.releases.all()[0].Err)

		short, cancel := context.WithTimeout(ctx, 20*ms)
		defer cancel()
		_, err = c.Acquire(short, "r", time.Second)
		require.Equal(t, errors.Unwrap(err), all.acquires.all()[1].Err, "it is told the resource beside the error")
		require.Zero(t, all.acquires.all()[1].Validity)
		require.Equal(t, short, all.contexts.all()[1])

		text := fmt.Sprintf("%+v %+v %+v %+v", all.attempts.all(), all.acquires.all(), all.extends.all(), all.releases.all())
		require.NotContains(t, text, secretOf(lock.grant.Token)[:4], "R27")
	})
}

// Each function may be nil, and the client reads them once.
func TestTracerWithoutFunctions(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		var all traces
		tracer := &Tracer{ReleaseDone: all.tracer().ReleaseDone}
		c := m.client(t, Config{Tracer: tracer})
		tracer.ReleaseDone = nil
		lock, err := c.Acquire(context.Background(), "r", time.Second)
		require.NoError(t, err)
		lock, err = lock.Extend(context.Background(), time.Second)
		require.NoError(t, err)
		require.NoError(t, lock.Release(context.Background()))
		assert.Len(t, all.releases.all(), 1)
		assert.False(t, c.news.running, "nothing was to be told, so no goroutine is there for it")
	})
}

// Each time is in the bucket with its bounds; a time equal to a bound is in the
// next one.
func TestBuckets(t *testing.T) {
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, 1: 0, 1023: 0, 1024: 1, 2047: 1, 2048: 2,
		time.Millisecond: 10, time.Second: 20,
		1<<36 - 1: 26, 1 << 36: 27, time.Hour: 27, math.MaxInt64: 27,
	} {
		assert.Equal(t, want, bucketOf(d), "%d ns", d)
	}
	var h Histogram
	for bucket := range lastBucket {
		assert.Equal(t, bucket, bucketOf(h.Bound(bucket)-1))
		assert.Equal(t, bucket+1, bucketOf(h.Bound(bucket)))
	}
	assert.Equal(t, time.Duration(math.MaxInt64), h.Bound(lastBucket))
}

func histogramOf(times ...time.Duration) Histogram {
	var h histogram
	for _, d := range times {
		h.record(d)
	}
	return h.snapshot()
}

// A quantile lies in the bucket of the true one, and is spread over it.
func TestQuantile(t *testing.T) {
	times := slices.Repeat([]time.Duration{100 * time.Microsecond}, 90)
	h := histogramOf(append(append(times, slices.Repeat([]time.Duration{1500 * time.Microsecond}, 9)...), 3*time.Second)...)
	for q, bucket := range map[float64]int{
		-1: 16, 0: 16, 0.5: 16, 0.9: 16, 0.901: 20, 0.99: 20, 0.991: 31, 1: 31, 7: 31,
	} {
		assert.Greater(t, h.Quantile(q), time.Duration(1)<<bucket, "q=%v", q)
		assert.LessOrEqual(t, h.Quantile(q), time.Duration(2)<<bucket, "q=%v", q)
	}
	assert.Less(t, h.Quantile(0.1), h.Quantile(0.9))
	assert.EqualValues(t, 100, h.Total())
	assert.Equal(t, 90*100*time.Microsecond+9*1500*time.Microsecond+3*time.Second, h.Sum)
	assert.Zero(t, Histogram{}.Quantile(0.5))
	assert.Zero(t, h.Quantile(math.NaN()))
	assert.Equal(t, time.Duration(1<<36), histogramOf(time.Hour).Quantile(0.5), "of the open bucket, where it begins")
	assert.Equal(t, time.Duration(1<<10), histogramOf(5).Quantile(1))
}
