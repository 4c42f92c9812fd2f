package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A referee sees everything: true time, what each server did with each command,
// and what each process believes. It checks what is promised, and not how
// processes keep the promise.
type referee struct {
	world  *world
	claims [][]*claim    // by resource: current and former holders
	orders []order       // by resource: the fencing numbers
	moved  time.Duration // when a lock was last granted, prolonged or given back
	formReferee
}

// A claim is a lock or hold as its holder sees it.
type claim struct {
	worker  *worker
	attempt *attempt
	holder  holder
	hold    *hold // nil for a plain lock
	gaveUp  bool  // the holder stopped working, or its process is dead
}

// A holder tells how long its lock is still certainly its own, by its own
// clocks.
type holder interface{ left() time.Duration }

// granted records a new claim.
func (r *referee) granted(c *claim) {
	for _, resource := range c.attempt.resources {
		r.claims[resource] = append(r.claims[resource], c)
	}
	if c.attempt.asks[0].rivals {
		r.world.violate("R30", "attempt %d was granted though its process saw several deployments", c.attempt.index)
	}
	r.moved = r.world.now
	r.validity(c, false)
	r.order(c)
	r.ofForm(c)
	r.excludes(c)
	r.willBeTold(c)
}

// excludes checks exclusion for each of a claim's resources.
func (r *referee) excludes(c *claim) {
	for _, resource := range c.attempt.resources {
		r.exclusion(resource)
	}
}

// extended records an extension of a plain lock. late says that the old
// validity was over by then.
func (r *referee) extended(a *attempt, longer *lock, late bool) {
	if late {
		r.world.violate("R10", "an extension counts that came after the old validity had ended")
	}
	r.moved = r.world.now
	if c := r.claimOf(a); c != nil {
		c.holder = longer
		r.validity(c, true)
		r.excludes(c)
	}
}

// prolonged records a renewal of a hold. late says that the old validity was
// over by then.
func (r *referee) prolonged(h *hold, late bool) {
	if late {
		r.world.violate("R10", "a renewal of attempt %d counts that came after the old validity had ended", h.attempt.index)
	}
	r.moved = r.world.now
	if c := r.claimOf(h.attempt); c != nil {
		r.validity(c, true)
		r.excludes(c)
		r.willBeTold(c)
	}
}

func (r *referee) claimOf(a *attempt) *claim {
	for _, c := range r.claims[a.resources[0]] {
		if c.attempt == a && !c.gaveUp {
			return c
		}
	}
	return nil
}

// gaveUp is called before the release: from then on others may hold the lock.
func (r *referee) gaveUp(a *attempt) {
	r.moved = r.world.now
	for _, c := range r.claims[a.resources[0]] {
		c.gaveUp = c.gaveUp || c.attempt == a
	}
}

func (r *referee) died(p *process) {
	for _, claims := range r.claims {
		for _, c := range claims {
			c.gaveUp = c.gaveUp || c.worker.process == p
		}
	}
}

// exclusion checks the one property that matters: at most one holder at a time.
// Two validities that overlap do so from the moment at which the later one
// began or was prolonged, so that is when it is checked.
func (r *referee) exclusion(resource int) {
	claims := r.claims[resource]
	kept := claims[:0]
	for _, c := range claims {
		if !c.gaveUp && c.holder.left() > 0 {
			kept = append(kept, c)
		}
	}
	clear(claims[len(kept):])
	r.claims[resource] = kept
	if a, b := crowded(kept); a != nil && !r.world.plan.flushes {
		if r.strayed(kept) && !r.world.over {
			r.world.report.Count("two holders after that, outside of the promise", 1)
			r.world.over = true
			return
		}
		r.world.violate("exclusion", "attempt %d of process %d has resource %d for another %v, and attempt %d of process %d for %v",
			a.attempt.index, a.worker.process.index, resource, a.holder.left(),
			b.attempt.index, b.worker.process.index, b.holder.left())
	}
}

// strays reports whether a claim is outside of the promise beside another: its
// set has lost a server to the other's set, and the claim is not based on
// anything that was sent before that server had come back empty. What was sent
// earlier is waited for (R29).
func (r *referee) strays(c, other *claim) bool {
	for _, lost := range r.world.forsaken {
		if lost.members != c.worker.process.names() || lost.members == other.worker.process.names() {
			continue
		}
		if !r.reaches(c, lost.since) {
			return true
		}
	}
	return false
}

