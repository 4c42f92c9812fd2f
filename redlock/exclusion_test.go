package redlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

var exclusionSeed = flag.Uint64("exclusion.seed", 0, "seed of TestMutualExclusion; if 0, a new one")

// The one property that matters: at most one holder of a resource at a time
// within validity, whatever nodes and network do. A seed fixes the faults and
// what the clients want, not the scheduling of goroutines.
func TestMutualExclusion(t *testing.T) {
	seed := *exclusionSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-exclusion.seed=%d", seed)
	for i, c := range []contest{
		{nodes: 5, skew: 0.009},
		{nodes: 3, skew: 0.05, drift: 0.06},
		{nodes: 4, skew: 0},
		{nodes: 1, skew: 0.009},
		{nodes: 5, skew: 0.009, restarts: true, maxTTL: contestTTL},
		{nodes: 3, skew: 0.009, restarts: true, maxTTL: contestTTL},
	} {
		t.Run(fmt.Sprintf("nodes=%d restarts=%t", c.nodes, c.restarts), func(t *testing.T) {
			c.seed = seed + uint64(i)
			c.faults = true
			grants, extensions, refusals := 0, 0, 0
			// One seed in a hundred has faults that leave little; then two runs
			// count together.
			for try := 0; try < 2 && (grants <= 40 || extensions <= 10 || refusals <= 100); try++ {
				result := c.run(t)
				require.Empty(t, result.violations, "-exclusion.seed=%d", c.seed-uint64(i))
				grants, extensions, refusals = grants+result.grants, extensions+result.extensions, refusals+result.refusals
				t.Logf("%d grants, %d extensions, %d refusals", result.grants, result.extensions, result.refusals)
				c.seed += 1000
			}
			require.Greater(t, grants, 40, "too little happened to prove anything")
			require.Greater(t, extensions, 10)
			require.Greater(t, refusals, 100)
		})
	}
}

// The checker works: with one property of the algorithm removed, it must fail.
func TestMutualExclusionNeedsEachOfItsParts(t *testing.T) {
	for name, c := range map[string]contest{
		// A node that grants every SET has the effect of a quorum that is
		// smaller by one.
		"a quorum less one":             {nodes: 3, liars: 1},
		"a quorum of five less one":     {nodes: 5, liars: 1},
		"NX":                            {nodes: 5, withoutNX: true},
		"clocks that keep to the drift": {nodes: 5, skew: 0.05},
		"compare before delete":         {nodes: 3, deletesAny: true},
		"extensions that only lengthen": {nodes: 3, shortens: true},
		"the quarantine":                {nodes: 5, restarts: true},
		"a quorum, for holds":           {nodes: 3, liars: 1, onlyHolds: true},
		"the quarantine, for holds":     {nodes: 5, restarts: true, onlyHolds: true},
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

// A contest is many clients that compete for few locks.
type contest struct {
	seed   uint64
	nodes  int
	faults bool
	skew   float64 // how much faster the nodes' clocks run
	drift  float64 // Config.DriftFactor
	// restarts makes nodes restart empty; maxTTL is Config.MaxTTL (R23).
	restarts bool
	maxTTL   time.Duration
	holds    bool // half of the locks renew themselves; see hold_exclusion_test.go
	// onlyHolds makes all locks renew themselves.
	onlyHolds bool
	// several makes half of the locks be on all resources; see
	// all_exclusion_test.go.
	several  bool
	upgrades bool // nodes get a native release command, and lose it again (R25)

	// What is broken on purpose.
	liars      int // nodes that grant everything and keep nothing
	withoutNX  bool
	deletesAny bool
	shortens   bool
}

const (
	contestClients   = 6
	contestWorkers   = 2 // per client
	contestResources = 2
	contestTime      = 4 * time.Second
)

func (c contest) run(t *testing.T) *referee {
	r := &referee{held: make(map[string]hold)}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, c.nodes)
		time.Sleep(6 * time.Second) // younger nodes are left to others at first (R30)
		random := rand.New(rand.NewPCG(c.seed, 1<<32))
		for i, n := range m.nodes {
			c.arrange(i, n)
		}
		c.open(t, m)
		var clients []*Client
		var links []*redistest.Link
		for range contestClients {
			own, all := c.links(t, m, random)
			links = append(links, all...)
			clients = append(clients, m.client(t, Config{Connect: Connect{NetDial: own.Dial}, DriftFactor: c.drift, MaxTTL: c.maxTTL}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), c.time())
		defer cancel()
		r.stop = cancel
		var wg sync.WaitGroup
		for i := range contestClients * contestWorkers {
			w := &contestant{
				id: i, client: clients[i/contestWorkers], referee: r,
				random: rand.New(rand.NewPCG(c.seed, uint64(i))),
			}
			w.holds, w.onlyHolds, w.several = c.holds, c.onlyHolds, c.several
			wg.Go(func() { w.work(ctx) })
		}
		if c.faults {
			wg.Go(func() { c.misfortune(ctx, m, links, random) })
		}
		if c.upgrades {
			wg.Go(func() { c.upgrade(ctx, m) })
		}
		if c.restarts {
			wg.Go(func() { c.forget(ctx, m) })
		}
		wg.Wait()
	})
	return r
}

