package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A hold is a lock that renews itself: what redlock's Hold and keeper do around
// pure.Renewal. Here each hold has its own timer; there, all holds share one.
type hold struct {
	lock
	heals   bool
	begun   instant
	granted instant // start of the attempt or renewal that the validity counts from
	asked   instant // start of the renewal in flight
	renewal pure.Renewal
	ends    instant // end of its validity, by three clocks
	over    bool    // its context has ended
	lost    bool
	armed   int
	unsure  multiplex.Set // nodes that the renewal in flight was the first to reach since their quarantine began
}

// left returns the validity as Hold.Validity does. It is zero once the context
// has ended, since the holder then no longer works.
func (h *hold) left() time.Duration {
	if h.over {
		return 0
	}
	return h.ends.left(h.worker.process.clocks(), true)
}

// hold keeps a granted lock.
func (k *worker) hold(t *wish, l *lock, start instant) {
	w := k.world()
	h := &hold{lock: *l, heals: w.oneIn(2) && len(t.resources) == 1 && t.form == nil}
	h.begun = instant{start.at, t.slept}
	h.granted = h.begun
	bound, extensions := pure.Never, -1
	if w.oneIn(4) {
		bound = w.span(3 * t.ttl)
	}
	if w.oneIn(4) {
		extensions = w.random.IntN(4)
	}
	validity := t.ttl - k.slack(t.ttl)
	h.renewal = pure.NewRenewal(validity, bound, extensions)
	h.ends = h.begun.add(validity)
	if w.broken.is(WallIgnored) {
		h.ends = l.until
	}
	if h.left() <= 0 {
		l.attempt.over, l.attempt.ended = true, w.now
		k.tell(l.attempt, l.ttl, l.receipt)
		k.rest()
		return
	}
	w.referee.granted(&claim{worker: k, attempt: l.attempt, holder: h, hold: h})
	w.report.Count("holds", 1)
	h.rearm()
	k.letGo = func() { h.release() }
	if w.stopping {
		h.release()
		return
	}
	lasts := w.span(t.ttl)
	if w.oneIn(3) {
		lasts = w.span(3 * t.ttl)
	}
	k.then(lasts, h.release)
}

// rearm sets the time of the next look: when something is due, and often enough
// to notice that another clock ran ahead.
func (h *hold) rearm() {
	p := h.worker.process
	alarm := h.renewal.Alarm()
	if alarm == pure.Never {
		return
	}
	h.armed++
	armed := h.armed
	due := max(0, alarm-p.clocks().since(h.granted))
	p.after(min(due, pure.LookMost), func() {
		if h.armed == armed {
			h.look()
			h.rearm()
		}
	})
}

// step feeds an event to the renewal.
func (h *hold) step(e pure.RenewalEvent, jitter float64) (act pure.RenewalAction) {
	p := h.worker.process
	now := p.clocks()
	h.renewal, act = h.renewal.On(e, now.since(h.granted), jitter)
	if act != pure.ToProlong {
		return act
	}
	late := h.ends.left(now, true) <= 0
	h.granted = h.asked
	if p.world.broken.is(RenewalFromReply) {
		h.granted = now
	}
	h.ends = h.granted.add(h.renewal.Validity)
	p.world.report.Count("renewals", 1)
	p.world.referee.prolonged(h, late)
	return act
}

func (h *hold) look() {
	act := h.step(pure.OnLook, 0)
	if act == pure.ToRenew {
		act = h.renew()
	}
	if act == pure.ToLose && h.worker.world().broken.is(ContextLate) {
		h.worker.process.after(20*ms, h.lose)
		return
	}
	h.act(act)
}

// act ends the context if the state requires it.
func (h *hold) act(act pure.RenewalAction) {
	switch act {
	case pure.ToLose:
		h.lose()
	case pure.ToStopShort:
		h.end()
	}
}

// renew starts the renewal that the state wants. No caller waits for it, so a
// vote may take until the old validity ends (R6).
func (h *hold) renew() pure.RenewalAction {
	p := h.worker.process
	h.asked = p.clocks()
	cmd := &command{op: extend, attempt: h.attempt, ttl: h.ttl}
	if h.heals {
		cmd.op = heal
	}
	h.attempt.asks = append(h.attempt.asks, cmd)
	r, own := p.ask(cmd, h.ttl, h.receipt, max(0, h.ends.left(h.asked, true)), func(r *round) {
		if p.world.oneIn(2) { // the keeper reads answers before it checks what is due
			h.settle(r)
			return
		}
		p.after(p.world.span(20*us), func() { h.settle(r) })
	})
	if r == nil {
		return h.step(pure.OnFailure, p.jitter())
	}
	h.receipt.doubted, h.unsure = pure.DoubtRenewal(h.receipt.doubted, own.sent, own.doubted, h.heals)
	if h.heals {
		h.receipt.sent |= own.sent // these nodes may hold the key now
	}
	return pure.CarryOn
}

// settle feeds the outcome of a renewal.
func (h *hold) settle(r *round) {
	event := pure.OnFailure
	switch {
	case r.cancelled:
	case r.verdict == multiplex.Won:
		event = pure.OnGrant
	case r.verdict == multiplex.Lost:
		event = pure.OnRefusal
	}
	h.receipt.doubted = pure.DoubtGranted(h.receipt.doubted, h.unsure, r.granted)
	act := h.step(event, h.worker.process.jitter())
	h.act(act)
	if act != pure.ToDrop {
		h.rearm()
	}
}

// isHeld is Hold.Err and every other query of a hold: it reads the clocks
// (R15).
func (h *hold) isHeld() bool {
	broken := h.worker.world().broken
	if !h.over && !broken.is(ClocksUnread) && h.ends.left(h.worker.process.clocks(), true) <= 0 {
		h.lose()
	}
	return !h.over
}

func (h *hold) lose() {
	if h.over {
		return
	}
	h.lost = true
	h.worker.world().report.Count("holds lost", 1)
	h.end()
}

// end ends the context; the holder then stops working and releases the lock.
func (h *hold) end() {
	if h.over {
		return
	}
	h.over = true
	h.worker.world().referee.gaveUp(h.attempt)
	h.worker.then(h.worker.world().span(ms), h.release)
}

// release is Hold.Release: first the renewal ends, then the context, and then
// the lock.
func (h *hold) release() {
	if h.attempt.over {
		return
	}
	h.over = true
	h.step(pure.OnEnd, 0)
	h.worker.giveBack(&h.lock)
	h.worker.rest()
}
