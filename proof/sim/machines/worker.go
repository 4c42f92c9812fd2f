package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A worker is one caller in a process, which takes one lock after another and
// uses it. What redlock.Client does between a caller and a group is re-stated
// here: attempt, Acquire, Extend, Release.
type worker struct {
	process *process
	index   int
	turn    int    // counts its steps, so that an outdated timer does nothing
	letGo   func() // ends what it is doing, when the faults are over
}

// A wish is one call of Acquire or Hold.
type wish struct {
	resources  []int
	ttl        time.Duration
	tries      int
	triesMax   int
	hold       bool
	ends       time.Duration // when its context ends, on the process's clock
	slept      time.Duration // time suspended before it began
	renumbered bool          // this try makes its second round
	token      uint64        // for Broken
	form       *form
	asked      int           // rounds of this try, for a form
	done       func(l *lock) // instead of using the lock, which is nil if it was not granted
}

// A lock is a granted lock.
type lock struct {
	worker  *worker
	attempt *attempt
	ttl     time.Duration // the longest TTL that the keys were given
	until   instant
	receipt receipt
	under   *lock // the reader that became this writer, and stays
}

// left returns the validity as Lock.Validity does.
func (l *lock) left() time.Duration {
	return l.until.left(l.worker.process.clocks(), false)
}

func (k *worker) world() *world { return k.process.world }

// soon runs do when the caller is scheduled.
func (k *worker) soon(do func()) {
	delay := k.world().span(20 * us)
	if k.world().oneIn(10) {
		delay = k.world().span(k.world().plan.starved)
	}
	k.process.after(delay, do)
}

// then runs do later, unless the worker has moved on by then.
func (k *worker) then(d time.Duration, do func()) {
	k.turn++
	turn := k.turn
	k.process.after(d, func() {
		if k.turn == turn {
			do()
		}
	})
}

// rest is the pause between two wishes.
func (k *worker) rest() {
	k.letGo = nil
	if k.world().stopping {
		return
	}
	k.then(k.world().span(k.world().plan.think), k.begin)
}

func (k *worker) begin() {
	w, p := k.world(), k.process
	if w.stopping || p.closed {
		return
	}
	t := &wish{resources: k.wants(), ttl: w.plan.ttl, ends: pure.Never, slept: p.slept}
	if w.oneIn(3) {
		t.ttl = pure.WholeMilliseconds(w.plan.ttl/2 + w.span(w.plan.ttl/2))
	}
	t.hold = w.random.IntN(100) < w.plan.holds
	t.triesMax = 1 + w.random.IntN(5)
	if w.plan.greedy {
		t.triesMax = 30
	}
	k.shape(t)
	if w.random.IntN(100) < w.plan.cancels {
		t.ends = p.now() + w.span(4*w.plan.latency) + w.span(w.plan.latency)
		if w.oneIn(2) {
			t.ends += w.span(w.plan.ttl)
		}
	}
	k.try(t)
}

// wants draws what to lock.
func (k *worker) wants() []int {
	w := k.world()
	if w.plan.sets > 0 && w.random.IntN(100) < w.plan.sets {
		return w.random.Perm(w.plan.resources)[:2+w.random.IntN(w.plan.resources-1)]
	}
	return []int{w.random.IntN(w.plan.resources)}
}

// try is one attempt: Client.attempt in redlock.
func (k *worker) try(t *wish) {
	w, p := k.world(), k.process
	if w.stopping && t.done == nil || p.now() >= t.ends {
		k.giveUp(t)
		return
	}
	t.tries++
	t.asked = 0
	t.renumbered = false
	start := p.clocks() // before the first byte is queued (R4)
	if pure.Validity(t.ttl, 0, k.slack(t.ttl)) <= 0 {
		k.giveUp(t) // ErrTTL
		return
	}
	if w.oneIn(8) {
		k.soon(func() { k.send(t, start) })
		return
	}
	k.send(t, start)
}

// slack returns the drift of a TTL (R4).
func (k *worker) slack(ttl time.Duration) time.Duration {
	if k.world().broken.is(NoDrift) {
		return 0
	}
	return pure.Drift(ttl, drift)
}

