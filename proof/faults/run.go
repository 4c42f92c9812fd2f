package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/proof/history"
)

// Options are the options of Run. The zero value works.
type Options struct {
	// For is how long faults are injected. If zero, 2 minutes. A run goes on
	// for up to 2 minutes more while it lacks what it must have: see
	// Report.Idle.
	For time.Duration
	// Nodes is how many servers are started. If zero, 5.
	Nodes int
	// Server is the executable. If zero, what redistest finds.
	Server string
	// Processes is how many client processes there are. If zero, 4: one by unix
	// sockets, one by TCP, two through proxies.
	Processes int
	// Callers is how many callers the uncontended load has, over all processes.
	// If zero, 64.
	Callers int
	// Rate is how many faults begin in a second, at most. If zero, 16.
	Rate float64
	// MaxTTL is the clients' MaxTTL, and the TTL of most locks. If zero, 3 s.
	MaxTTL time.Duration
	// RestEvery is the time between two rests, in which orphans are looked for.
	// If zero, 15 s.
	RestEvery time.Duration
	// StormEvery is the mean time between two storms, in which a majority of
	// nodes may fail. If zero, 10 s.
	StormEvery time.Duration
	// Kinds are the names of the kinds to inject. If nil, all.
	Kinds []string
	// Seed drives what is drawn; what comes of it depends on the machine. If
	// zero, a random one.
	Seed uint64
	// Soak checks the slopes of the processes' memory, goroutines and
	// descriptors.
	Soak bool
	// History gets the events of the contended resources, as lines, unless it
	// is nil.
	History io.Writer
	// Log gets the errors that processes report, and Progress is called each
	// second, unless they are nil. Never are two of these calls made at once.
	Log      io.Writer
	Progress func(*Report)
	// Command starts a client process: it must call WorkerMain. If nil, this
	// program.
	Command []string
	// Broken breaks the clients in a way that must be found: see the function
	// Broken.
	Broken string

	log *oneAtATime

	// wants makes the run go on after For until it returns true, for mostMore
	// at most: a busy machine may need more time. If nil, until it is not idle.
	wants func(*Report) bool
}

// mostMore bounds how long a run goes on after For.
const mostMore = 2 * time.Minute

// oneAtATime is a writer that several processes share.
type oneAtATime struct {
	mu sync.Mutex // guards the following
	to io.Writer
}

// Write waits for the other writers.
func (w *oneAtATime) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

func (o *Options) complete() error {
	o.For = cmp.Or(o.For, 2*time.Minute)
	o.Nodes = cmp.Or(o.Nodes, 5)
	o.Processes = cmp.Or(o.Processes, ways)
	o.Callers = cmp.Or(o.Callers, 64)
	o.Rate = cmp.Or(o.Rate, 16)
	o.MaxTTL = cmp.Or(o.MaxTTL, 3*time.Second)
	o.RestEvery = cmp.Or(o.RestEvery, 15*time.Second)
	o.StormEvery = cmp.Or(o.StormEvery, 10*time.Second)
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) // short enough to be typed
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.log = &oneAtATime{to: o.Log}
	if o.wants == nil {
		// Clients that are wrong on purpose may never do some of it.
		o.wants = func(r *Report) bool { return len(r.Idle()) == 0 || o.Broken != "" }
	}
	switch {
	case o.Nodes < 1 || o.Nodes > 16:
		return fmt.Errorf("faults: 1 to 16 nodes, not %d", o.Nodes)
	case o.Processes < 1 || o.Processes > 64:
		return fmt.Errorf("faults: 1 to 64 processes, not %d", o.Processes)
	case o.Callers < 1 || o.Rate < 0 || o.For < 0:
		return errors.New("faults: a number is too small")
	case o.MaxTTL < time.Second:
		return errors.New("faults: MaxTTL must be at least a second")
	}
	return nil
}

// A run is one call of Run.
type run struct {
	options   Options
	kinds     []*Kind
	fleet     *fleet
	processes *processes
	judge     *judge
	log       *faultLog
	limiter   *limiter
	results   *results
	hurry     atomic.Bool // a storm: the next faults come at once
	round     int         // of rests; owned by inject

	mu       sync.Mutex // guards the following
	nextRest time.Time
	ends     time.Time // when the last rest is due
	killed   time.Time // the last client that was killed
	failure  error
	trends   []Trend // of processes that have ended
	peaks    Sample
	servers  []string
	cancel   context.CancelFunc
}

// Run makes a run and returns its report, also if the run failed or ctx ended
// it early, which is no error. When it returns, servers, processes and files
// are gone.
func Run(ctx context.Context, options Options) (*Report, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	kinds, err := chosen(options.Kinds)
	if err != nil {
		return nil, err
	}
	r := &run{options: options, kinds: kinds, results: newResults()}
	r.limiter = newLimiter(options.Nodes, options.MaxTTL)
	r.log = &faultLog{counts: &r.results.counters}
	r.judge = &judge{log: r.log, counts: &r.results.counters, locks: history.Locks{Patience: time.Second}}
	if options.History != nil {
		r.judge.history = history.NewWriter(options.History)
	}
	if r.fleet, err = newFleet(&r.options); err != nil {
		return nil, err
	}
	r.servers = r.fleet.describe()
	if r.processes, err = newProcesses(r); err != nil {
		return nil, errors.Join(err, r.fleet.close())
	}
	begun := time.Now()
	r.inject(ctx)
	took := time.Since(begun)
	err = errors.Join(r.processes.close(), r.fleet.close(), r.judge.close())
	report := r.report(took)
	r.mu.Lock() // what reads a process may fail until it is closed
	defer r.mu.Unlock()
	return report, errors.Join(r.failure, err)
}

