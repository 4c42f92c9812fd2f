package redlock

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A keeper manages all holds of a client with one goroutine and one timer: it
// renews them, ends their contexts in time, and reads all clocks as long as
// anything is held (R13). The goroutine starts with the first hold, and Close
// ends it. It waits only for mutexes held for moments. Renewals are posted, and
// their outcomes arrive in an inbox: no node, network or caller can delay the
// end of a context.
//
// Times are on the keeper's own, monotonic clock. pure.Renewal decides what a
// hold does and when.
type keeper struct {
	client *Client
	clock  func() instant // changed only by tests, before the first hold
	begun  instant        // the zero of the keeper's clock
	addrs  []string       // of the nodes, for errors

	inbox *multiplex.Outcomes
	wake  chan struct{} // holds one wake-up
	quit  quit

	// mu guards the following, and each hold's place. Nothing else is called
	// under it.
	mu sync.Mutex
	agenda
	stage
	held heldSet

	// The following are owned by the keeper's goroutine.
	scratch  scratch
	winding  winding
	failures failures
}

// An agenda is the schedule of looks at holds. The keeper's mutex guards it.
type agenda struct {
	schedule pure.Heap[*Hold]
	lead     lead
	armed    time.Duration // when the goroutine looks next
}

// A stage is the stage of the keeper's life. The keeper's mutex guards it.
type stage struct {
	started bool // the goroutine runs
	closing bool
	hurried bool // Close has no time to wait for answers
}

// A quit serves to end the goroutine and to wait for it.
type quit struct {
	stop chan struct{} // closed by halt
	once sync.Once
	wg   sync.WaitGroup
}

// The failures are those of renewals, from the first until one is granted.
type failures struct {
	going  bool
	last   time.Time
	warned time.Time // when they were last reported
}

// A scratch is what the keeper's goroutine needs each time that it looks. The
// goroutine owns it.
type scratch struct {
	timer    *time.Timer
	outcomes []multiplex.Outcome
	due      []*Hold // taken from the schedule, to be looked at
	room     []byte  // for commands
}

// A lead is how far the other clocks were ahead of the monotonic clock at the
// making of the schedule, or the least seen since.
type lead struct{ wall, slept time.Duration }

// gained reports whether another clock has run ahead since then. Then the
// schedule is wrong, and gained records the new lead.
func (l *lead) gained(wall, slept time.Duration) bool {
	if wall > l.wall+clockLeap || slept > l.slept+clockLeap {
		l.wall, l.slept = wall, slept
		return true
	}
	l.lower(wall, slept)
	return false
}

// lower records a lead smaller than the one before.
func (l *lead) lower(wall, slept time.Duration) {
	l.wall, l.slept = min(l.wall, wall), min(l.slept, slept)
}

const (
	// keeperBatch bounds the holds and outcomes between two readings of the
	// clock.
	keeperBatch = 512
	// failuresApart bounds how often failures are reported where some holds are
	// renewed and others are not.
	failuresApart = time.Second
	// failuresLast is how long after a failure another one is the same: the locks
	// may all have been lost or released since.
	failuresLast = time.Minute
	// releasesAtOnce bounds the pending releases of Close.
	releasesAtOnce = 1024
	// clockLeap is how far another clock may run ahead of the monotonic one
	// before all holds are checked. It is less than any margin, and more than
	// the usual difference of two clocks read one after the other.
	clockLeap = 500 * time.Microsecond
)

func newKeeper(c *Client) *keeper {
	k := &keeper{
		client:  c,
		clock:   readClocks,
		begun:   readClocks(),
		inbox:   multiplex.NewOutcomes(),
		wake:    make(chan struct{}, 1),
		quit:    quit{stop: make(chan struct{})},
		agenda:  agenda{armed: pure.Never},
		held:    heldSet{drained: make(chan struct{})},
		winding: winding{queued: make(chan struct{}), done: make(chan struct{})},
	}
	for _, n := range c.group.Nodes() {
		k.addrs = append(k.addrs, n.Addr)
	}
	return k
}

// keep adds a hold. It returns false during Close or Drain.
func (k *keeper) keep(h *Hold) bool {
	now := k.clock()
	at := k.timeOf(h.renewal.Alarm(), h.granted, now)
	outer := k.client.outer(h.inner)
	k.mu.Lock()
	defer k.mu.Unlock()
	// Drain waits for an outer hold's release, and so it waits for this hold
	// too.
	if k.closing || k.held.draining && (outer == nil || outer.hold.slot == unplaced) {
		return false
	}
	k.held.add(h)
	if !k.started {
		k.started = true
		k.quit.wg.Go(k.run)
	}
	k.lead.lower(now.ahead(k.begun))
	k.schedule.Put(h, &h.place, at)
	if at < k.armed {
		k.nudge()
	}
	return true
}