// open opens the deployment, before a node forgets anything: nodes that restart
// all the time may never be up together, which the first use needs (R30).
func (c contest) open(t *testing.T, m *memory) {
	if c.maxTTL > 0 {
		_, err := Init(t.Context(), m.reach(Config{MaxTTL: c.maxTTL}))
		require.NoError(t, err)
	}
}

// links returns a network to the nodes for one client, so that commands of
// several arrive in different orders.
func (c contest) links(t *testing.T, m *memory, random *rand.Rand) (own *redistest.Network, all []*redistest.Link) {
	own = m.wires(t)
	for _, n := range m.nodes {
		link := own.At(n.Addr())
		link.Latency(spanOf(random, 2*ms), spanOf(random, 2*ms))
		all = append(all, link)
	}
	return own, all
}

// arrange makes a node's clock run fast, and breaks the node as the contest
// says.
func (c contest) arrange(i int, n *redistest.Node) {
	life := func(text string) time.Duration {
		d, _ := strconv.ParseInt(text, 10, 64)
		return time.Duration(float64(d) * float64(ms) / (1 + c.skew))
	}
	n.Handle(func(_ int, args []string) ([]byte, bool) {
		switch {
		case args[0] != "SET":
			return nil, false
		case i < c.liars:
			return []byte("+OK\r\n"), true
		}
		if _, there := n.Get(args[1]); there && slices.Contains(args, "NX") && !c.withoutNX {
			return []byte("_\r\n"), true
		}
		n.DB().Set(args[1], args[2], life(args[len(args)-1]))
		return []byte("+OK\r\n"), true
	})
	n.Script(extendSource, func(keys, args []string, db *redistest.DB) any {
		if value, ok := db.Get(keys[0]); !ok || value != args[0] {
			return 0
		}
		if rest, _ := db.TTL(keys[0]); c.shortens || rest < life(args[1]) {
			db.Expire(keys[0], life(args[1]))
		}
		return 1
	})
	if c.several {
		c.arrangeAll(n, life)
	}
	if c.deletesAny {
		n.Script(releaseSource, func(keys, _ []string, db *redistest.DB) any {
			if db.Delete(keys[0]) {
				return 1
			}
			return 0
		})
		n.Script(releaseManySource, func(keys, _ []string, db *redistest.DB) any {
			results := make([]any, len(keys))
			for i, key := range keys {
				results[i] = 0
				if db.Delete(key) {
					results[i] = 1
				}
			}
			return results
		})
	}
}

// misfortune breaks one thing after another and mends each again.
func (c contest) misfortune(ctx context.Context, m *memory, links []*redistest.Link, random *rand.Rand) {
	for ctx.Err() == nil {
		node, link := m.nodes[random.IntN(c.nodes)], links[random.IntN(len(links))]
		mend := func() {}
		switch random.IntN(10) {
		case 0:
			link.Latency(spanOf(random, 20*ms), spanOf(random, 20*ms))
		case 1:
			for _, l := range links {
				l.Latency(spanOf(random, 2*ms), spanOf(random, 2*ms))
			}
		case 2:
			node.Pause()
			mend = node.Resume
		case 3:
			link.Pause(redistest.Up)
			mend = func() { link.Resume(redistest.Up) }
		case 4:
			link.Pause(redistest.Down)
			mend = func() { link.Resume(redistest.Down) }
		case 5:
			link.Refuse(true)
			link.Reset()
			mend = func() { link.Refuse(false) }
		case 6:
			node.DropConns()
		case 7:
			node.Refuse("-OOM command not allowed", "SET", "EVALSHA")
			mend = func() { node.Refuse("", "SET", "EVALSHA") }
		case 8:
			node.FlushScripts()
		case 9:
			node.SetOrder(redistest.Order(random.IntN(3)))
		}
		_ = sleep(ctx, spanOf(random, 100*ms), nil)
		mend()
		_ = sleep(ctx, spanOf(random, 30*ms), nil)
	}
}

