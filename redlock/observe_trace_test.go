package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tracer that keeps all its calls.
type traces struct {
	mu       sync.Mutex
	attempts []CallInfo
	acquires []CallInfo
	extends  []CallInfo
	releases []CallInfo
	contexts []context.Context // of acquires
	parents  []any             // of attempts
}

func (all *traces) tracer() *Tracer {
	return &Tracer{
		AttemptDone: func(ctx context.Context, i CallInfo) {
			keep(&all.mu, &all.attempts, i)
			keep(&all.mu, &all.parents, ctx.Value(spanKey{}))
		},
		AcquireDone: func(ctx context.Context, i CallInfo) {
			keep(&all.mu, &all.acquires, i)
			keep(&all.mu, &all.contexts, ctx)
		},
		ExtendDone:  func(_ context.Context, i CallInfo) { keep(&all.mu, &all.extends, i) },
		ReleaseDone: func(_ context.Context, i CallInfo) { keep(&all.mu, &all.releases, i) },
	}
}

func keep[T any](mu *sync.Mutex, all *[]T, one T) {
	mu.Lock()
	defer mu.Unlock()
	*all = append(*all, one)
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
		}}, all.attempts)
		require.Equal(t, []any{"parent"}, all.parents)
		require.Empty(t, all.acquires, "it was no Acquire")

		start = time.Now()
		longer, err := lock.Extend(ctx, 2*time.Second)
		require.NoError(t, err)
		require.Equal(t, []CallInfo{{
			Resource: "r", TTL: 2 * time.Second, Start: start, Elapsed: 2 * ms, Validity: longer.Validity(),
		}}, all.extends)
		_, err = lock.Extend(ctx, 0)
		require.ErrorIs(t, err, ErrTTL)
		require.ErrorIs(t, all.extends[1].Err, ErrTTL)
		require.Zero(t, all.extends[1].Validity)

		time.AfterFunc(100*ms, func() { _ = longer.Release(ctx) })
		all.attempts = nil
		start = time.Now()
		lock, err = c.Acquire(ctx, "r", time.Second)
		require.NoError(t, err)
		waited := time.Since(start)
		require.Greater(t, len(all.attempts), 1)
		for i, a := range all.attempts {
			require.Equal(t, i+1, a.Tries)
			require.Equal(t, i == len(all.attempts)-1, a.Err == nil)
			require.Equal(t, "r", a.Resource)
		}
		require.Equal(t, []CallInfo{{
			Resource: "r", TTL: time.Second, Tries: len(all.attempts),
			Start: start, Elapsed: waited, Validity: lock.Validity(),
		}}, all.acquires)
		time.Sleep(2 * ms) // the lock is free as soon as it is released; its release has yet to be answered
		synctest.Wait()
		require.Len(t, all.releases, 1)
		require.Equal(t, 2*ms, all.releases[0].Elapsed)
		require.NoError(t, all.releases[0].Err)

		short, cancel := context.WithTimeout(ctx, 20*ms)
		defer cancel()
		_, err = c.Acquire(short, "r", time.Second)
		require.Equal(t, errors.Unwrap(err), all.acquires[1].Err, "it is told the resource beside the error")
		require.Zero(t, all.acquires[1].Validity)
		require.Equal(t, short, all.contexts[1])

		text := fmt.Sprintf("%+v %+v %+v %+v", all.attempts, all.acquires, all.extends, all.releases)
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
		assert.Len(t, all.releases, 1)
		assert.False(t, c.news.running, "nothing was to be told, so no goroutine is there for it")
	})
}