// forget removes a hold from the schedule for good.
func (k *keeper) forget(h *Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.gone = true
	k.schedule.Remove(&h.place)
}

func (k *keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// timeOf returns the time of a hold's age on the keeper's clock, unless another
// clock runs ahead.
func (k *keeper) timeOf(age time.Duration, granted, now instant) time.Duration {
	if age == pure.Never {
		return pure.Never
	}
	return k.time(now) + age - now.since(granted)
}

func (k *keeper) time(now instant) time.Duration { return now.at.Sub(k.begun.at) }

// run is the keeper's goroutine.
func (k *keeper) run() {
	k.scratch = scratch{
		timer:    time.NewTimer(pure.LookMost),
		outcomes: make([]multiplex.Outcome, 0, keeperBatch),
		due:      make([]*Hold, 0, keeperBatch),
		room:     make([]byte, 0, 512),
	}
	defer k.scratch.timer.Stop()
	for {
		select {
		case <-k.scratch.timer.C:
		case <-k.wake:
		case <-k.inbox.Ready():
		case <-k.quit.stop:
			// The group is closed, so no more outcomes arrive.
			for k.settle() {
			}
			return
		}
		for k.turn() {
		}
	}
}

// turn processes some outcomes and some due holds. It reports whether there are
// more.
func (k *keeper) turn() (more bool) {
	k.settle()
	now := k.clock()
	k.mu.Lock()
	closing, hurried := k.closing, k.hurried
	k.scratch.due = k.scratch.due[:0:keeperBatch]
	if closing || k.lead.gained(now.ahead(k.begun)) {
		k.scratch.due = k.schedule.TakeAll(k.scratch.due)
	} else if _, first := k.schedule.First(); first <= k.time(now) {
		k.scratch.due = k.schedule.Take(k.scratch.due, k.time(now)+pure.WindowMost)
	}
	k.mu.Unlock()
	if closing {
		k.closeAll()
		if hurried {
			k.releaseUpTo(math.MaxInt)
		}
		return false
	}
	posted := false
	for _, h := range k.scratch.due {
		posted = k.look(h, now) || posted
	}
	if posted {
		k.client.group.Flush()
	}
	return k.rearm(now)
}

// look does what is due for one hold. It reports whether it posted a renewal.
func (k *keeper) look(h *Hold, now instant) (posted bool) {
	h.mu.Lock()
	act := h.stepLocked(pure.OnLook, now, 0)
	if act == pure.ToRenew {
		h.said.CompareAndSwap(nil, underWay)
		if err := h.renewLocked(now, k.scratch.room[:0], k.inbox); err != nil {
			h.said.Store(&account{err: err})
			k.client.stats.extensions.count(translate(err, ErrNotHeld))
			k.fails(h, now)
			act = h.stepLocked(pure.OnFailure, now, rand.Float64())
		} else {
			posted = true
		}
	}
	h.mu.Unlock()
	k.act(h, act)
	return posted
}

// fails reports a failed renewal, with some time left to do something about it:
// once, since what fails for one hold fails for all. The caller must hold h.mu.
func (k *keeper) fails(h *Hold, now instant) {
	again := k.failures.going && now.at.Sub(k.failures.last) < failuresLast
	k.failures.going, k.failures.last = true, now.at
	if again || now.at.Sub(k.failures.warned) < failuresApart {
		return
	}
	k.failures.warned = now.at
	left := h.ends.remaining(k.begun, now)
	if said := h.said.Load(); said != nil && left > 0 {
		k.client.renewalFailed(left, HoldInfo{
			Resource: h.lock.grant.Name, Since: h.begun.at, Until: now.at.Add(left), Err: translate(said.err, ErrNotHeld),
		})
	}
}

// act ends a hold's context at the word of its renewal.
func (k *keeper) act(h *Hold, act pure.RenewalAction) {
	switch act {
	case pure.ToLose:
		h.lose(false)
	case pure.ToStopShort:
		h.cancel(ErrMaxHold)
	}
}

// rearm puts the holds of the turn back into the schedule, and sets the timer.
// It reports whether a hold is due already.
func (k *keeper) rearm(now instant) (more bool) {
	for _, h := range k.scratch.due {
		k.replace(h, now)
	}
	clear(k.scratch.due)
	k.mu.Lock()
	defer k.mu.Unlock()
	_, first := k.schedule.First()
	if first == pure.Never {
		k.armed = pure.Never
		k.scratch.timer.Stop()
		return false
	}
	at := k.time(k.clock())
	k.armed = min(first, at+pure.LookMost)
	if first <= at {
		return true
	}
	k.scratch.timer.Reset(max(pure.Soon, k.armed-at))
	return false
}

// replace schedules a hold for its next time, or removes it without one.
func (k *keeper) replace(h *Hold, now instant) {
	h.mu.Lock()
	at := k.timeOf(h.renewal.Alarm(), h.granted, now)
	h.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case h.gone:
	case at == pure.Never:
		h.gone = true
		k.schedule.Remove(&h.place)
	default:
		k.schedule.Put(h, &h.place, at)
	}
}

