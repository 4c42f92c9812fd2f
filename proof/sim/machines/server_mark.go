package machines

import (
	"slices"
	"time"

	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/internal/pure"
)

// A past is what the server's process remembers, apart from keys of locks.
type past struct {
	since    time.Duration // the start, by the server's clock, in whole seconds
	promoted bool          // the process was a replica before
	// replaces is set if the process ran before it came to this address, where
	// another one was: its uptime proves nothing.
	replaces bool
	marks    []writtenMark // what was written, the last at the end
	// lost is the deployment that an earlier process here belonged to, if this
	// one does not know. attended says that a client of it was connected then.
	lost     pure.Identity
	attended bool
	back     time.Duration // true time at which this process began to serve
}

// A writtenMark is a seal and an opening, and when they were written.
type writtenMark struct {
	model.Mark
	at   time.Duration // true time
	ends time.Duration // of a proposal, by the server's clock
}

// second returns the server's clock as INFO counts it.
func (s *server) second() time.Duration { return s.clock.at(s.world.now).Truncate(time.Second) }

// mark returns the seal and the opening.
func (s *server) mark() model.Mark {
	if len(s.past.marks) == 0 {
		return model.Mark{}
	}
	last := s.past.marks[len(s.past.marks)-1]
	if last.Opening.Stage == pure.Proposed && s.ms() >= last.ends {
		last.Opening = pure.Opening{}
	}
	return last.Mark
}

// changeSeal is seal.lua.
func (s *server) changeSeal(change model.Change) reply {
	before := s.mark()
	if own := before.Opening.Identity == change.Identity; own && s.world.broken.is(NoLockStage) && change.Verb == pure.Confirm {
		before.Opening.Stage = pure.Locked
	}
	after, done := model.Seal(before, change)
	if !done {
		return reply{kind: isInteger}
	}
	if after != before {
		s.past.marks = append(s.past.marks, writtenMark{after, s.world.now, s.ms() + pure.ProposalTTL})
		s.world.referee.marked(s, after)
	}
	return reply{kind: isInteger, n: 1}
}

// unwrite forgets what was written after since.
func (s *server) unwrite(since time.Duration) {
	was := s.mark().Seal.Identity
	s.past.marks = slices.DeleteFunc(s.past.marks, func(m writtenMark) bool { return m.at >= since })
	if is := s.mark().Seal.Identity; was != (pure.Identity{}) && is != was {
		s.past.lost = was
		s.past.attended = slices.ContainsFunc(s.world.processes, func(p *process) bool { return p != nil && p.attends(s, was) })
	}
}

// attends reports whether the process belongs to a deployment, and is connected
// to one of its servers.
func (p *process) attends(s *server, who pure.Identity) bool {
	m := p.member(s.index)
	return m != nil && !p.dead && p.frozen == 0 && p.live.Has(m.index) && p.names() == who.Members
}

// marked checks R30: no two deployments that overlap are open at one time.
func (r *referee) marked(s *server, mark model.Mark) {
	w, who := r.world, mark.Seal.Identity
	owner := who
	if mark.Opening.Stage == pure.Locked {
		owner = mark.Opening.Identity
	}
	if owner == (pure.Identity{}) {
		return
	}
	if lost := s.past.lost; lost != (pure.Identity{}) && lost.Members != owner.Members {
		w.forsake(s)
	}
	s.past.lost = pure.Identity{}
	for _, other := range w.servers {
		is := other.mark().Seal.Identity
		if w.forsaken == nil && who != (pure.Identity{}) && is != (pure.Identity{}) && is.ID != who.ID {
			w.violate("R30", "server %d is sealed for %s, and server %d for %s", s.index, who.ID[:4], other.index, is.ID[:4])
		}
	}
}

// A loss is what forsake notes: the set that has lost a server, and when that
// had come back.
type loss struct {
	members string
	since   time.Duration
}

// forsake notes what is outside of the promise: a server that was emptied has
// become part of another deployment before a client of its own gave it the
// identity back.
func (w *world) forsake(s *server) {
	w.forsaken = append(w.forsaken, loss{s.past.lost.Members, s.past.back})
	if len(w.forsaken) > 1 {
		return
	}
	name := "emptied nodes that another set of nodes took, with no client of their own connected"
	if s.past.attended {
		name = "emptied nodes that another set of nodes took before their own clients gave them the seal"
	}
	w.report.Count(name, 1)
}
