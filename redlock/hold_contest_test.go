package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// With holds that renew and heal themselves, clients that come and go, and
// masters that forget, there is still at most one holder within its validity
// (R10, R13, R23).
func TestMutualExclusionOfHoldsOfFreshProcesses(t *testing.T) {
	seed := *exclusionSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-exclusion.seed=%d", seed)
	for _, nodes := range []int{5, 3} {
		c := holdContest{contest{seed: seed, nodes: nodes, faults: true, skew: 0.009, restarts: true, maxTTL: contestTTL}}
		grants, outlived := 0, 0
		for try := 0; try < 2 && (grants <= 40 || outlived <= 5); try++ { // one seed may leave little
			r := c.run(t)
			require.Empty(t, r.violations, "-exclusion.seed=%d", c.seed)
			grants, outlived = grants+r.grants, outlived+r.outlived
			t.Logf("nodes=%d: %d grants, %d outlived their first validity", nodes, r.grants, r.outlived)
			c.seed += 1000
		}
		require.Greater(t, grants, 40, "too little happened to prove anything")
		require.Greater(t, outlived, 5, "hardly any hold was renewed")
	}
}

// The checker works.
func TestMutualExclusionOfHoldsNeedsTheQuarantine(t *testing.T) {
	for seed := range uint64(20) {
		if c := (holdContest{contest{seed: seed, nodes: 5, restarts: true}}); len(c.run(t).violations) > 0 {
			return
		}
	}
	t.Error("it was not found out")
}

// A holdContest is a contest in which each client has one worker, which now and
// then restarts as a fresh process.
type holdContest struct{ contest }

// A holdReferee knows the last granted hold.
type holdReferee struct {
	stop context.CancelFunc

	mu         sync.Mutex // guards the following
	held       map[string]*Hold
	grants     int
	outlived   int // holds that lasted longer than they would without renewal
	violations []string
}

func (r *holdReferee) granted(resource string, h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants++
	if old := r.held[resource]; old != nil && old.Err() == nil && old.Until().After(time.Now()) {
		r.violations = append(r.violations, fmt.Sprintf("%s: granted while another holds it for another %v", resource, old.Validity()))
		r.stop()
	}
	r.held[resource] = h
}

// gaveUp is called before the release.
func (r *holdReferee) gaveUp(resource string, h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(h.begun.at) > contestTTL {
		r.outlived++
	}
	if r.held[resource] == h {
		delete(r.held, resource)
	}
}

func (c holdContest) run(t *testing.T) *holdReferee {
	r := &holdReferee{held: make(map[string]*Hold)}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, c.nodes)
		time.Sleep(6 * time.Second) // younger nodes are left to others at first (R30)
		random := rand.New(rand.NewPCG(c.seed, 1<<32))
		for i, n := range m.nodes {
			c.arrange(i, n)
			c.arrangeHeal(n)
		}
		c.open(t, m)
		ctx, cancel := context.WithTimeout(t.Context(), c.time())
		defer cancel()
		r.stop = cancel
		var links []*redistest.Link
		var wg sync.WaitGroup
		for k := range contestClients {
			own, all := c.links(t, m, random)
			links = append(links, all...)
			w := rand.New(rand.NewPCG(c.seed, uint64(k)))
			wg.Go(func() {
				for ctx.Err() == nil {
					life, end := context.WithTimeout(ctx, time.Second+spanOf(w, 4*time.Second))
					c.process(life, t, m, w, r, own)
					end()
				}
			})
		}
		wg.Go(func() { c.misfortune(ctx, m, links, random) })
		wg.Go(func() { c.forget(ctx, m) })
		wg.Wait()
	})
	return r
}

// arrangeHeal makes healings use the node's clock.
func (c holdContest) arrangeHeal(n *redistest.Node) {
	n.Script(healSource, func(keys, args []string, db *redistest.DB) any {
		d, _ := strconv.ParseInt(args[1], 10, 64)
		life := time.Duration(float64(d) * float64(ms) / (1 + c.skew))
		value, there := db.Get(keys[0])
		switch {
		case !there:
			db.Set(keys[0], args[0], life)
			return 2
		case value != args[0]:
			return 0
		}
		if rest, _ := db.TTL(keys[0]); rest < life {
			db.Expire(keys[0], life)
		}
		return 1
	})
}

// process is one client from its start to its end.
func (c holdContest) process(ctx context.Context, t *testing.T, m *memory, random *rand.Rand, r *holdReferee, own *redistest.Network) {
	client := exactClient(t, m, Config{Connect: Connect{NetDial: own.Dial}, MaxTTL: c.maxTTL, ReleaseOnClose: random.IntN(2) == 0})
	defer closeNow(t, client)
	for ctx.Err() == nil {
		resource := fmt.Sprintf("r%d", random.IntN(contestResources))
		patience, cancel := context.WithTimeout(ctx, spanOf(random, 300*ms))
		o := HoldOptions{TTL: 50*ms + spanOf(random, 100*ms), Heal: random.IntN(3) > 0}
		h, err := client.Hold(patience, resource, o)
		cancel()
		if err == nil {
			r.granted(resource, h)
			work, cancel := context.WithTimeout(h.Context(), spanOf(random, 600*ms))
			<-work.Done()
			cancel()
			r.gaveUp(resource, h)
			if random.IntN(4) > 0 {
				_ = h.Release(ctx)
			} else {
				_, _ = h.finish(ErrReleased) // as if the process had died
				client.keeper.forget(h)
			}
		}
		_ = sleep(ctx, spanOf(random, 30*ms), nil)
	}
}
