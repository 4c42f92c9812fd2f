package redlock

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/stretchr/testify/require"
)

var exclusionSeed = flag.Uint64("exclusion.seed", 0, "seed of the tests of mutual exclusion; if 0, a new one")

// The one property that matters: at most one holder of a resource at a time
// within validity, whatever nodes and network do. A seed fixes the faults and
// what the clients want, not the scheduling of goroutines.
func TestMutualExclusion(t *testing.T) {
	for _, c := range []contest{
		{nodes: 5, skew: 0.009},
		{nodes: 3, skew: 0.05, drift: 0.06},
		{nodes: 4},
		{nodes: 1, skew: 0.009},
		{nodes: 5, skew: 0.009, restarts: true, maxTTL: contestTTL},
		{nodes: 3, skew: 0.009, restarts: true, maxTTL: contestTTL},
	} {
		t.Run(fmt.Sprintf("nodes=%d restarts=%t", c.nodes, c.restarts), func(t *testing.T) {
			compete(t, tallies{"grants": 40, "extensions": 10, "refusals": 100}, c)
		})
	}
}

// The same with locks that renew themselves, heal, are waited for in turn and
// are kept after their release (R10, R13, R23): at most one context of a
// resource is open at a time, and no plain lock is held beside it.
func TestMutualExclusionOfHolds(t *testing.T) {
	compete(t, tallies{"grants": 150, "renewals": 60},
		contest{uses: "plain held", nodes: 5, skew: 0.009},
		contest{uses: "plain held", nodes: 3, skew: 0.05, drift: 0.06},
		contest{uses: "plain held", nodes: 5, skew: 0.009, upgrades: true},
		contest{uses: "plain held", nodes: 5, skew: 0.009, restarts: true, maxTTL: contestTTL},
		contest{uses: "plain held", nodes: 3, skew: 0.009, restarts: true, maxTTL: contestTTL, upgrades: true})
	for _, nodes := range []int{5, 3} { // with clients that come and go
		compete(t, tallies{"grants": 40, "renewals": 5},
			contest{uses: "held", fresh: true, nodes: nodes, skew: 0.009, restarts: true, maxTTL: contestTTL})
	}
}

// The same with locks on both resources of the contest beside those on one.
func TestMutualExclusionOfSeveral(t *testing.T) {
	compete(t, tallies{"grants": 90},
		contest{uses: "plain several", nodes: 5, skew: 0.009},
		contest{uses: "plain several", nodes: 3, skew: 0.05, drift: 0.06},
		contest{uses: "plain several", nodes: 5, skew: 0.009, restarts: true, maxTTL: contestTTL})
}

// No writer is beside another holder, with upgrades and downgrades.
func TestMutualExclusionOfWriters(t *testing.T) {
	c := contest{uses: "rw", nodes: 5, skew: 0.009}
	compete(t, tallies{"reads": 10, "writes": 10}, c, c, c)
}

// There are never more holders than permits.
func TestMutualExclusionOfPermits(t *testing.T) {
	c := contest{uses: "permits", nodes: 5, skew: 0.009}
	compete(t, tallies{"grants": 150}, c, c, c)
}

// No caller of a fair lock that a quorum has let in is overtaken by one that
// asks later, and no two have the lock.
func TestMutualExclusionInOrder(t *testing.T) {
	c := contest{uses: "fair", nodes: 5, skew: 0.009}
	compete(t, tallies{"grants": 150, "let in": 150}, c, c, c, c)
}

