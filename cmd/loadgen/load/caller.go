package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redmux/redmux/bench"
	records "github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// A System is an implementation under load: see [Drive].
type System interface {
	// drive runs the phase's callers until it ends.
	drive(p *phase, d time.Duration) *totals
	// nodes returns what the implementation knows about its nodes, or nil if it
	// reports nothing. It may be called while the callers work.
	nodes() []redlock.NodeStatus
	close(ctx context.Context) error
	// join adds the client of another System of the same implementation.
	join(other System)
}

// Drive returns a System whose callers use the locker. It is generic so that a
// lease which is a plain value is never put into an interface, which would
// allocate.
func Drive[L bench.Lease](locker bench.Locker[L]) System {
	return &driver[L]{lockers: []bench.Locker[L]{locker}}
}

// driver has one locker, or several that divide the callers among them.
type driver[L bench.Lease] struct{ lockers []bench.Locker[L] }

func (d *driver[L]) join(other System) {
	d.lockers = append(d.lockers, other.(*driver[L]).lockers...)
}

func (d *driver[L]) close(ctx context.Context) error {
	errs := make([]error, len(d.lockers))
	var closing sync.WaitGroup
	for i, l := range d.lockers {
		closing.Go(func() { errs[i] = l.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

func (d *driver[L]) nodes() []redlock.NodeStatus {
	if l, ok := any(d.lockers[0]).(interface{ Nodes() []redlock.NodeStatus }); ok {
		return l.Nodes()
	}
	return nil
}

// drive prepares every caller and only then starts the clock and the counting
// of allocations, so that the preparation is not measured.
func (d *driver[L]) drive(p *phase, length time.Duration) *totals {
	callers := make([]*caller[L], p.flags.Clients)
	for i := range callers {
		callers[i] = newCaller(d.lockers[i%len(d.lockers)], p, i)
	}
	var working sync.WaitGroup
	gate := make(chan struct{})
	for _, c := range callers {
		working.Go(func() {
			<-gate
			c.work()
		})
	}
	p.begin(length)
	close(gate)
	working.Wait()
	p.end()

	// Only now may another goroutine read the callers' figures.
	sum := newTotals()
	for _, c := range callers {
		sum.merge(&c.totals)
		p.attempts[c.id] = c.attempts
	}
	return sum
}

// totals is what one caller has seen, or all together.
type totals struct {
	outcomes          tally
	late              int64   // attempts of an open loop that started later than lateness
	cut               int64   // attempts that the end of the phase cut short
	acquired, release latency // of grants; of successful releases
	causes            causes
}

func newTotals() *totals {
	return &totals{acquired: newLatency(), release: newLatency(), causes: causes{}}
}

// merge adds the totals of another caller.
func (t *totals) merge(from *totals) {
	for i, n := range from.outcomes {
		t.outcomes[i] += n
	}
	t.late += from.late
	t.cut += from.cut
	t.acquired.Merge(from.acquired.Histogram)
	t.release.Merge(from.release.Histogram)
	for cause, n := range from.causes {
		t.causes.count(cause, n)
	}
}

// caller acquires and releases: in a closed loop again and again, in an open
// loop when the pacer says so. It is owned by its goroutine.
type caller[L bench.Lease] struct {
	totals
	*phase
	locker   bench.Locker[L]
	id       int
	ctx      context.Context // parent of the attempts' contexts
	cancel   context.CancelFunc
	random   *rand.Rand
	choose   func() int // among shared resources; nil if each caller has its own
	picked   []int      // the resources of this attempt
	names    []string   // of these
	reads    bool       // of rw: this attempt is for a reader
	form     records.Form
	recent   *shard      // for the sampler, which reads it during the phase
	sleeper  *time.Timer // one for all sleeps; stopped between them
	attempts int64       // the number of the latest attempt, counted from the session's start
	line     []byte      // of the history
	quorum   int         // of nodes that have a caller in a queue

	semaphores map[int]redlock.Locker // by resource
}

func newCaller[L bench.Lease](locker bench.Locker[L], p *phase, id int) *caller[L] {
	c := &caller[L]{
		totals:   *newTotals(),
		phase:    p,
		locker:   locker,
		id:       id,
		random:   rand.New(rand.NewPCG(p.flags.Seed, uint64(id))),
		sleeper:  time.NewTimer(time.Hour),
		attempts: p.attempts[id],

		semaphores: make(map[int]redlock.Locker),
	}
	c.sleeper.Stop()
	c.recent = p.recent.of(id)
	if p.flags.Keys > 0 {
		c.choose = p.flags.Dist.chooser(c.random, p.flags.Keys)
	}
	// A cancellable context of its own, as a request has: callers would contend
	// for a shared one.
	c.ctx, c.cancel = context.WithCancel(p.waits)
	if nodes, ok := any(locker).(interface{ Nodes() []redlock.NodeStatus }); ok && c.flags.Kind.fair && c.history != nil {
		c.quorum = len(nodes.Nodes())/2 + 1
		c.ctx = context.WithValue(c.ctx, askedKey{}, c.asked)
	}
	return c
}

// work makes attempts until the phase is over.
func (c *caller[L]) work() {
	defer c.cancel()
	for c.next() {
		due, ok := c.due()
		if !ok || !c.attempt(due) {
			c.giveBack()
		}
	}
}

// lateness is how late an attempt of an open loop may start without being
// counted as late: more than the error of a sleep.
const lateness = time.Millisecond

// due waits for the intended start of the next attempt, which in a closed loop
// is now. It returns false if the phase ends before.
func (c *caller[L]) due() (time.Duration, bool) {
	if c.pacer == nil {
		return c.clock.now(), true
	}
	return c.pacer.next()
}

// attempt acquires and, if that succeeds, holds and releases. Latency counts
// from due, the intended start.
func (c *caller[L]) attempt(due time.Duration) (ok bool) {
	c.pick()
	c.attempts++
	start := due
	if c.pacer != nil {
		if start = c.clock.now(); start-due > lateness {
			c.late++
		}
	}
	c.note(start, evStart)
	c.busy(true)
	lease, err := c.acquire()
	done := c.clock.now() // first of all: what follows is not the lock's time
	c.busy(false)
	if err != nil {
		c.refused(done, err)
		return false
	}
	c.outcomes[granted]++
	c.acquired.record(done - due)
	c.recent.add(granted, done-due)
	until := c.clock.at(lease.Until())
	c.noteLease(done, evGrant, lease, until)

	c.report(evGrant, until)
	c.sleep(c.flags.Hold.next(c.random))
	c.report(evRelease, until) // before it is sent: from then on another may rightly have the lock
	c.giveUp(lease, until)
	return true
}

// acquire makes one attempt: a single try, or, with --wait, tries until that
// time is over. Only flags that need a context of the attempt's own pay for
// one. A wait ends by a deadline and --cancel-after by a cancellation, so that
// judge can tell a resource that stayed held from a caller that gave up.
func (c *caller[L]) acquire() (L, error) {
	f := c.flags
	if f.Wait == 0 && f.CancelAfter == 0 {
		return c.once(c.ctx)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	if f.CancelAfter > 0 {
		defer time.AfterFunc(f.CancelAfter, cancel).Stop()
	}
	if f.Wait == 0 {
		return c.once(ctx)
	}
	ctx, end := context.WithTimeout(ctx, f.Wait)
	defer end()
	return c.again(ctx)
}

// failurePause keeps callers from spinning if an attempt fails before anything
// is sent, as with too few nodes up.
const failurePause = time.Millisecond

// refused records an attempt that was not granted. The history gets its line in
// any case, so that each start has an end.
func (c *caller[L]) refused(at time.Duration, err error) {
	o := judge(err)
	c.note(at, outcomeEvents[o])
	if c.waits.Err() != nil {
		// The end of the phase cut the attempt short, so it has no outcome. But
		// a missing quorum is recorded: otherwise a run that is shorter than
		// --wait would hide nodes that are down.
		c.cut++
		if errors.Is(err, redlock.ErrNoQuorum) {
			c.causes.count(cutWithoutQuorum, 1)
		}
		return
	}
	c.outcomes[o]++
	c.recent.add(o, 0)
	if o == noQuorum || o == failed {
		c.causes.add(err)
		if c.pacer == nil {
			c.sleep(failurePause) // an open loop has its own pace
		}
	}
}

// giveUp releases the lock. The end of the phase does not interrupt it: the key
// would stay until its TTL ends. A pair counts once the release has succeeded,
// so a lock that was lost while it was held is a grant without a pair.
func (c *caller[L]) giveUp(lease L, until time.Duration) {
	start := c.clock.now()
	c.noteLease(start, evRelease, lease, until)
	c.busy(true)
	err := lease.Release(context.Background())
	done := c.clock.now()
	c.busy(false)
	switch {
	case err == nil:
		c.release.record(done - start)
		c.callers[c.id].pairs.Add(1)
		c.noteLease(done, evReleased, lease, until)
	case errors.Is(err, redlock.ErrNotHeld):
		c.causes.count("lost before its release", 1)
		c.noteLease(done, evLost, lease, until)
	default:
		c.causes.add(err)
		c.noteLease(done, evError, lease, until)
	}
}

// busy records whether a call of this caller is in progress.
func (c *caller[L]) busy(yes bool) {
	n := int64(0)
	if yes {
		n = 1
	}
	c.callers[c.id].busy.Store(n)
}

// sleep returns early if the phase is halted.
func (c *caller[L]) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	c.sleeper.Reset(d)
	select {
	case <-c.sleeper.C:
	case <-c.quit:
		c.sleeper.Stop()
	}
}

// note and noteLease write to the history, if there is one. The line is built
// in the caller's buffer, so that only the writing happens under a lock. There
// are two methods because asking a lease for its token copies it, which costs
// nothing without a history.
func (c *caller[L]) note(at time.Duration, ev event) {
	if c.history == nil {
		return
	}
	c.write(entry{at: at, client: c.id, attempt: c.attempts, event: ev})
}

func (c *caller[L]) noteLease(at time.Duration, ev event, lease L, until time.Duration) {
	if c.history == nil {
		return
	}
	e := entry{at: at, client: c.id, attempt: c.attempts, event: ev, until: until}
	if !c.nameless() {
		token := lease.Token()
		e.token = &token
	}
	if fenced, ok := any(lease).(interface{ Fence() uint64 }); ok && ev == evGrant {
		e.fence = fenced.Fence()
	}
	c.write(e)
}

// write writes a line for each resource.
func (c *caller[L]) write(e entry) {
	e.form, e.permits = c.form, c.flags.Kind.permits
	for _, i := range c.picked {
		e.resource = c.resources[i]
		c.line = c.history.append(c.line[:0], e)
		c.history.write(c.line)
	}
}

// nameless reports whether this caller's lines have no token: every second one's,
// since a lock whose token was read is not handed over to another caller.
func (c *caller[L]) nameless() bool { return c.id%2 == 1 }
