package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same in simulated time, with many more failovers: the former primary goes
// on granting for the whole bound, or was stopped before that until the new one
// counts. The new one lacks some of the keys, and the former one comes back
// with them. Besides, clients come and go.
func TestFailoverKeepsExclusionInSimulatedTime_R23(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMemoryTrial(t, nodes, 4)
				all := w.run(redistest.Few(5, 40))
				t.Logf("%d spells", len(w.truth.spells))
				assert.Greater(t, len(w.truth.spells), redistest.Few(50, 400))
				isVisitor := func(s spell) bool { return strings.HasPrefix(s.caller, "visitor") }
				assert.True(t, slices.ContainsFunc(w.truth.spells, isVisitor))
				assert.Empty(t, all)
			})
		})
	}
}

// newMemoryTrial is newTrial with nodes in memory.
func newMemoryTrial(t *testing.T, n, clients int) *trial {
	network := redistest.NewNetwork()
	servers := redistest.Nodes(t, network, n+1, redistest.NodeConfig{})
	for _, s := range servers {
		network.At(s.Addr()).Latency(time.Millisecond, time.Millisecond)
	}
	w := &trial{t: t}
	w.truth.begun = time.Now()
	present := make([]atomic.Int64, clients)
	var cutOff atomic.Bool // each client from all but one of the lone masters
	start := func(i int) *Client {
		config := Config{Prefix: "over:", MaxTTL: overMaxTTL, Logger: slog.New(slog.DiscardHandler)}
		config.Nodes = Nodes(fmt.Sprintf("redis://failover.test:1?failover=%v", overBound))
		for j := range n - 1 {
			config.Nodes = append(config.Nodes, Nodes(fmt.Sprintf("redis://lone%d.test:1", j))...)
		}
		config.Connect.NetDial = func(ctx context.Context, kind, addr string) (net.Conn, error) {
			at := int(present[i].Load())
			if _, err := fmt.Sscanf(addr, "lone%d.test:1", &at); err == nil {
				if cutOff.Load() && i%(n-1) != at {
					return nil, net.ErrClosed
				}
				at += 2
			}
			return network.Dial(ctx, kind, servers[at].Addr())
		}
		c, err := New(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	for i := range clients {
		w.clients = append(w.clients, start(i))
	}
	w.visit = func() *Client { return start(rand.IntN(clients)) }
	servers[1].Follow()
	w.isolate = func() {
		cutOff.Store(true)
		for _, s := range servers[2:] {
			network.At(s.Addr()).Reset()
		}
	}
	now := 0
	w.fails = func() {
		old, next := servers[now], servers[1-now]
		stopped := rand.IntN(3) == 0
		if stopped {
			old.Pause()
		}
		next.Resync()
		for _, key := range old.Keys() {
			if value, ok := old.Get(key); ok && rand.IntN(3) > 0 {
				left, _ := old.DB().TTL(key)
				next.DB().Set(key, value, left)
			}
		}
		next.Promote()
		next.Succeed(old)
		now = 1 - now
		lead := func(rest int) {
			for i := range present {
				if i%2 == rest {
					present[i].Store(int64(now))
				}
			}
		}
		// The connections of the others are lost, too, and come back to where
		// they were.
		lead(0)
		network.At(old.Addr()).Reset()
		if stopped {
			time.Sleep(3 * overMaxTTL)
			old.Resume()
		}
		time.Sleep(overBound)
		old.Follow()
		lead(1)
		network.At(old.Addr()).Reset()
	}
	return w
}
