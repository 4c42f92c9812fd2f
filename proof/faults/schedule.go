package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/proof/history"
)

// One goroutine per node and one per process with proxies draw kinds from the
// deck of their scope. The limiter keeps the faults to a minority of the nodes,
// but for short storms.

// rates shares the faults of a second out among the scopes.
var rates = map[Scope]float64{OfNode: 0.70, OfLink: 0.265, OfProcess: 0.03, OfFleet: 0.005}

// A scheduler injects the faults of one node or of one process.
type scheduler struct {
	run    *run
	deck   *deck
	scope  Scope
	random *rand.Rand
	gap    time.Duration // mean time from the beginning of a fault to that of the next
	node   int           // OfNode
	slot   int           // OfLink
}

// work injects until ctx ends.
func (s *scheduler) work(ctx context.Context) {
	next := time.Now()
	// No gap is longer than twice the mean, so that a run of ten seconds always
	// has every kind.
	for ; ; next = next.Add(time.Duration(min(s.random.ExpFloat64(), 2) * float64(s.gap))) {
		// A scheduler that had to wait catches up, but not for long.
		if behind := time.Now().Add(-5 * s.gap); next.Before(behind) {
			next = behind
		}
		if !s.run.wait(ctx, time.Until(next), s.scope == OfNode) {
			return
		}
		k := s.draw()
		if k == nil {
			if !s.run.wait(ctx, 50*time.Millisecond, false) {
				return
			}
			continue
		}
		if !s.run.limiter.enter(ctx, k) {
			return
		}
		s.strike(ctx, k)
		s.run.limiter.leave(k)
	}
}

// lastFaults is how long before a rest those faults are made that leave most
// behind: keys live for MaxTTL only, so that a rest sees no more than what
// happened a second or two before it.
const lastFaults = 800 * time.Millisecond

func (s *scheduler) draw() *Kind {
	if s.run.untilRest() < lastFaults {
		if k := s.deck.drawLast(); k != nil {
			return k
		}
	}
	return s.deck.draw(func(k *Kind) bool { return s.run.limiter.allowed(k) && s.run.mayKill(k) })
}

// strike makes one fault and heals it.
func (s *scheduler) strike(ctx context.Context, k *Kind) {
	t := s.target(k)
	f := &fault{kind: k, node: -1, slot: -1}
	switch s.scope {
	case OfNode:
		f.node = t.node
	case OfLink:
		f.node, f.slot = t.node, t.slot
	case OfProcess:
		f.slot = t.slot
	}
	s.run.log.begin(f, s.run.limiter.quorum, s.run.limiter.nodes)
	heal, err := t.Inject(ctx)
	if k.Name == killKind {
		s.run.noteKilled()
	}
	if err == nil {
		s.run.wait(ctx, t.life, false)
		err = heal()
	}
	if err != nil {
		s.repair(t, err)
	}
	s.run.log.end(f)
}

// repair starts a server anew if a fault could not be made or healed.
func (s *scheduler) repair(t *target, err error) {
	s.run.results.failedInjection(t.kind.Name, err)
	if s.scope == OfFleet && t.kind.forgets {
		s.run.fail(err) // a server is missing
	}
	if s.scope != OfNode {
		return
	}
	f := &fault{kind: repairKind, node: t.node, slot: -1}
	s.run.log.begin(f, s.run.limiter.quorum, s.run.limiter.nodes)
	defer s.run.log.end(f)
	if err := t.restart(); err != nil {
		s.run.fail(err)
	}
}

// repairKind is never drawn. A node that is repaired forgets.
var repairKind = &Kind{
	Name: "repair", About: "a server that a fault could not be healed on is started anew", Scope: OfNode, forgets: true,
}

// target draws a victim.
func (s *scheduler) target(k *Kind) *target {
	r := s.run
	t := &target{
		kind: k, random: s.random, life: k.lifetime(s.random), fleet: r.fleet, processes: r.processes, node: s.node, slot: s.slot,
	}
	switch s.scope {
	case OfLink:
		t.node = s.random.IntN(len(r.fleet.servers))
		t.proxy = r.processes.proxies[s.slot][t.node]
	case OfProcess:
		t.slot = s.random.IntN(r.options.Processes)
		if k.Name == killKind {
			t.slot = victimSlot(r.options.Processes)
		}
		if t.life == pastValidity {
			t.life = r.options.MaxTTL + 300*time.Millisecond
		}
		return t
	case OfFleet:
		return t
	}
	t.server, t.side = r.fleet.servers[t.node], r.fleet.sides[t.node]
	return t
}

