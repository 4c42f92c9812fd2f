package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/require"
)

// The same property with locks that renew themselves, heal, are waited for in
// turn and are kept after their release: at most one context of a resource is
// open at a time, and no plain lock is held beside it.
func TestMutualExclusionOfHolds(t *testing.T) { // R10, R13, R23
	seed := *exclusionSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-exclusion.seed=%d", seed)
	grants, renewals := 0, 0
	for i, c := range []contest{
		{nodes: 5, skew: 0.009},
		{nodes: 3, skew: 0.05, drift: 0.06},
		{nodes: 5, skew: 0.009, upgrades: true},
		{nodes: 5, skew: 0.009, restarts: true, maxTTL: contestTTL},
		{nodes: 3, skew: 0.009, restarts: true, maxTTL: contestTTL, upgrades: true},
	} {
		c.seed, c.faults, c.holds = seed+uint64(i), true, true
		result := c.run(t)
		require.Empty(t, result.violations, "nodes=%d restarts=%t", c.nodes, c.restarts)
		grants, renewals = grants+result.grants, renewals+result.renewals
		t.Logf("%d grants, %d renewals, %d holds lost, %d refusals", result.grants, result.renewals, result.lost, result.refusals)
	}
	require.Greater(t, grants, 150, "too little happened to prove anything")
	require.Greater(t, renewals, 60)
}

// onceHeld is once with a lock that renews itself.
func (w *contestant) onceHeld(ctx context.Context, resource string) {
	o := HoldOptions{TTL: w.ttl(), Heal: w.random.IntN(2) == 0}
	if w.random.IntN(4) == 0 {
		o.MinHold = w.span(o.TTL.Truncate(ms))
	}
	get := w.client.Lock(resource).TryHold
	patience, cancel := context.WithTimeout(ctx, w.span(300*ms))
	if w.random.IntN(2) == 0 {
		get = w.client.Lock(resource).Hold
	}
	h, err := get(patience, o)
	cancel()
	if err != nil {
		w.referee.refused(err)
		return
	}
	w.referee.holds(resource, w.id, h)
	begun := h.Until()
	select {
	case <-h.Context().Done():
	case <-time.After(max(pure.Soon, w.span(400*ms))):
	case <-ctx.Done():
	}
	w.referee.letGo(resource, w.id, h, begun)
	_ = h.Release(context.WithoutCancel(ctx))
}

func (r *referee) holds(resource string, by int, h *Hold) {
	r.granted(resource, by, h.Current())
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.held[resource]; now.by == by {
		now.hold = h
		r.held[resource] = now
	}
}

// letGo is called before the release.
func (r *referee) letGo(resource string, by int, h *Hold, begun time.Time) {
	r.gaveUp(resource, by)
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.Until().After(begun) {
		r.renewals++
	}
	if errors.Is(h.Err(), ErrLost) {
		r.lost++
	}
}

// upgrade gives nodes a native release command and takes it away again, mostly
// under open connections.
func (c contest) upgrade(ctx context.Context, m *memory) {
	random := rand.New(rand.NewPCG(c.seed, 1<<34))
	for _, n := range m.nodes {
		n.Native("DELEX")
	}
	for sleep(ctx, spanOf(random, 200*ms), nil) == nil {
		n := m.nodes[random.IntN(c.nodes)]
		switch random.IntN(5) {
		case 0:
			n.Native()
		case 1:
			n.DropConns()
		default:
			n.Native("DELEX")
			n.DropConns()
		}
	}
}