// reaches reports whether a claim is valid by a command that a quorum executed
// and that was sent before the given time.
func (r *referee) reaches(c *claim, before time.Duration) bool {
	p := c.worker.process
	for _, ask := range c.attempt.asks {
		if ask.at < before && ask.granted.Len() >= multiplex.Quorum(p.size) && ask.ends().left(p.clocks(), c.hold != nil) > 0 {
			return true
		}
	}
	return false
}

// ends returns the end of the validity that the command justifies (R4).
func (c *command) ends() instant {
	return c.sent.add(c.ttl - time.Duration(drift*float64(c.ttl)) - 2*ms)
}

// validity checks R4: the claim must be based on a command that a quorum
// executed. It must not reach further than that command's TTL less the drift,
// counted from when its first byte was sent. A lock must still be valid when
// the caller gets it.
func (r *referee) validity(c *claim, prolonged bool) {
	w := r.world
	p := c.worker.process
	if c.holder.left() <= 0 && !prolonged {
		w.violate("R4", "attempt %d was granted with a validity of %v", c.attempt.index, c.holder.left())
		return
	}
	now := p.clocks()
	left := c.holder.left()
	for _, ask := range c.attempt.asks {
		if ask.granted.Len() < multiplex.Quorum(p.size) {
			continue
		}
		if left <= ask.ends().left(now, c.hold != nil) {
			return
		}
	}
	w.violate("R4", "attempt %d is believed to be valid for %v, and no command that a quorum executed is reason to",
		c.attempt.index, left)
}

// willBeTold checks R13: a hold's context has ended by the end of the validity,
// if its process runs. The clock's reading at that time is known now, unless
// the clock is set; see turned.
func (r *referee) willBeTold(c *claim) {
	h := c.hold
	if h == nil {
		return
	}
	w, p := r.world, c.worker.process
	ends := h.ends
	end := p.now() + ends.at.Sub(p.clocks().at)
	if p.mono.still {
		return
	}
	w.at(p.mono.when(end, w.now), func() {
		if h.ends == ends && !h.over && !h.attempt.over && p.frozen == 0 && !p.dead && p.now() >= end {
			w.violate("R13", "the validity of attempt %d has ended, and its context has not", h.attempt.index)
		}
	})
}

// turned checks R13 when another clock than the monotonic one ran ahead: the
// process notices it within a quarter of a second.
func (r *referee) turned(p *process) {
	w := r.world
	w.after(260*ms, func() {
		if p.dead || p.frozen > 0 || w.now-p.goesSince < 255*ms {
			return
		}
		r.eachClaim(p, func(c *claim) {
			h := c.hold
			if h == nil || h.over || h.attempt.over {
				return
			}
			if left := h.ends.left(p.clocks(), true); left <= -260*ms {
				w.violate("R13", "the validity of attempt %d has been over for %v, and its context has not ended", h.attempt.index, -left)
			}
		})
	})
	for resource := range r.claims {
		r.exclusion(resource)
	}
}

// firstQuestion checks R15: after a pause, the first query of a lock tells that
// it is lost, before anything else runs.
func (r *referee) firstQuestion(p *process) {
	now := p.clocks()
	r.eachClaim(p, func(c *claim) {
		switch h := c.hold; {
		case h != nil && h.ends.left(now, true) <= 0 && r.world.oneIn(2) && h.isHeld(),
			h == nil && c.holder.(*lock).until.left(now, false) <= 0 && c.holder.left() > 0:
			r.world.violate("R15", "attempt %d is over, and says that it is held", c.attempt.index)
		}
	})
}

func (r *referee) eachClaim(p *process, do func(*claim)) {
	for _, claims := range r.claims {
		for _, c := range claims {
			if c != nil && c.worker.process == p && !c.gaveUp {
				do(c)
			}
		}
	}
}

// isWell reports whether nothing is wrong between a process and a server, and
// since when.
func (r *referee) isWell(p *process, server int) bool {
	s, l := r.world.servers[server], p.link(server)
	return !p.dead && !p.closed && p.frozen == 0 && l.isWell() &&
		s.down+s.stopped+s.refusesSets+s.refusesScript == 0
}

// ended checks R7: once an attempt is over or a lock was released, and if
// nothing is wrong, no key of it is older than a round trip and 20 ms.
func (r *referee) ended(a *attempt) {
	w := r.world
	var longest time.Duration
	for _, l := range w.links[a.process.index] {
		longest = max(longest, l.longest())
	}
	w.after(2*longest+20*ms, func() {
		for i, s := range w.servers {
			l, m := a.process.link(i), a.process.member(i)
			if m == nil || !r.isWell(a.process, i) || l.since >= a.started || m.life.State != pure.Up || m.upSince >= a.started {
				continue
			}
			if s.has(a) {
				w.violate("R7", "server %d has the key of attempt %d, %v after it ended", i, a.index, w.now-a.ended)
			}
		}
	})
}