// settle takes outcomes from the inbox, and reports whether there were any. It
// reads the clock after they are complete: a renewal counts only if complete
// before the end of the old validity (R10).
func (k *keeper) settle() bool {
	k.scratch.outcomes = k.inbox.Take(k.scratch.outcomes[:0])
	if len(k.scratch.outcomes) == 0 {
		return false
	}
	now := k.clock()
	for i, o := range k.scratch.outcomes {
		if h, ok := o.Tag.(*Hold); ok {
			k.settleOne(h, &o, now)
		} else {
			k.released(o.Err)
		}
		k.scratch.outcomes[i] = multiplex.Outcome{}
	}
	return true
}

// settleOne feeds the outcome of a renewal to its hold.
func (k *keeper) settleOne(h *Hold, o *multiplex.Outcome, now instant) {
	event := pure.OnGrant
	if o.Err != nil {
		h.said.Store(&account{err: o.Err, answers: o.Answers})
		event = pure.OnFailure
		if o.Err == multiplex.ErrRefused {
			event = pure.OnRefusal
		}
	}
	said := translate(o.Err, ErrNotHeld)
	h.mu.Lock()
	if said == nil && now.since(h.granted) >= h.renewal.Validity {
		said = ErrExpired
	}
	h.lock.grant.Receipt.Doubted = pure.DoubtGranted(h.lock.grant.Receipt.Doubted, h.unsure, o.Granted)
	was := h.lock.until
	act := h.stepLocked(event, now, rand.Float64())
	switch {
	case act == pure.ToProlong:
		h.lock.votedBy(o.Granted, was)
		k.failures.going = false
	case event == pure.OnFailure && act == pure.CarryOn:
		k.fails(h, now)
	}
	h.mu.Unlock()
	k.client.stats.extensions.count(said)
	if act == pure.ToLose {
		h.lose(event == pure.OnRefusal)
	}
	if act != pure.ToDrop {
		k.replace(h, now)
	}
}

// renewLocked posts a renewal, begun at the given instant. room is for the
// command. The caller must hold h.mu: no renewal may be queued behind the
// release.
func (h *Hold) renewLocked(begun instant, room []byte, inbox *multiplex.Outcomes) error {
	c := h.client
	h.asked = begun
	command := multiplex.Command{
		TTL:     h.lock.grant.TTL,
		Receipt: h.lock.grant.Receipt, // see multiplex.Receipt.Doubted (R23)
		Ends:    begun.at.Add(h.ends.remaining(h.client.keeper.begun, begun)),
	}
	extend := h.lock.kind.Extend
	if h.options.Heal {
		extend = c.kinds.Heal
	}
	g := &h.lock.grant
	kind, encoded := extend(g, room, g.TTL, h.lock.promised(g.TTL))
	command.Encoded = encoded
	// No caller waits for it, so a vote may take until the end of the old
	// validity. Later it would not count (R6, R10).
	left := h.ends.remaining(c.keeper.begun, begun)
	posting := multiplex.Posting{Inbox: inbox, Tag: h, Patience: max(0, left)}
	receipt, err := c.group.PostExtension(kind, &command, posting)
	known := &h.lock.grant.Receipt
	known.Doubted, h.unsure = pure.DoubtRenewal(known.Doubted, receipt.Sent, receipt.Doubted, h.options.Heal)
	if h.options.Heal {
		// After any outcome, these nodes may hold the key now. Receipt.Pos
		// stays the SET's. So a release is still repeated where an older
		// connection may execute that (R8).
		known.Sent |= receipt.Sent
	}
	return err
}
