package machines

import (
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A fault is a kind of failure.
type fault uint8

const (
	crash      fault = iota // a server's process ends; its keys are on disk
	forget                  // the same, but it comes back empty
	forgetSome              // or without the last writes, as from a snapshot
	stop                    // a server is stopped
	refuseSets              // -OOM, -MISCONF, -NOREPLICAS …
	refuseScripts
	flushScripts
	closeAll // a server closes all connections
	closeOne // or one of them, like another client's CLIENT KILL
	slowLink
	holdUp    // what is sent to a server is delayed for a while
	holdDown  // what a server sends is delayed
	holdWire  // what is sent on one connection is delayed, even after the end of the connection
	loseTouch // the same, and the process gives up that connection; the rest arrives after its successor is there
	resetLink
	refuseLink // no new connections
	cutOff     // a process is cut off from all servers
	clockBack  // a server's clock is turned back
	clockAhead // or forward, within the drift
	clockLeap  // or far forward, if more than a quorum has the keys that expire by it
	freeze     // SIGSTOP of a process
	suspend    // its machine sleeps: the monotonic clock stands still
	wallAhead  // its wall clock is set forward
	wallBack   // or back
	killProcess
	faultKinds
)

var faultNames = [...]string{
	"crash", "crash without memory", "crash with old memory", "stop", "refuse sets", "refuse scripts",
	"flush scripts", "close all", "close one", "slow link", "hold up", "hold down",
	"hold connection", "lose touch", "reset", "refuse connections", "cut off", "clock back",
	"clock ahead", "clock leap", "freeze", "suspend", "wall ahead", "wall back",
	"kill process",
}

func (f fault) String() string { return faultNames[f] }

// A mend ends a fault, once.
type mend struct {
	do   func()
	done bool
}

func (m *mend) now() {
	if !m.done {
		m.done = true
		m.do()
	}
}

// misfortune causes faults, again and again.
func (w *world) misfortune() {
	if w.stopping {
		return
	}
	w.after(w.span(2*w.plan.faultEvery), w.misfortune)
	for range w.plan.burst {
		w.after(w.span(w.plan.burstSpread()), w.oneFault)
	}
}

// oneFault causes one fault, and mends it after a while.
func (w *world) oneFault() {
	if w.stopping {
		return
	}
	f := w.plan.faults[w.random.IntN(len(w.plan.faults))]
	s := w.servers[w.random.IntN(len(w.servers))]
	p := w.processes[w.random.IntN(len(w.processes))]
	if p == nil || p.dead {
		return // not yet started, or already gone
	}
	w.step("fault: kind %d, server %d, process %d", int64(f), int64(s.index), int64(p.index))
	undo := w.strike(f, s, p)
	if undo == nil {
		return
	}
	m := &mend{do: undo}
	w.mends = append(slices.DeleteFunc(w.mends, func(m *mend) bool { return m.done }), m)
	w.after(w.span(w.plan.faultLasts), m.now)
}

// strike causes a fault, and returns what ends it, or nil if the fault does not
// apply.
func (w *world) strike(f fault, s *server, p *process) (undo func()) {
	switch f {
	case crash, forget, forgetSome:
		if f != crash && !s.durable && !w.mayForget(s) {
			return nil
		}
		undo = w.crash(f, s)
	case stop, refuseSets, refuseScripts, flushScripts, closeAll, closeOne:
		undo = w.strikeServer(f, s)
	case clockBack, clockAhead, clockLeap:
		if !w.turnClock(f, s) {
			return nil
		}
	case slowLink, holdUp, holdDown, holdWire, loseTouch, resetLink, refuseLink:
		undo = w.strikeLink(f, p, s)
	case cutOff:
		undo = w.cutOff(p)
	default:
		undo = w.strikeProcess(f, p)
	}
	if f != loseTouch { // loseTouch is still to come
		w.report.Fault(f.String())
	}
	return undo
}

// disturb records that something is, or was until now, wrong between a process
// and a server.
func (w *world) disturb(l *link) {
	l.since = w.now
	w.after(promptly, func() { w.referee.calmed(l) })
}

func (w *world) disturbServer(s *server) {
	for _, row := range w.links {
		w.disturb(row[s.index])
	}
}

func (w *world) disturbProcess(p *process) {
	for _, l := range w.links[p.index] {
		w.disturb(l)
	}
}

// counted is a fault with a counter: several of one kind may overlap.
func counted(n *int, after func()) (undo func()) {
	*n++
	return func() {
		*n--
		after()
	}
}

func (w *world) crash(f fault, s *server) func() {
	since := w.now + 1 // nothing is lost
	switch {
	case s.durable:
	case f == forget:
		since = 0
	case f == forgetSome:
		since = w.now - w.span(2*w.plan.ttl)
	}
	s.crash(since)
	w.disturbServer(s)
	return counted(&s.down, func() { w.disturbServer(s) })
}

// mayForget respects the condition of a deployment that was declared new (R23):
// until every process has used the declaration, at least one server must carry
// a seal, which contradicts it. (If the last one forgets while the declaration
// is still set, that is the danger which redlock.Config.NewDeployment
// describes.)
func (w *world) mayForget(s *server) bool {
	if !w.plan.declaredNew || !slices.ContainsFunc(w.processes, func(p *process) bool { return p == nil || p.debut.Open }) {
		return true
	}
	return slices.ContainsFunc(w.servers, func(other *server) bool { return other != s && other.seal.What == pure.SealSeen })
}

func (w *world) strikeServer(f fault, s *server) func() {
	w.disturbServer(s)
	disturb := func() { w.disturbServer(s) }
	switch f {
	case stop:
		return counted(&s.stopped, func() {
			if s.stopped == 0 {
				s.goOn()
			}
			disturb()
		})
	case refuseSets:
		return counted(&s.refusesSets, disturb)
	case refuseScripts:
		return counted(&s.refusesScript, disturb)
	case flushScripts:
		s.knowsScripts = false
	case closeAll:
		for _, c := range s.wires {
			c.close()
		}
	default:
		if len(s.wires) > 0 {
			s.wires[w.random.IntN(len(s.wires))].close()
		}
	}
	return nil
}

func (w *world) strikeLink(f fault, p *process, s *server) func() {
	l := p.link(s.index)
	w.disturb(l)
	disturb := func() { w.disturb(l) }
	switch f {
	case slowLink:
		l.slow = w.span(100 * ms)
		return func() {
			l.slow = 0
			disturb()
		}
	case holdUp:
		return w.hold(l, true, false)
	case holdDown:
		return w.hold(l, false, true)
	case holdWire:
		return w.holdWire(l, p.members[s.index].wire)
	case loseTouch:
		return w.loseTouch(l)
	case refuseLink:
		w.reset(p, s)
		return counted(&l.refused, disturb)
	default:
		w.reset(p, s)
		return nil
	}
}

func (w *world) reset(p *process, s *server) {
	if c := p.members[s.index].wire; c != nil {
		c.reset()
	}
}

func (w *world) hold(l *link, up, down bool) func() {
	var undo []func()
	if up {
		undo = append(undo, counted(&l.heldUp, l.releaseUp))
	}
	if down {
		undo = append(undo, counted(&l.heldDown, func() {
			if l.heldDown == 0 {
				l.releaseDown()
			}
		}))
	}
	return func() {
		for _, u := range undo {
			u()
		}
		w.disturb(l)
	}
}

// holdWire disturbs its link only while that connection is in use.
func (w *world) holdWire(l *link, c *wire) func() {
	if c == nil {
		return nil
	}
	l.lame = c
	return counted(&c.held, func() {
		l.releaseUp()
		w.disturb(l)
	})
}

// loseTouch waits until a SET is sent, since only then can it lose one.
func (w *world) loseTouch(l *link) func() {
	l.trap = func(c *wire) {
		w.report.Fault(loseTouch.String())
		undo := w.holdWire(l, c)
		w.after(w.span(20*ms), c.reset)
		m := &mend{do: undo}
		w.mends = append(w.mends, m)
		w.after(w.span(w.plan.faultLasts), m.now)
	}
	return func() { l.trap = nil }
}

func (w *world) cutOff(p *process) func() {
	var undo []func()
	for _, l := range w.links[p.index] {
		w.disturb(l)
		undo = append(undo, w.hold(l, true, true))
	}
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

// turnClock sets a server's clock, as far as the promises allow: back by any
// time; forward by less than a millisecond in the life of any key, which the
// drift can spare (half of its two milliseconds is for the server's own
// rounding); and far forward if no lock depends on the keys that expire by it.
func (w *world) turnClock(f fault, s *server) bool {
	by := -w.span(30 * ms)
	switch f {
	case clockBack:
		s.turnedBack -= by
	case clockAhead:
		if w.now-s.steppedAt < 2*w.plan.ttl {
			return false
		}
		by = w.span(900 * us)
		s.steppedAt = w.now
	case clockLeap:
		if !w.canLeap(s) {
			return false
		}
		by = w.span(2 * w.plan.ttl)
	}
	s.clock.step(by, w.now)
	w.step("server %d: its clock is turned by %d ns", int64(s.index), int64(by))
	return true
}

// canLeap reports whether each lock whose key would expire early has a quorum
// of other keys.
func (w *world) canLeap(s *server) bool {
	for resource := range s.keys {
		a := s.look(resource)
		if a == nil || a.over && !a.kept {
			continue
		}
		others := 0
		for _, other := range w.servers {
			if other != s && other.keeps(a) {
				others++
			}
		}
		if others < len(w.servers)/2+1 {
			return false
		}
	}
	return true
}

func (w *world) strikeProcess(f fault, p *process) func() {
	if p.dead || p.closed {
		return nil
	}
	switch f {
	case freeze, suspend:
		if w.oneIn(3) {
			return w.sleepOverSET(f, p)
		}
		return w.sleep(f, p)
	case killProcess:
		p.die()
		w.disturbProcess(p)
		return func() { newProcess(w, p.index, false).start() }
	case wallAhead:
		p.wall.step(w.span(2*w.plan.ttl), w.now)
	case wallBack:
		p.wall.step(-w.span(2*w.plan.ttl), w.now)
	}
	w.referee.turned(p)
	return nil
}

// sleepOverSET suspends a process soon after it sends a SET, for about the life
// of a lock. By chance this would hardly ever happen between a SET and its
// return (R4).
func (w *world) sleepOverSET(f fault, p *process) func() {
	l := p.link(w.random.IntN(len(w.servers)))
	l.trap = func(*wire) {
		w.after(w.span(2*l.longest()), func() {
			if undo := w.sleep(f, p); undo != nil {
				m := &mend{do: undo}
				w.mends = append(w.mends, m)
				w.after(w.plan.ttl/2+w.span(w.plan.ttl), m.now)
			}
		})
	}
	return func() { l.trap = nil }
}

func (w *world) sleep(f fault, p *process) func() {
	switch {
	case p.dead || p.mono.still:
		return nil
	case f == suspend:
		return w.suspend(p)
	}
	p.freeze()
	w.disturbProcess(p)
	return func() {
		w.disturbProcess(p)
		p.thaw()
	}
}

func (w *world) suspend(p *process) func() {
	begun := w.now
	p.mono.stop(w.now)
	p.freeze()
	w.disturbProcess(p)
	return func() {
		p.mono.goOn(w.now)
		p.slept += w.now - begun
		w.disturbProcess(p)
		p.thaw()
		w.referee.turned(p)
	}
}

// promptly is the time within which a node that can be reached again counts and
// its debts are paid (R26), including the handshake.
const promptly = 1500*ms + 50*time.Millisecond