// calmed checks R8 and R26: if nothing has been wrong between a process and a
// server for a while, the node counts, its debts are paid, and nothing of ended
// attempts is left on it.
func (r *referee) calmed(l *link) {
	w := r.world
	for _, p := range w.processes {
		for i, s := range w.servers {
			if p == nil || p.link(i) != l || p.member(i) == nil || !r.isWell(p, i) || w.now-l.since < promptly {
				continue
			}
			r.mustBeUp(p, p.member(i))
			r.orphans(p, s)
		}
	}
}

// dialsInPlenty is how many dials a node's budget allows at once; after more it
// may have to wait.
const dialsInPlenty = 12

func (r *referee) mustBeUp(p *process, m *member) {
	w := r.world
	if m.dials > dialsInPlenty || w.now-p.goesSince < promptly {
		return
	}
	if m.life.State != pure.Up {
		w.violate("R26", "node %d of process %d is %v, %v after what was wrong with it", m.index, p.index, m.life.State, promptly)
	}
	for _, d := range m.ledger.Debts {
		if !d.Repeat {
			w.violate("R26", "node %d of process %d owes a release, %v after what was wrong with it", m.index, p.index, promptly)
			return
		}
	}
}

// orphans checks for keys of ended attempts on a server without faults.
func (r *referee) orphans(p *process, s *server) {
	w := r.world
	s.each(func(k *key) {
		a := k.attempt
		if a.process != p || !a.over || a.kept || p.member(s.index).dials > dialsInPlenty {
			return
		}
		patience := r.patience(a, p.member(s.index), k)
		since := max(a.ended, p.link(s.index).since, k.set, p.goesSince)
		if w.now-since < patience {
			w.at(since+patience, func() { r.orphanStays(p, s, a) })
			return
		}
		if w.now-k.set > k.ttl {
			return // the server's clock was turned back
		}
		w.violate("R8", "server %d has the key of attempt %d, which was over %v ago", s.index, a.index, w.now-a.ended)
	})
}

// patience returns how long a key may outlive its attempt. If CLIENT KILL is
// forbidden, a SET may arrive late, and the release is repeated after 0.25, 1
// and 4 s (R8), as long as the TTL lasts. These times start again with each
// fence, and with the end of the attempt if that is later: until then there is
// nothing to repeat.
func (r *referee) patience(a *attempt, m *member, k *key) time.Duration {
	if fenced := k.wire.fenced; !m.server.forbidsKill || fenced == 0 || k.set < fenced {
		return promptly
	}
	begun := max(m.fencedAt, a.ended)
	age := k.set - begun
	pause, next := pure.RepeatFirst, pure.RepeatFirst
	for next <= age+age/100 {
		pause *= pure.RepeatTimes
		next += pause
	}
	if begun+next+promptly > k.wire.fenced+k.asked {
		return 2 * k.ttl // no repetition is left, so it stays until its TTL ends by the server's clock
	}
	return promptly + pause
}

// repeats checks R8 if CLIENT KILL is forbidden: if a SET arrived after its
// release, that release must still be repeated. Two cases are legal. The answer
// to the release is still in flight: until it arrives, the process does not
// know that the release deleted nothing. Or the SET arrived more than its TTL
// after the fence: the release is repeated for that long and no longer.
func (r *referee) repeats(a *attempt, s *server, c *wire, ttl time.Duration) {
	p, m := a.process, a.process.member(s.index)
	switch {
	case p.dead || m.life.State != pure.Up || !s.has(a) || r.world.now-c.fenced > ttl:
		return
	case m.awaitsReleaseOf(a):
		r.world.after(10*ms, func() { r.repeats(a, s, c, ttl) })
		return
	}
	for _, d := range m.ledger.Debts {
		if d.Command == string(a.encoded()) {
			return
		}
	}
	r.world.violate("R8", "server %d executed the SET of attempt %d after its release, which will not be repeated", s.index, a.index)
}

// orphanStays checks again a key that was too young.
func (r *referee) orphanStays(p *process, s *server, a *attempt) {
	if s.has(a) && r.isWell(p, s.index) {
		r.orphans(p, s)
	}
}