func (k *worker) send(t *wish, start instant) {
	w, p := k.world(), k.process
	waits := w.broken.is(PartKept) && len(t.resources) > 1
	if t.token == 0 || !w.broken.is(TokenReused) && !waits {
		t.token = w.newToken() // new for each attempt (R3)
	}
	a := w.newAttempt(p, t.resources, t.token)
	a.form = k.formFor(t)
	if p.fenced {
		a.number = p.numbers.Next(p.clocks().at)
	}
	cmd := &command{op: set, attempt: a, ttl: t.ttl}
	a.asks = append(a.asks, cmd)
	var own receipt
	r, own := p.ask(cmd, t.ttl, receipt{}, 0, func(r *round) {
		decided := p.clocks()
		k.soon(func() {
			if w.broken.is(StartReadLate) {
				start = decided
			}
			k.decided(t, a, r, own, start)
		})
	})
	if r == nil {
		w.report.Count("no quorum at once", 1)
		a.over, a.ended = true, w.now
		t.tries += 3 // this will take a while
		k.then(w.plan.ttl/20, func() { k.again(t) })
		return
	}
	if t.ends != pure.Never {
		p.wake(t.ends, r.cancel)
	}
	r.late = func() { k.grantedLate(t, a, own, start) }
}

// decided is what the caller does after the decision, once it is scheduled.
func (k *worker) decided(t *wish, a *attempt, r *round, own receipt, start instant) {
	w, p := k.world(), k.process
	now := p.clocks()
	spent := pure.Elapsed(start.at, now.at)
	switch {
	case w.broken.is(ElapsedIgnored):
		start, spent = now, 0
	case w.broken.is(WallIgnored):
		spent = now.at.Sub(start.at)
	}
	switch {
	case r.cancelled:
		w.report.Count("cancelled", 1)
	case r.verdict == multiplex.Won && pure.Validity(t.ttl, spent, k.slack(t.ttl)) > 0:
		p.learn(spent)
		k.granted(t, a, own, start)
		return
	case r.verdict == multiplex.Won:
		w.report.Count("expired", 1)
	case r.verdict == multiplex.Lost:
		w.report.Count("held", 1)
		w.referee.stuck(a)
	default:
		w.report.Count("no quorum", 1)
	}
	k.undo(t, a, r, own)
	if r.verdict == multiplex.Lost && !r.cancelled && k.asksAgain(t, a, r) {
		k.send(t, p.clocks())
		return
	}
	k.again(t)
}

// asksAgain reports whether a refused try makes another round at once.
func (k *worker) asksAgain(t *wish, a *attempt, r *round) bool {
	p := k.process
	if t.form != nil {
		return k.formAsksAgain(t, r)
	}
	if !p.fenced || t.renumbered || !p.numbers.Outdated(a.number) {
		return false
	}
	t.renumbered = true
	k.world().report.Count("renumbered", 1)
	return true
}

// undo queues what an attempt without the lock leaves: a release for every
// node, detached from its caller (R7).
func (k *worker) undo(t *wish, a *attempt, r *round, own receipt) {
	w := k.world()
	a.over, a.ended = true, w.now
	w.referee.ended(a)
	switch {
	case w.broken.is(NoReleaseOnFailure), w.broken.is(PartKept) && len(t.resources) > 1,
		w.broken.is(ReleaseOnContext) && r.cancelled,
		w.broken.is(ReleaseOnlyIfGranted) && r.granted == 0:
		return
	}
	k.tell(a, t.ttl, own)
}

func (k *worker) tell(a *attempt, ttl time.Duration, of receipt) {
	k.process.ask(&command{op: release, attempt: a, ttl: ttl}, ttl, of, 0, nil)
}

// again retries after a random delay, or gives up (R11).
func (k *worker) again(t *wish) {
	if t.done != nil {
		t.done(nil)
		return
	}
	p := k.process
	if t.tries >= t.triesMax && !k.world().broken.is(PartKept) {
		k.giveUp(t)
		return
	}
	k.then(pure.RetryDelay(t.tries, p.quorumTime, 0, pure.RetryMost, p.jitter()), func() { k.try(t) })
}