func spanOf(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(max(most, ms))))
}

// A contestant takes one lock after another and uses it.
type contestant struct {
	id      int
	client  *Client
	referee *referee
	random  *rand.Rand

	holds, onlyHolds, several bool
}

func (w *contestant) work(ctx context.Context) {
	for ctx.Err() == nil {
		w.once(ctx, fmt.Sprintf("r%d", w.random.IntN(contestResources)))
		_ = sleep(ctx, w.span(30*ms), nil)
	}
}

func (w *contestant) span(most time.Duration) time.Duration { return spanOf(w.random, most) }

func (w *contestant) ttl() time.Duration { return 50*ms + w.span(100*ms) }

func (w *contestant) once(ctx context.Context, resource string) {
	if w.several && w.random.IntN(2) == 0 {
		w.onceAll(ctx)
		return
	}
	if w.onlyHolds || w.holds && w.random.IntN(2) == 0 {
		w.onceHeld(ctx, resource)
		return
	}
	var lock Lock
	var err error
	if w.random.IntN(2) == 0 {
		lock, err = w.client.TryAcquire(ctx, resource, w.ttl())
	} else {
		patience, cancel := context.WithTimeout(ctx, w.span(300*ms))
		lock, err = w.client.Acquire(patience, resource, w.ttl())
		cancel()
	}
	if err != nil {
		w.referee.refused(err)
		return
	}
	w.referee.granted(resource, w.id, lock)
	for w.random.IntN(3) == 0 {
		_ = sleep(ctx, w.span(lock.Validity()/time.Duration(1+w.random.IntN(4))), nil)
		longer, err := lock.Extend(ctx, w.ttl())
		if err == nil {
			lock = longer
			w.referee.extended(resource, w.id, lock)
		}
	}
	switch w.random.IntN(3) {
	case 0: // to the very end, and without a release
		_ = sleep(ctx, lock.Validity(), nil)
	case 1:
		_ = sleep(ctx, w.span(lock.Validity()), nil)
		w.referee.gaveUp(resource, w.id)
		_ = lock.Release(ctx)
	case 2: // at once
		w.referee.gaveUp(resource, w.id)
		_ = lock.Release(ctx)
	}
}

// A referee knows who holds which lock, by the simulated clock, which all
// share.
type referee struct {
	stop context.CancelFunc // ends the contest: one violation is enough

	mu         sync.Mutex // guards the following
	held       map[string]hold
	grants     int
	extensions int
	refusals   int
	renewals   int // holds that were renewed at least once
	lost       int
	violations []string
}

type hold struct {
	by    int
	until time.Time
	hold  *Hold // of a lock that renews itself
}

func (h hold) isHeld(now time.Time) bool {
	if h.hold != nil {
		return h.hold.Err() == nil
	}
	return h.until.After(now)
}

func (r *referee) granted(resource string, by int, lock Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.grants++
	if h, ok := r.held[resource]; ok && h.isHeld(now) {
		r.violated("%s: granted to %d while %d holds it for another %v", resource, by, h.by, h.until.Sub(now))
	}
	r.held[resource] = hold{by: by, until: lock.Until()}
}

func (r *referee) extended(resource string, by int, lock Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extensions++
	if h, ok := r.held[resource]; !ok || h.by != by {
		r.violated("%s: extended by %d, and %d holds it", resource, by, h.by)
	}
	r.held[resource] = hold{by: by, until: lock.Until()}
}

// gaveUp is called before the release: from then on others may hold the lock.
func (r *referee) gaveUp(resource string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[resource].by == by {
		delete(r.held, resource)
	}
}

func (r *referee) refused(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals++
	expected := []error{ErrHeld, ErrNoQuorum, ErrExpired, ErrOverloaded, context.DeadlineExceeded, context.Canceled}
	if !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		r.violated("unexpected error: %v", err)
	}
}

// violated records a violation. The caller must hold the mutex.
func (r *referee) violated(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
	r.stop()
}

// contestTTL is the longest TTL in a contest.
const contestTTL = 150 * ms

// time returns the length of the contest: with quarantined nodes, fewer grants
// come in the same time.
func (c contest) time() time.Duration {
	if c.restarts {
		return 3 * contestTime
	}
	return contestTime
}

// forget restarts one node after another, at a rate that leaves a quorum some
// time without a quarantined node.
func (c contest) forget(ctx context.Context, m *memory) {
	random := rand.New(rand.NewPCG(c.seed, 1<<33))
	for sleep(ctx, contestTTL+spanOf(random, 2*contestTTL), nil) == nil {
		m.nodes[random.IntN(c.nodes)].Restart()
	}
}