// Only the processes of one slot are killed, so that the others live long
// enough for their memory to be judged.
const killKind = "client-kill-9"

func victimSlot(processes int) int { return min(byTCP, processes-1) }

// storms lets a majority of the nodes fail at once, for a short time now and
// then.
func (r *run) storms(ctx context.Context, random *rand.Rand) {
	for {
		if !r.wait(ctx, r.options.StormEvery/2+time.Duration(random.Int64N(int64(r.options.StormEvery))), false) {
			return
		}
		r.limiter.setStorm(true)
		r.hurry.Store(true)
		r.wait(ctx, 300*time.Millisecond+time.Duration(random.Int64N(int64(700*time.Millisecond))), false)
		r.hurry.Store(false)
		r.limiter.setStorm(false)
	}
}

// wait waits for d. It reports false if ctx has ended. If mayHurry is set, a
// storm ends the wait.
func (r *run) wait(ctx context.Context, d time.Duration, mayHurry bool) bool {
	const step = 10 * time.Millisecond
	for d > 0 {
		if mayHurry && r.hurry.Load() {
			return ctx.Err() == nil
		}
		part := d
		if mayHurry {
			part = min(d, step)
		}
		timer := time.NewTimer(part)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		d -= part
	}
	return ctx.Err() == nil
}

// A deck is the kinds of one scope, shuffled, each as often as it weighs. The
// first deck has each kind once, so that a short run has all of them.
type deck struct {
	mu     sync.Mutex // guards the following
	random *rand.Rand
	kinds  []*Kind
	left   []*Kind
	leave  []*Kind // those that leave something behind
	dealt  bool    // the first deck was dealt
}

func newDeck(kinds []*Kind, scope Scope, seed uint64) *deck {
	d := &deck{random: rand.New(rand.NewPCG(seed, uint64(len(scope))))}
	for _, k := range kinds {
		if k.Scope == scope {
			d.kinds = append(d.kinds, k)
			if k.leaves {
				d.leave = append(d.leave, k)
			}
		}
	}
	return d
}

// drawLast draws for the time right before a rest, whatever is left in the
// deck. It returns nil if no kind leaves anything behind.
func (d *deck) drawLast() *Kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leave) == 0 || !d.dealt {
		return nil
	}
	return d.leave[d.random.IntN(len(d.leave))]
}

// draw takes a kind that is allowed now, or returns nil.
func (d *deck) draw(allowed func(*Kind) bool) *Kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 {
		d.dealLocked()
	}
	i := slices.IndexFunc(d.left, allowed)
	if i < 0 {
		return nil
	}
	k := d.left[i]
	d.left = slices.Delete(d.left, i, i+1)
	return k
}

func (d *deck) dealLocked() {
	for _, k := range d.kinds {
		times := k.weight
		if !d.dealt {
			times = 1
		}
		d.left = append(d.left, slices.Repeat([]*Kind{k}, times)...)
	}
	d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	if !d.dealt { // the rare ones first, and before all the one that may not be made at any time
		slices.SortStableFunc(d.left, func(a, b *Kind) int { return a.urgency() - b.urgency() })
	}
	d.dealt = true
}

// urgency is the order of the first deck.
func (k *Kind) urgency() int {
	if k.Name == killKind {
		return 0
	}
	return k.weight
}

// A limiter decides when a fault may begin. It keeps a quorum of the nodes
// healthy, but for storms, and lets no fault begin while the load rests.
type limiter struct {
	nodes, quorum int
	recovery      time.Duration // how long a node that forgot does not count (R23)

	mu      sync.Mutex // guards the following
	changed sync.Cond
	closed  bool
	alone   int  // faults of all nodes that are at work, or wait for the others to end
	storm   bool // a majority may be faulty
	faulty  int  // nodes
	links   int  // faults of links and processes
	forgot  time.Time
}

func newLimiter(nodes int, maxTTL time.Duration) *limiter {
	l := &limiter{nodes: nodes, quorum: nodes/2 + 1, recovery: maxTTL + maxTTL/50 + 200*time.Millisecond}
	l.changed.L = &l.mu
	return l
}

// allowed reports whether a kind may be drawn. A node that forgot does not
// count for long, so outside storms only one does so at a time.
func (l *limiter) allowed(k *Kind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !k.forgets || l.storm || time.Since(l.forgot) > l.recovery
}

