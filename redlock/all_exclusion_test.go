package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The same property with locks on both resources of the contest beside those on
// one: no two hold a resource at a time, whatever nodes and network do.
func TestMutualExclusionOfSeveral(t *testing.T) {
	seed := *exclusionSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-exclusion.seed=%d", seed)
	grants := 0
	for i, c := range []contest{
		{nodes: 5, skew: 0.009},
		{nodes: 3, skew: 0.05, drift: 0.06},
		{nodes: 5, skew: 0.009, restarts: true, maxTTL: contestTTL},
	} {
		c.seed, c.faults, c.several = seed+uint64(i), true, true
		result := c.run(t)
		require.Empty(t, result.violations, "nodes=%d restarts=%t", c.nodes, c.restarts)
		grants += result.grants
		t.Logf("%d grants, %d extensions, %d refusals", result.grants, result.extensions, result.refusals)
	}
	require.Greater(t, grants, 90, "too little happened to prove anything")
}

// The checker works for them too.
func TestMutualExclusionOfSeveralNeedsItsParts(t *testing.T) {
	for name, c := range map[string]contest{
		"NX":             {nodes: 5, several: true, withoutNX: true},
		"the quarantine": {nodes: 5, several: true, restarts: true},
	} {
		t.Run(name, func(t *testing.T) {
			for c.seed = range 20 {
				if len(c.run(t).violations) > 0 {
					return
				}
			}
			t.Error("it was not found out")
		})
	}
}

// arrangeAll makes the scripts of locks on several resources follow a node's
// clock, and breaks them as the contest says.
func (c contest) arrangeAll(n *redistest.Node, life func(text string) time.Duration) {
	n.Script(lua.AcquireAll, func(keys, args []string, db *redistest.DB) any {
		if c.withoutNX {
			for _, key := range keys {
				db.Delete(key)
			}
		}
		for i, key := range keys {
			if value, held := db.Get(key); held {
				return fmt.Sprint(i+1, " ", value)
			}
		}
		for _, key := range keys {
			db.Set(key, args[0], life(args[1]))
		}
		return 1
	})
	n.Script(lua.ExtendAll, func(keys, args []string, db *redistest.DB) any {
		for _, key := range keys {
			if value, held := db.Get(key); !held || value != args[0] {
				return 0
			}
		}
		for _, key := range keys {
			db.ExtendIf(key, args[0], life(args[1]))
		}
		return 1
	})
}

// onceAll is once for both resources.
func (w *contestant) onceAll(ctx context.Context) {
	both := []string{"r1", "r0"}
	if w.random.IntN(2) == 0 {
		both = []string{"r0", "r1"}
	}
	get := w.client.All(both...).TryAcquire
	if w.random.IntN(2) == 0 {
		get = w.client.All(both...).Acquire
	}
	patience, cancel := context.WithTimeout(ctx, w.span(300*ms))
	lock, err := get(patience, w.ttl())
	cancel()
	if err != nil {
		w.referee.refused(err)
		return
	}
	each := func(do func(resource string)) {
		for _, resource := range both {
			do(resource)
		}
	}
	each(func(resource string) { w.referee.granted(resource, w.id, lock) })
	for w.random.IntN(3) == 0 {
		_ = sleep(ctx, w.span(lock.Validity()), nil)
		if longer, err := lock.Extend(ctx, w.ttl()); err == nil {
			lock = longer
			each(func(resource string) { w.referee.extended(resource, w.id, lock) })
		}
	}
	_ = sleep(ctx, w.span(lock.Validity()), nil)
	if w.random.IntN(3) > 0 {
		each(func(resource string) { w.referee.gaveUp(resource, w.id) })
		_ = lock.Release(ctx)
	}
}