// inject makes faults and rests. It returns when all faults are healed and the
// processes have ended.
func (r *run) inject(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	r.mu.Lock()
	r.cancel, r.ends = cancel, time.Now().Add(r.options.For)
	if r.failure != nil { // from before there was a cancel
		cancel()
	}
	r.mu.Unlock()
	var working sync.WaitGroup
	working.Go(func() {
		r.untilEnough(ctx)
		cancel()
	})
	r.setNextRest()
	for _, s := range r.schedulers() {
		working.Go(func() { s.work(ctx) })
	}
	working.Go(func() { r.storms(ctx, rand.New(rand.NewPCG(r.options.Seed, 1<<32))) })
	working.Go(func() { r.progress(ctx) })
	working.Go(func() { r.operate(ctx) })
	own := make(chan []Sample, 1)
	go func() { own <- r.sampleOwn(ctx) }()
	for r.wait(ctx, r.untilRest(), false) {
		if err := r.rest(); err != nil {
			r.fail(err)
		}
		r.setNextRest()
	}
	working.Wait()
	r.retire("the parent", <-own, false)
	// An interrupted run is judged too.
	if err := r.rest(); err != nil {
		r.fail(err)
	}
	r.processes.stop(stopLooks)
}

// untilEnough returns when the run has lasted as long as it must.
func (r *run) untilEnough(ctx context.Context) {
	begun := time.Now()
	last := begun.Add(r.options.For + mostMore)
	for r.wait(ctx, r.untilEnd(), false) {
		if time.Now().After(last) || r.options.wants(r.report(time.Since(begun))) {
			return
		}
		r.mu.Lock()
		r.ends = time.Now().Add(r.options.RestEvery) // there is a rest at the end, which may be what it waits for
		r.mu.Unlock()
	}
}

func (r *run) untilEnd() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.ends)
}

// schedulers share out the rate.
func (r *run) schedulers() (all []*scheduler) {
	proxied := 0
	for _, p := range r.processes.proxies {
		if p != nil {
			proxied++
		}
	}
	add := func(scope Scope, sharers, node, slot int) {
		b := r.deckOf(scope)
		if len(b.kinds) == 0 || r.options.Rate == 0 {
			return
		}
		gap := time.Duration(float64(sharers) / (r.options.Rate * rates[scope]) * float64(time.Second))
		random := rand.New(rand.NewPCG(r.options.Seed, uint64(2+len(all))))
		all = append(all, &scheduler{run: r, deck: b, scope: scope, random: random, gap: gap, node: node, slot: slot})
	}
	for i := range r.options.Nodes {
		add(OfNode, r.options.Nodes, i, -1)
	}
	for slot, p := range r.processes.proxies {
		if p != nil {
			add(OfLink, proxied, -1, slot)
		}
	}
	add(OfProcess, 1, -1, -1)
	add(OfFleet, 1, -1, -1)
	for _, s := range all { // one deck for each scope
		for _, other := range all {
			if other.scope == s.scope {
				s.deck = other.deck
				break
			}
		}
	}
	return all
}

func (r *run) deckOf(scope Scope) *deck { return newDeck(r.kinds, scope, r.options.Seed) }

// setNextRest sets when the next rest is due. No client is killed shortly
// before it: what that leaves behind stays until its TTL ends.
func (r *run) setNextRest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nextRest = time.Now().Add(r.options.RestEvery)
	if r.ends.Before(r.nextRest) {
		r.nextRest = r.ends // the last one
	}
}

// untilRest is the time until the next rest.
func (r *run) untilRest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.nextRest)
}

// remains is how long keys of a killed client may stay, even on a node whose
// clock is slow.
func (r *run) remains() time.Duration {
	return r.options.MaxTTL + r.options.MaxTTL/50 + 500*time.Millisecond
}

// mayKill reports whether a kind may be made now: no client is killed shortly
// before a rest.
func (r *run) mayKill(k *Kind) bool {
	if k.Name != killKind {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.nextRest) >= r.remains()
}

// noteKilled records when a client was killed.
func (r *run) noteKilled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = time.Now()
}

func (r *run) killedLately() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.killed) < r.remains()
}

// fail ends the run because something is wrong with the run itself.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = errors.Join(r.failure, err)
	if r.cancel != nil {
		r.cancel()
	}
}

// order sends an order to all processes.
func (r *run) order(o order) {
	for _, p := range r.processes.all() {
		p.order(o)
	}
}

// progress reports figures each second.
func (r *run) progress(ctx context.Context) {
	if r.options.Progress == nil {
		return
	}
	begun := time.Now()
	for r.wait(ctx, time.Second, false) {
		report := r.report(time.Since(begun))
		r.options.log.mu.Lock()
		r.options.Progress(report)
		r.options.log.mu.Unlock()
	}
}

// sampleOwn takes samples of this process, which has the proxies and the
// histories.
func (r *run) sampleOwn(ctx context.Context) (samples []Sample) {
	for r.wait(ctx, 2*time.Second, false) {
		samples = append(samples, *takeSample(history.Monotonic(), false))
	}
	return samples
}
