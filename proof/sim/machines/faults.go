package machines

import (
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A fault is a kind of failure.
type fault uint8

const (
	crash      fault = iota // a server's process ends; its keys are on disk
	forget                  // the same, but it comes back empty
	forgetSome              // or without the last writes, as from a snapshot
	replace                 // another server comes to its address, empty and perhaps old
	blackout                // all servers lose all at about the same time
	abandon                 // a server of two sets comes back empty, and its own processes do not reach it
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
	flushAll // a server forgets all keys, and goes on: FLUSHALL. Only worlds that are made for it have it
	demote   // a server is a replica of another for a moment, and has its seal then, but no locks. Not in all worlds
	faultKinds
)

var faultNames = [...]string{
	"crash", "crash without memory", "crash with old memory", "replace", "blackout", "abandon", "stop", "refuse sets", "refuse scripts",
	"flush scripts", "close all", "close one", "slow link", "hold up", "hold down",
	"hold connection", "lose touch", "reset", "refuse connections", "cut off", "clock back",
	"clock ahead", "clock leap", "freeze", "suspend", "wall ahead", "wall back",
	"kill process", "flush all", "was a replica",
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
	w.lasts(w.plan.faultLasts, w.strike(f, s, p))
}

// lasts ends a fault within the given time; undo may be nil.
func (w *world) lasts(most time.Duration, undo func()) {
	if undo == nil {
		return
	}
	m := &mend{do: undo}
	w.mends = append(slices.DeleteFunc(w.mends, func(m *mend) bool { return m.done }), m)
	w.after(w.span(most), m.now)
}

// strike causes a fault, and returns what ends it, or nil if the fault does not
// apply.
func (w *world) strike(f fault, s *server, p *process) (undo func()) {
	switch f {
	case crash, forget, forgetSome, replace:
		if f != crash && !s.durable && !w.mayForget(f, s) {
			return nil
		}
		undo = w.crash(f, s)
	case blackout:
		w.blackout()
	case abandon:
		if s = w.shared(); s == nil || s.durable || !w.mayForget(f, s) {
			return nil
		}
		undo = w.abandon(s)
	case stop, refuseSets, refuseScripts, flushScripts, closeAll, closeOne:
		undo = w.strikeServer(f, s)
	case flushAll:
		if !w.mayFlush(s) {
			return nil
		}
		s.forget(0)
	case demote:
		if s.durable || s.down+s.stopped > 0 {
			return nil
		}
		w.disturbServer(s)
		s.demote()
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
	case f == forget, f == replace, f == blackout, f == abandon:
		since = 0
	case f == forgetSome:
		since = w.now - w.span(2*w.plan.ttl)
	}
	s.crash(since)
	if since == 0 && f == replace {
		s.begin(w.plan.age(w.random))
		s.past.replaces = true
	}
	if since == 0 && w.plan.promotes && w.oneIn(2) { // a replica, which the loss had reached, is promoted
		s.begin(w.plan.age(w.random) + time.Minute)
		s.past.promoted = true
	}
	w.disturbServer(s)
	return counted(&s.down, func() {
		w.disturbServer(s)
		if s.down > 0 {
			return
		}
		s.past.back = w.now
		if !s.past.replaces && !s.past.promoted {
			s.startedAgo(0) // only now
		}
	})
}

// mayForget respects the condition of R29: among servers without a seal, none
// may come to an address where an earlier one was and say that it ran before.
// No server's seal may be the last one of a set that has such a server.
func (w *world) mayForget(f fault, s *server) bool {
	for _, process := range []int{0, len(w.processes) - 1} {
		set := w.plan.setOf(process)
		if !slices.Contains(set, s.index) {
			continue
		}
		lies, sealed := f == replace, false
		for _, i := range set {
			other := w.servers[i]
			switch {
			case other == s:
			case other.mark().Seal.Identity != pure.Identity{}:
				sealed = true
			case other.past.replaces:
				lies = true
			}
		}
		if lies && !sealed {
			return false
		}
	}
	return true
}

// mayFlush says when no client can take a set whose servers were flushed for a
// new one, and believe their uptimes (R29).
func (w *world) mayFlush(s *server) bool {
	return slices.ContainsFunc(w.servers, func(other *server) bool {
		return other != s && other.mark().Seal.Identity != pure.Identity{}
	})
}

// blackout is a loss of power: every server comes back empty, unless it is
// durable, each in its own time. At times all processes lose it too, or their
// network.
func (w *world) blackout() {
	if w.oneIn(2) {
		w.blackoutOfProcesses()
	}
	for _, s := range w.servers {
		w.lasts(w.plan.faultLasts, w.crash(blackout, s))
	}
}

func (w *world) blackoutOfProcesses() {
	for _, p := range w.processes {
		switch {
		case p == nil || p.dead:
		case w.oneIn(2):
			w.lasts(100*ms, w.strikeProcess(killProcess, p))
		default:
			w.lasts(2*w.plan.ttl, w.cutOff(p))
		}
	}
}

// shared returns a server that belongs to one set of processes, and that others
// name too; nil if there is none.
func (w *world) shared() *server {
	var all []*server
	other := w.plan.setOf(w.plan.processes)
	for _, i := range w.plan.setOf(0) {
		if s := w.servers[i]; w.plan.misfits > 0 && slices.Contains(other, i) && s.mark().Seal.Identity != (pure.Identity{}) {
			all = append(all, s)
		}
	}
	if all == nil {
		return nil
	}
	return all[w.random.IntN(len(all))]
}

// abandon crashes a server. When it is back, and empty, the processes of its set
// are dead, frozen, or cut off from it, some of them for so long that another
// set takes it. Some processes of that set have started meanwhile, and do not
// know whose it was.
func (w *world) abandon(s *server) func() {
	owner := s.mark().Seal.Identity.Members
	each := func(owns bool, do func(p *process)) {
		for _, p := range w.processes {
			if p != nil && !p.dead && (p.names() == owner) == owns {
				do(p)
			}
		}
	}
	back := w.crash(abandon, s)
	each(false, func(p *process) {
		if w.oneIn(2) {
			w.lasts(100*ms, w.strikeProcess(killProcess, p))
		}
	})
	return func() {
		defer back()
		if w.stopping {
			return
		}
		each(true, func(p *process) {
			switch w.random.IntN(5) {
			case 0:
				w.lasts(12*time.Second, w.strikeProcess(killProcess, p))
			case 1, 2:
				w.lasts(12*time.Second, w.strikeProcess(freeze, p))
			default:
				w.lasts(12*time.Second, w.hold(p.link(s.index), true, true))
			}
		})
	}
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
		return w.holdWire(l, p.wireTo(s))
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

// wireTo returns the process's connection to a server, or nil.
func (p *process) wireTo(s *server) *wire {
	if m := p.member(s.index); m != nil {
		return m.wire
	}
	return nil
}

func (w *world) reset(p *process, s *server) {
	if c := p.wireTo(s); c != nil {
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
		w.lasts(w.plan.faultLasts, undo)
	}
	return func() { l.trap = nil }
}

// setTraps lets some links of a process hold what is sent from the next lock or
// seal of an opening on.
func (w *world) setTraps(p *process) {
	for _, m := range p.members {
		l := p.link(m.server.index)
		if w.plan.trapped == 0 || w.random.IntN(100) >= w.plan.trapped {
			continue
		}
		skip := w.random.IntN(2)
		l.sealTrap = func() { w.springs(l, m, skip) }
	}
}

func (w *world) springs(l *link, m *member, skip int) {
	if skip > 0 {
		l.sealTrap = func() { w.springs(l, m, skip-1) }
		return
	}
	if w.stopping {
		return
	}
	w.disturb(l)
	w.lasts(w.plan.faultLasts, w.hold(l, true, w.oneIn(2)))
	w.report.Fault("hold an opening")
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
// of other keys, and the server's uptime is not asked for any more (R29).
func (w *world) canLeap(s *server) bool {
	if w.plan.quarantine && s.mark().Seal.Identity == (pure.Identity{}) {
		return false
	}
	can := true
	s.each(func(k *key) {
		a := k.attempt
		if a.over && !a.kept {
			return
		}
		others := 0
		for _, other := range w.servers {
			if other != s && other.keeps(a) && (!w.plan.quarantine || other.mark().Seal.Identity == s.mark().Seal.Identity) {
				others++
			}
		}
		can = can && others >= multiplex.Quorum(a.process.size)
	})
	return can
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
		if p.founds {
			return nil
		}
		p.die()
		w.disturbProcess(p)
		return func() { newProcess(w, p.index).start() }
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