// granted starts the use of a lock.
func (k *worker) granted(t *wish, a *attempt, own receipt, start instant) {
	w := k.world()
	l := &lock{worker: k, attempt: a, ttl: t.ttl, until: start.add(t.ttl - k.slack(t.ttl)), receipt: own}
	if w.broken.is(WallIgnored) {
		p := k.process
		end := p.now() + l.until.at.Sub(p.clocks().at)
		l.until = instant{timeOf(end, p.wall.at(w.now)+time.Hour), l.until.slept}
	}
	w.report.Count("grants", 1)
	k.formGranted(t, a)
	w.step("process %d worker %d: granted attempt %d", int64(k.process.index), int64(k.index), int64(a.index))
	if t.hold {
		k.hold(t, l, start)
		return
	}
	w.referee.granted(&claim{worker: k, attempt: a, holder: l})
	if t.done != nil {
		t.done(l)
		return
	}
	k.use(l)
}

// grantedLate is a planted bug: it takes a lock after its attempt was given up.
func (k *worker) grantedLate(t *wish, a *attempt, own receipt, start instant) {
	l := &lock{worker: k, attempt: a, ttl: t.ttl, until: start.add(t.ttl - k.slack(t.ttl)), receipt: own}
	if l.left() > 0 {
		k.world().referee.granted(&claim{worker: k, attempt: a, holder: l})
	}
}

// use works under a lock for a while, often until the very end. After that
// comes an extension, a release, or nothing.
func (k *worker) use(l *lock) {
	w := k.world()
	k.letGo = func() { k.release(l) }
	if w.stopping {
		k.letGo()
		return
	}
	left := max(l.left(), 0)
	d := w.span(left + left/4)
	switch w.random.IntN(4) {
	case 0:
		d = left
	case 1:
		d = w.span(5 * ms)
	}
	k.then(d, func() {
		if k.exchange(l) {
			return
		}
		switch n := w.random.IntN(20); {
		case n < 9:
			k.extend(l)
		case n < 17:
			k.release(l)
		default:
			k.abandon(l)
		}
	})
}

// abandon leaves the keys to their TTL, like a caller that crashed or forgot.
func (k *worker) abandon(l *lock) {
	l.attempt.kept = true
	if l.under != nil {
		l.under.attempt.kept = true
	}
	k.rest()
}

// giveBack ends a lock (R9): from then on others may hold it.
func (k *worker) giveBack(l *lock) {
	w := k.world()
	l.attempt.over, l.attempt.ended = true, w.now
	w.referee.gaveUp(l.attempt)
	w.referee.ended(l.attempt)
	k.tell(l.attempt, l.ttl, l.receipt)
	w.report.Count("releases", 1)
	k.formReleased(l)
}

func (k *worker) release(l *lock) {
	k.giveBack(l)
	if l.under != nil {
		k.use(l.under)
		return
	}
	k.rest()
}

// extend is Lock.Extend (R10).
func (k *worker) extend(l *lock) {
	w, p := k.world(), k.process
	start := p.clocks()
	ttl := w.plan.ttl
	if w.oneIn(3) {
		ttl = pure.WholeMilliseconds(w.plan.ttl/4 + w.span(w.plan.ttl/2))
	}
	if l.left() <= 0 && !w.broken.is(LateExtension) {
		k.use(l) // ErrNotHeld
		return
	}
	cmd := &command{op: extend, attempt: l.attempt, ttl: ttl}
	l.attempt.asks = append(l.attempt.asks, cmd)
	k.turn++
	turn := k.turn
	r, _ := p.ask(cmd, max(l.ttl, ttl), l.receipt, 0, func(r *round) {
		k.soon(func() {
			if k.turn == turn {
				k.extended(l, r, start, ttl)
			}
		})
	})
	if r == nil {
		k.use(l)
	}
}

func (k *worker) extended(l *lock, r *round, start instant, ttl time.Duration) {
	w := k.world()
	over := l.left() <= 0
	if r.verdict != multiplex.Won || over && !w.broken.is(LateExtension) {
		w.report.Count("extensions refused", 1)
		k.use(l)
		return
	}
	longer := *l
	longer.ttl = max(l.ttl, ttl)
	end := start.add(ttl - k.slack(ttl))
	longer.until = instant{pure.Later(l.until.at, end.at), end.slept}
	w.report.Count("extensions", 1)
	w.referee.extended(l.attempt, &longer, over)
	k.use(&longer)
}
