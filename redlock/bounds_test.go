package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// The effects of one caller or one burst must stay local: in these cases every
// caller once lost a connection, memory or a key.

// pausing is a context whose first query takes long, like a caller that was not
// scheduled after it read the clock.
type pausing struct {
	context.Context
	once  sync.Once
	pause time.Duration
}

func (p *pausing) Err() error {
	p.once.Do(func() { time.Sleep(p.pause) })
	return p.Context.Err()
}

// A starved client sheds no node (R26): ages count from the queueing, not from
// the caller's start.
func TestStarvedCallerShedsNobody_R26(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, 5)
		for i := range 5 {
			m.delay(i, 2*ms)
		}
		c := m.client(t, Config{})
		_, _ = c.TryAcquire(&pausing{Context: context.Background(), pause: 1100 * ms}, "a", 10*time.Second)
		_, err := c.TryAcquire(context.Background(), "b", 10*time.Second)
		require.NoError(t, err)
		for _, n := range c.group.Nodes() {
			require.Zero(t, n.Sheds, n.Addr)
			require.Less(t, n.ReplyTime, 10*ms, "the pause is no reply time")
		}
	})
}

// A burst of more bytes than a connection queues is refused here, and costs no
// quorum of connections (R26). Connections in memory take no bytes without
// waiting, and a busy machine may let one of them wait for so long that its
// node does not seem to read.
func TestBurstOfLongNamesCostsNoQuorum_R26(t *testing.T) {
	m := newMemory(t, 3)
	c := m.client(t, Config{NodeTimeout: time.Minute})
	require.NoError(t, c.Ready(context.Background()))
	start := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 8000 {
		callers.Go(func() {
			<-start
			_, err := c.TryAcquire(context.Background(), fmt.Sprintf("%01000d", i), time.Minute)
			if err != nil && !errors.Is(err, ErrOverloaded) {
				t.Error(err)
			}
		})
	}
	close(start)
	callers.Wait()
	lost := 0
	for _, n := range c.group.Nodes() {
		lost += min(n.Deaths, 1)
	}
	require.Less(t, lost, 2)
}

// Releasing twice is harmless, or a thousand times: the release is owed once
// (R8, R26).
func TestRepeatedReleaseIsOwedOnce_R8_R26(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, 5)
		c := m.client(t, Config{})
		lock, err := c.Acquire(context.Background(), "r", time.Minute)
		require.NoError(t, err)
		for i := range 5 {
			m.link(i).Refuse(true)
			m.nodes[i].DropConns()
		}
		time.Sleep(time.Second)
		for range 1000 {
			require.ErrorIs(t, lock.Release(context.Background()), ErrNoQuorum)
		}
		for _, n := range c.Nodes() {
			require.Equal(t, 1, n.Debts, n.Addr)
		}
		for i := range 5 {
			m.link(i).Refuse(false)
		}
		time.Sleep(1500 * ms)
		require.Zero(t, m.keys(), "keys left 1.5 s after the nodes came back")
	})
}

// A caller that waits for its next try learns at once that the client was
// closed (R28).
func TestCloseWakesThoseWhoWaitForTheirNextTry_R28(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, 3)
		c := m.client(t, Config{})
		c.quorumTime.Store(int64(150 * ms)) // tries are 200 ms apart
		held, err := c.TryAcquire(context.Background(), "r", time.Minute)
		require.NoError(t, err)
		outcome := make(chan error, 1)
		go func() {
			_, err := c.Acquire(context.Background(), "r", time.Minute)
			outcome <- err
		}()
		time.Sleep(20 * ms)
		require.NoError(t, c.Close(context.Background()))
		synctest.Wait()
		select {
		case err := <-outcome:
			require.ErrorIs(t, err, ErrClosed)
		default:
			t.Error("Acquire still sleeps")
		}
		require.ErrorIs(t, held.Release(context.Background()), ErrClosed)
	})
}

// A server without HELLO takes two connections per attempt; the budget counts
// both (R21, R26).
func TestConnectsToAnOldServerThatLoads_R26(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := redistest.NewNetwork()
		node := redistest.NewNode(redistest.NodeConfig{NoHello: true})
		node.Serve(network.Listen("node0:6379"))
		node.Refuse("-LOADING Redis is loading the dataset in memory", "INFO")
		t.Cleanup(func() { _, _ = node.Close(), network.Close() })
		var dials atomic.Int64
		c, err := New(t.Context(), Config{
			Nodes: Nodes("redis://node0:6379"),
			Connect: Connect{NetDial: func(ctx context.Context, n, a string) (net.Conn, error) {
				dials.Add(1)
				return network.Dial(ctx, n, a)
			}},
		})
		require.NoError(t, err)
		t.Cleanup(func() { closeNow(t, c) })
		time.Sleep(time.Minute)
		require.LessOrEqual(t, dials.Load(), int64(75))
		require.Greater(t, dials.Load(), int64(20))
	})
}

// A quorum that comes too late while the client closes leaves no key either
// (R7, R28).
func TestExpiredWhileClosingLeavesNoKey_R7_R28(t *testing.T) {
	expired := 0
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, 1)
			m.delay(0, 6*ms)
			c := m.client(t, Config{MinValidity: 985 * ms, NodeTimeout: 50 * ms})
			outcome := make(chan error)
			go func() {
				_, err := c.TryAcquire(context.Background(), "r", time.Second)
				outcome <- err
			}()
			closing := make(chan error)
			go func() {
				time.Sleep(6 * ms)
				closing <- c.Close(context.Background())
			}()
			if errors.Is(<-outcome, ErrExpired) {
				expired++
			}
			require.NoError(t, <-closing)
			time.Sleep(20 * ms)
			require.Zero(t, m.keys())
		})
	}
	require.Positive(t, expired, "the two never met")
}

// A URL's user without a password keeps its name.
func TestUserOfTheURLStays(t *testing.T) {
	config := Config{Username: "fallback", Password: "secret"}
	for url, user := range map[string]string{"redis://alice@h": "alice", "redis://h": "fallback"} {
		node, err := config.endpoint(url)
		require.NoError(t, err)
		require.Equal(t, user, node.Endpoint.Username)
		require.Equal(t, "secret", node.Endpoint.Password)
	}
}