// enter waits until a fault may begin. It reports false if ctx has ended.
func (l *limiter) enter(ctx context.Context, k *Kind) bool {
	defer context.AfterFunc(ctx, func() { l.change(func() {}) })()
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.Scope == OfFleet {
		l.alone++
	}
	for ctx.Err() == nil && !l.mayBeginLocked(k) {
		l.changed.Wait()
	}
	if ctx.Err() != nil {
		if k.Scope == OfFleet {
			l.alone--
		}
		return false
	}
	l.countLocked(k, 1)
	if k.forgets {
		l.forgot = time.Now()
	}
	return true
}

func (l *limiter) mayBeginLocked(k *Kind) bool {
	switch {
	case l.closed:
		return false
	case k.Scope == OfFleet:
		return l.faulty+l.links == 0
	case k.Scope == OfNode && l.faulty >= l.mostLocked():
		return false
	}
	return l.alone == 0
}

// mostLocked returns how many nodes may be faulty at once. A single node may
// be: then nothing is granted.
func (l *limiter) mostLocked() int {
	if l.storm {
		return l.nodes
	}
	return max(l.nodes-l.quorum, 1)
}

func (l *limiter) countLocked(k *Kind, by int) {
	switch k.Scope {
	case OfNode:
		l.faulty += by
	case OfFleet:
		l.faulty += by * l.nodes
	default:
		l.links += by
	}
}

// leave ends what enter began.
func (l *limiter) leave(k *Kind) {
	l.change(func() {
		l.countLocked(k, -1)
		if k.Scope == OfFleet {
			l.alone--
		}
	})
}

func (l *limiter) setStorm(on bool) { l.change(func() { l.storm = on }) }

// open lets faults begin again.
func (l *limiter) open() { l.change(func() { l.closed = false }) }

// change wakes the waiters.
func (l *limiter) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
	l.changed.Broadcast()
}

// close lets no fault begin, and waits until all are over.
func (l *limiter) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.faulty+l.links > 0 {
		l.changed.Wait()
	}
}

// A faultLog knows which faults are at work, how many there were, and when
// nodes forgot their keys.
type faultLog struct {
	counts *counters // of the run

	mu         sync.Mutex // guards the following
	active     []*fault
	made       map[string]int // by kind
	forgetting []span         // in order of their beginnings, the latest last
	mostAtOnce int            // nodes that were faulty at one moment
}

// A fault is one that is at work.
type fault struct {
	kind *Kind
	node int // -1 for a process's
	slot int // of the process; -1 for a node's
	from int64
}

// span is a time on the system's monotonic clock. It is open while to is 0.
type span struct{ from, to int64 }

// spansKept bounds the memory of when nodes forgot; nothing is asked about
// times that are as many restarts ago.
const spansKept = 4096

// begin is called before a fault begins.
func (l *faultLog) begin(f *fault, quorum, nodes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.from = history.Monotonic()
	l.active = append(l.active, f)
	if l.made == nil {
		l.made = make(map[string]int)
	}
	l.made[f.kind.Name]++
	if f.kind.forgets {
		l.forgetting = append(l.forgetting, span{from: f.from})
		if len(l.forgetting) > spansKept {
			l.forgetting = l.forgetting[1:]
		}
	}
	if n := l.faultyNodes(); n > l.mostAtOnce || n > nodes-quorum && f.node >= 0 {
		l.mostAtOnce = max(n, l.mostAtOnce)
		if n == nodes-quorum+1 && f.node >= 0 {
			l.counts.count(Majorities)
		}
	}
}

// end is called when it is over.
func (l *faultLog) end(f *fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = slices.DeleteFunc(l.active, func(a *fault) bool { return a == f })
	t := history.Monotonic()
	if f.kind.forgets {
		for i := range l.forgetting {
			if l.forgetting[i].from == f.from {
				l.forgetting[i].to = t
			}
		}
	}
}

// faultyNodes counts the servers that something is wrong with. The caller holds
// the mutex.
func (l *faultLog) faultyNodes() int {
	nodes := make(map[int]bool)
	for _, f := range l.active {
		if f.kind.Scope == OfNode {
			nodes[f.node] = true
		}
	}
	return len(nodes)
}

// forgot reports whether some node lost its keys at a time that touches the
// given one.
func (l *faultLog) forgot(from, to int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.forgetting, func(s span) bool { return s.from <= to && (s.to == 0 || s.to >= from) })
}