// The checker works: with one property of the algorithm removed, it must fail.
func TestMutualExclusionNeedsEachOfItsParts(t *testing.T) {
	for name, c := range map[string]contest{
		// A node that grants every SET has the effect of a quorum that is
		// smaller by one.
		"a quorum less one":             {nodes: 3, liars: 1},
		"a quorum of five less one":     {nodes: 5, liars: 1},
		"NX":                            {nodes: 5, withoutNX: true},
		"NX, for several":               {nodes: 5, withoutNX: true, uses: "plain several"},
		"clocks that keep to the drift": {nodes: 5, skew: 0.05},
		"compare before delete":         {nodes: 3, deletesAny: true},
		"extensions that only lengthen": {nodes: 3, shortens: true},
		"the quarantine":                {nodes: 5, restarts: true},
		"the quarantine, for several":   {nodes: 5, restarts: true, uses: "plain several"},
		"a quorum, for holds":           {nodes: 3, liars: 1, uses: "held"},
		"the quarantine, for holds":     {nodes: 5, restarts: true, uses: "held", fresh: true},
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

type tallies map[string]int

// compete runs contests with faults, and requires that nothing was violated,
// and that enough happened to prove something. One seed in a hundred has faults
// that leave little; then two runs count together.
func compete(t *testing.T, least tallies, all ...contest) {
	t.Helper()
	seed := *exclusionSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-exclusion.seed=%d", seed)
	sum := tallies{}
	little := func() bool {
		for what, n := range least {
			if sum[what] <= n {
				return true
			}
		}
		return false
	}
	for try := 0; try < 2 && little(); try++ {
		for i, c := range all {
			c.seed, c.faults = seed+uint64(1000*try+i), true
			r := c.run(t)
			require.Empty(t, r.violations, "%+v", c)
			for what, n := range r.counts {
				sum[what] += n
			}
		}
	}
	t.Log(sum)
	require.False(t, little(), "too little happened to prove anything: %v of %v", sum, least)
}

// A contest is many clients that compete for few locks.
type contest struct {
	seed   uint64
	nodes  int
	uses   string // what the locks are, one after another at random; "" for plain
	faults bool
	skew   float64 // how much faster the nodes' clocks run
	drift  float64 // Config.DriftFactor
	// restarts makes nodes restart empty; maxTTL is Config.MaxTTL (R23).
	restarts bool
	maxTTL   time.Duration
	fresh    bool // the clients come and go
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
	contestPermits   = 3
	contestTime      = 4 * time.Second
	contestTTL       = 150 * ms // the longest
)

func (c contest) run(t *testing.T) *referee {
	r := &referee{held: make(map[string][]*stint), counts: tallies{}}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, c.nodes)
		time.Sleep(6 * time.Second) // younger nodes are left to others at first (R30)
		random := rand.New(rand.NewPCG(c.seed, 1<<32))
		for i, n := range m.nodes {
			c.arrange(i, n)
		}
		c.open(t, m)
		ctx, cancel := context.WithTimeout(t.Context(), c.time())
		defer cancel()
		r.stop = cancel
		var links []*redistest.Link
		var wg sync.WaitGroup
		for i := range contestClients {
			own, all := c.links(t, m, random)
			links = append(links, all...)
			config := Config{Connect: Connect{NetDial: own.Dial}, DriftFactor: c.drift, MaxTTL: c.maxTTL, Tracer: r.tracer()}
			if c.fresh {
				wg.Go(func() { c.contestant(i, r).live(ctx, t, m, config) })
				continue
			}
			client := m.client(t, config)
			client.kinds.Tickets.Correct(time.Duration(i) * time.Second)
			for k := range contestWorkers {
				w := c.contestant(i*contestWorkers+k, r)
				w.client = client
				wg.Go(func() { w.work(ctx) })
			}
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
	n.Clock().SetRate(1 + c.skew)
	n.Handle(func(_ int, args []string) ([]byte, bool) {
		if args[0] == "SET" && c.withoutNX {
			n.DB().Delete(args[1])
		}
		return []byte("+OK\r\n"), args[0] == "SET" && i < c.liars
	})
	if c.shortens {
		n.Script(extendSource, func(keys, args []string, db *redistest.DB) any {
			d, _ := strconv.Atoi(args[1])
			if value, _ := db.Get(keys[0]); value != args[0] || !db.Expire(keys[0], time.Duration(d)*ms) {
				return 0
			}
			return 1
		})
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

func spanOf(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(max(most, ms))))
}

// A contestant takes one lock after another and uses it.
type contestant struct {
	id      int
	client  *Client
	referee *referee
	random  *rand.Rand
	uses    []string
	dies    bool // now and then, while it has a hold
}

func (c contest) contestant(id int, r *referee) *contestant {
	random := rand.New(rand.NewPCG(c.seed, uint64(id)))
	return &contestant{id: id, referee: r, random: random, uses: strings.Fields(cmp.Or(c.uses, "plain")), dies: c.fresh}
}

// live works with one client after another, as if processes came and went.
func (w *contestant) live(ctx context.Context, t *testing.T, m *memory, config Config) {
	for ctx.Err() == nil {
		life, end := context.WithTimeout(ctx, time.Second+w.span(4*time.Second))
		config.ReleaseOnClose = w.random.IntN(2) == 0
		w.client = exactClient(t, m, config)
		w.work(life)
		closeNow(t, w.client)
		end()
	}
}

func (w *contestant) work(ctx context.Context) {
	for ctx.Err() == nil {
		resource := fmt.Sprintf("r%d", w.random.IntN(contestResources))
		switch w.uses[w.random.IntN(len(w.uses))] {
		case "plain":
			w.use(ctx, w.client.Lock(resource), stint{}, resource)
		case "several":
			both := []string{"r0", "r1"}
			if w.random.IntN(2) == 0 {
				slices.Reverse(both)
			}
			w.use(ctx, w.client.All(both...), stint{}, both...)
		case "held":
			w.hold(ctx, resource)
		case "rw":
			w.readOrWrite(ctx, resource)
		case "permits":
			w.use(ctx, w.client.Semaphore("r", contestPermits), stint{beside: contestPermits - 1}, "r")
		case "fair":
			w.use(ctx, w.client.Fair("r"), stint{patience: 3 * time.Second}, "r")
		}
		_ = sleep(ctx, w.span(30*ms), nil)
	}
}

func (w *contestant) span(most time.Duration) time.Duration { return spanOf(w.random, most) }

func (w *contestant) ttl() time.Duration { return 50*ms + w.span(100*ms) }

// acquire makes one attempt, or waits for a while.
func (w *contestant) acquire(ctx context.Context, l Locker, most time.Duration) (lock Lock, ok bool) {
	var err error
	turn := w.referee.queue(w.id)
	defer w.referee.unqueue(turn)
	if w.random.IntN(2) == 0 {
		lock, err = l.TryAcquire(ctx, w.ttl())
	} else {
		patience, cancel := context.WithTimeout(context.WithValue(ctx, queueing{}, turn), w.span(cmp.Or(most, 300*ms)))
		lock, err = l.Acquire(patience, w.ttl())
		cancel()
	}
	if err != nil {
		w.referee.refused(err)
		return lock, false
	}
	return lock, true
}

// use takes a lock, extends it, and releases it at some time or never.
func (w *contestant) use(ctx context.Context, l Locker, as stint, resources ...string) {
	lock, ok := w.acquire(ctx, l, as.patience)
	if !ok {
		return
	}
	as.by, as.until = w.id, lock.Until()
	w.referee.granted(&as, resources...)
	for w.random.IntN(3) == 0 {
		_ = sleep(ctx, w.span(lock.Validity()/time.Duration(1+w.random.IntN(4))), nil)
		if longer, err := lock.Extend(ctx, w.ttl()); err == nil {
			lock = longer
			w.referee.extended(&as, lock.Until(), resources...)
		}
	}
	switch w.random.IntN(3) {
	case 0: // to the very end, and without a release
		_ = sleep(ctx, lock.Validity(), nil)
		return
	case 1:
		_ = sleep(ctx, w.span(lock.Validity()), nil)
	}
	w.referee.gaveUp(&as)
	_ = lock.Release(ctx)
}

// hold takes a lock that renews itself.
func (w *contestant) hold(ctx context.Context, resource string) {
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
	as := &stint{by: w.id, hold: h}
	w.referee.granted(as, resource)
	begun := h.Until()
	select {
	case <-h.Context().Done():
	case <-time.After(max(pure.Soon, w.span(400*ms))):
	case <-ctx.Done():
	}
	if w.referee.gaveUp(as); h.Until().After(begun) {
		w.referee.count("renewals")
	}
	if errors.Is(h.Err(), ErrLost) {
		w.referee.count("lost")
	}
	if w.dies && w.random.IntN(4) == 0 {
		_, _ = h.finish(ErrReleased)
		w.client.keeper.forget(h)
		return
	}
	_ = h.Release(context.WithoutCancel(ctx))
}

// readOrWrite takes a read/write lock, and may turn it into the other.
func (w *contestant) readOrWrite(ctx context.Context, resource string) {
	rw, r := w.client.RW(resource), w.referee
	l, as, what := rw.Read(), &stint{by: w.id, reads: true}, "reads"
	if w.random.IntN(3) == 0 {
		l, as, what = rw.Write(), &stint{by: w.id}, "writes"
	}
	lock, ok := w.acquire(ctx, l, 0)
	if !ok {
		return
	}
	as.until = lock.Until()
	r.granted(as, resource)
	r.count(what)
	_ = sleep(ctx, w.span(50*ms), nil)
	switch w.random.IntN(4) {
	case 0, 1:
		if as.reads {
			write, err := rw.Upgrade(ctx, lock, w.ttl())
			if err != nil {
				break
			}
			own := &stint{by: w.id, until: write.Until(), under: as}
			r.granted(own, resource)
			r.count("upgrades")
			_ = sleep(ctx, w.span(50*ms), nil)
			r.gaveUp(own)
			_ = write.Release(ctx)
			break
		}
		r.gaveUp(as)
		read, err := rw.Downgrade(ctx, lock, w.ttl())
		if err != nil {
			return
		}
		lock, as = read, &stint{by: w.id, reads: true, until: read.Until()}
		r.granted(as, resource)
		r.count("downgrades")
	case 2:
		if longer, err := lock.Extend(ctx, w.ttl()); err == nil {
			lock = longer
			r.extended(as, lock.Until(), resource)
		}
	}
	_ = sleep(ctx, w.span(50*ms), nil)
	r.gaveUp(as)
	_ = lock.Release(ctx)
}

// A referee knows which locks are held, by the simulated clock, which all
// share.
type referee struct {
	stop context.CancelFunc // ends the contest: one violation is enough

	mu         sync.Mutex // guards the following
	held       map[string][]*stint
	waiting    []*queueing
	counts     tallies
	violations []string
}

// A stint is a lock from its grant until its release, or the end of its
// validity.
type stint struct {
	by     int
	until  time.Time
	hold   *Hold  // of a lock that renews itself
	reads  bool   // beside others that read
	under  *stint // the read lock of an upgrade
	beside int    // how many others may have a permit

	patience time.Duration // of the call that may wait for it
}

func (h *stint) isHeld(now time.Time) bool {
	if h.hold != nil {
		return h.hold.Err() == nil
	}
	return h.until.After(now)
}

func (r *referee) granted(h *stint, resources ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["grants"]++
	r.enterLocked(h, resources)
}

// enterLocked adds a stint, beside which no other may be.
func (r *referee) enterLocked(h *stint, resources []string) {
	for _, resource := range resources {
		now, others := time.Now(), h.beside
		all := slices.DeleteFunc(r.held[resource], func(o *stint) bool { return o == h || !o.isHeld(now) })
		for _, o := range all {
			if h.under == o || h.reads && o.reads {
				continue
			}
			if others--; others < 0 {
				r.violatedLocked("%s: granted to %+v beside %+v", resource, *h, *o)
			}
		}
		r.held[resource] = append(all, h)
	}
}

func (r *referee) extended(h *stint, until time.Time, resources ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["extensions"]++
	h.until = until
	r.enterLocked(h, resources)
}

// gaveUp is called before the release: from then on others may hold the lock.
func (r *referee) gaveUp(h *stint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for resource, all := range r.held {
		r.held[resource] = slices.DeleteFunc(all, func(o *stint) bool { return o == h })
	}
}

func (r *referee) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

func (r *referee) refused(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["refusals"]++
	expected := []error{ErrHeld, ErrNoQuorum, ErrExpired, ErrOverloaded, context.DeadlineExceeded, context.Canceled}
	if !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		r.violatedLocked("unexpected error: %v", err)
	}
}

func (r *referee) violatedLocked(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
	r.stop()
}

// A queueing is a call that may wait in the queue of a fair lock.
type queueing struct {
	by              int
	begun, admitted time.Time
	asked           time.Time // the last attempt's end
}

func (r *referee) queue(by int) *queueing {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &queueing{by: by, begun: time.Now()}
	r.waiting = append(r.waiting, q)
	return q
}

func (r *referee) unqueue(q *queueing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(o *queueing) bool { return o == q })
}

// tracer returns one that hears when a quorum has let a caller in, and when one
// is granted the lock before another that had been let in when it began. Half
// of a lease covers what the nodes and the caller know late.
func (r *referee) tracer() *Tracer {
	return &Tracer{AttemptDone: func(ctx context.Context, a CallInfo) {
		q, _ := ctx.Value(queueing{}).(*queueing)
		held := (*HeldError)(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		switch now := time.Now(); {
		case q == nil:
		case errors.As(a.Err, &held) && held.Admitted >= 3:
			if q.asked = now; q.admitted.IsZero() {
				q.admitted = now
				r.counts["let in"]++
			}
		case a.Err == nil:
			for _, o := range r.waiting {
				if o != q && !o.admitted.IsZero() && o.admitted.Before(q.begun) && now.Sub(o.asked) < kind.LeaseTime/2 {
					r.violatedLocked("%+v overtook %+v", *q, *o)
				}
			}
		}
	}}
}
