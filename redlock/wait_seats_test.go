package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waitsWith is waits for a lock of any kind.
func waitsWith(ctx context.Context, l Locker) *waiting {
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lock, w.err = l.Acquire(ctx, 10*time.Second)
		w.at = time.Now()
	}()
	time.Sleep(20 * ms) // as in waits
	return w
}

// grantedInTurn is granted for a lock of any kind: held was granted to a first
// attempt, and is released.
func grantedInTurn(t *testing.T, l Locker, held Lock) Lock {
	t.Helper()
	w := waitsWith(t.Context(), l)
	require.NoError(t, held.Release(t.Context()))
	w.got(t)
	return w.lock
}

// A write lock that was downgraded is not handed over: a copy of it that is
// released would make a writer beside the reader.
func TestADowngradedLockIsNotHandedOver(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: 10 * time.Second})
		rw := c.RW("r")
		held, err := rw.Write().TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		write := grantedInTurn(t, rw.Write(), held)
		next := waitsWith(t.Context(), rw.Write())
		read, err := rw.Downgrade(t.Context(), write, 10*time.Second)
		require.NoError(t, err)
		time.Sleep(20 * ms) // the next writer was told, and refused
		require.ErrorIs(t, write.Release(t.Context()), ErrNotHeld)
		time.Sleep(100 * ms)
		require.False(t, next.isDone(), "a writer beside a reader")
		require.NoError(t, read.Release(t.Context()))
		next.got(t)
		require.Zero(t, c.Stats().HandedOver)
		require.NoError(t, next.lock.Release(t.Context()))
	})
}

// Readers that wait here are let in together when the writer has gone: those
// behind the first that is granted ask at once, more of them after each (R34).
func TestReadersThatWaitAreLetInTogether_R34(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		write, err := m.client(t, Config{}).RW("r").Write().TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				_, err := c.RW("r").Read().Acquire(t.Context(), 10*time.Second)
				assert.NoError(t, err)
			})
		}
		time.Sleep(100 * ms)
		before, begun := m.nodes[0].Calls("EVALSHA"), time.Now()
		require.NoError(t, write.Release(t.Context()))
		wg.Wait()
		require.Less(t, time.Since(begun), 20*ms, "as many round trips as the seats doubled")
		require.LessOrEqual(t, m.nodes[0].Calls("EVALSHA")-before, 202)
	})
}

// A permit goes to the second caller while the first makes an attempt.
func TestAPermitIsHandedToTheSecondInTheQueue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{HandOver: 10 * time.Second})
		k := c.Semaphore("r", 2)
		var held [2]Lock
		for i := range held {
			var err error
			held[i], err = k.TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
		}
		permit := grantedInTurn(t, k, held[0])
		first, second := waitsWith(t.Context(), k), waitsWith(t.Context(), k)
		before := calls(m, "EVALSHA")
		for calls(m, "EVALSHA") == before { // executed, and not answered yet
			time.Sleep(ms / 4)
		}
		require.NoError(t, permit.Release(t.Context()))
		second.got(t)
		require.EqualValues(t, 1, c.Stats().HandedOver)
		require.Equal(t, permit.grant.Token, second.lock.grant.Token)
		require.False(t, first.isDone())
		require.NoError(t, held[1].Release(t.Context()))
		first.got(t)
	})
}

// Callers that had a seat while permits were free give it back when none is:
// then one asks the nodes (R34).
func TestSeatsAreGivenBackAfterARefusal_R34(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}).Semaphore("r", 20), m.client(t, Config{}).Semaphore("r", 20)
		var held []Lock
		for range 20 {
			lock, err := other.TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			held = append(held, lock)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got, gone := wait(ctx, c, 100)
		time.Sleep(100 * ms)
		for _, lock := range held {
			require.NoError(t, lock.Release(t.Context()))
			time.Sleep(20 * ms) // so that all nodes have the same permits
		}
		time.Sleep(2 * time.Second) // each has tried once more
		require.EqualValues(t, 20, got.Load())
		requireSeldom(t, m, 1)
		cancel()
		gone.Wait()
	})
}

// A permit that is held on a quorum and free on one node is no reason to ask
// again and again, though other nodes have another one free (R26).
func TestPermitsThatAreFreeOnOneNode_R26(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c, other := m.client(t, Config{}).Semaphore("r", 2), m.client(t, Config{}).Semaphore("r", 2)
		for node := range 2 {
			lock, err := other.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			time.Sleep(10 * ms)
			m.forgetOn(node, fmt.Sprint("r#", lock.grant.Number))
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, gone := wait(ctx, c, 5)
		time.Sleep(time.Second)
		requireSeldom(t, m, 4)
		cancel()
		gone.Wait()
		time.Sleep(10 * ms)
	})
}

// wait starts callers, and counts those that get a lock.
func wait(ctx context.Context, l Locker, callers int) (got *atomic.Int64, gone *sync.WaitGroup) {
	got, gone = new(atomic.Int64), new(sync.WaitGroup)
	for range callers {
		gone.Go(func() {
			if _, err := l.Acquire(ctx, 10*time.Second); err == nil {
				got.Add(1)
			}
		})
	}
	return got, gone
}

// requireSeldom requires that one caller asks, as seldom as one without news:
// once in half a second at most. Each attempt has up to so many rounds, with
// their releases.
func requireSeldom(t *testing.T, m *memory, rounds int) {
	t.Helper()
	before := m.nodes[0].Calls("EVALSHA")
	time.Sleep(4 * time.Second)
	asked := m.nodes[0].Calls("EVALSHA") - before
	t.Log(asked, "commands")
	require.LessOrEqual(t, asked, (8+1)*2*rounds, "one caller asks, not eight")
}
