package machines

import (
	"time"

	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A fencing is what a process knows of fencing numbers (docs/fencing.md): its
// own, and its nodes' floors. The decisions are those of pure.Numbers and
// pure.Floors; what node_floor.go does around them is re-stated here.
type fencing struct {
	fenced    bool // the process has Config.Fenced
	numbers   *pure.Numbers
	floors    pure.Floors
	floorless multiplex.Set // whether live or not
	readings  pure.Clocks
	ahead     time.Duration // of most nodes' clocks
	beliefs   *pure.Beliefs
	begun     time.Time // by its wall clock
	epoch     time.Duration
}

func newFencing(p *process) fencing {
	f := fencing{floors: pure.NewFloors(p.size), readings: make(pure.Clocks, p.size), beliefs: pure.NewBeliefs(p.clocks().at), begun: p.clocks().at, epoch: p.now()}
	if w := p.world; w.plan.fenced > 0 && w.random.IntN(100) < w.plan.fenced {
		f.fenced, f.numbers = true, pure.NewNumbers(f.begun)
		f.floorless = all(p.size)
	}
	return f
}

// judgeFenced reads a reply to a number, and learns from it, however late it
// comes.
func (p *process) judgeFenced(a *attempt, r reply) multiplex.Vote {
	broken := p.world.broken
	// Where numbers are not corrected, a process's clock may be far from the
	// nodes', and is no measure of what to believe.
	if p.world.plan.corrects && r.n != model.Granted && r.n != model.GrantedBlind && !p.beliefs.Believes(r.number, p.clocks().at) {
		p.world.report.Count("numbers beyond belief", 1)
		return multiplex.Beyond
	}
	switch r.n {
	case model.Granted:
		if broken.is(CounterForEach) {
			a.number = max(a.number, r.number)
		}
		return multiplex.Granted
	case model.GrantedBlind:
		if broken.is(BlindCounts) || broken.is(FloorNotNeeded) {
			return multiplex.Granted
		}
		return multiplex.Floorless
	case model.Stale:
		p.numbers.Stale(r.number)
		if broken.is(StaleCounts) {
			return multiplex.Granted
		}
	case model.Ahead:
		if now := p.clocks().at; !p.world.plan.corrects { // its clock is set, for their order depends on none
			p.numbers = pure.NewNumbers(now)
			p.numbers.Correct(time.Duration(r.number-now.UnixMicro()) * time.Microsecond)
		}
		return multiplex.Beyond
	default:
		p.numbers.Learn(r.number)
	}
	return multiplex.Refused
}

// readClock takes in a node's clock, which was read since asked. In some worlds
// numbers are not corrected by it: their order depends on no clock.
func (m *member) readClock(clock, asked time.Duration) {
	p := m.process
	if !p.fenced || !p.world.plan.corrects {
		return
	}
	now := p.now()
	here := p.begun.Round(0).Add((asked+now)/2 - p.epoch)
	ahead := timeOf(0, clock).Sub(here)
	p.ahead = p.readings.Take(m.index, pure.Reading{Ahead: ahead, Trip: now - asked, At: now})
	p.numbers.Correct(p.ahead)
	p.beliefs.Correct(p.ahead)
}

// sightFloor takes in what a look found of the node's numbers.
func (m *member) sightFloor(g *glance) {
	p := m.process
	if !p.fenced {
		return
	}
	record, err := pure.ParseRecord(g.record)
	s := pure.Footing{Record: record, Known: err == nil, Run: m.trust.Run, Durable: m.trust.Durable}
	who, _ := p.deployment.Identity()
	seal := g.sighting.Seal
	proved := g.sighting.What == pure.SealSeen && m.trust.Believes(seal) && seal.Watched >= pure.NeedFor(p.maxTTL, drift)
	if proved && seal.Identity == who && !p.quarantined.Has(m.index) {
		s.Proof = seal.String()
	}
	clock := int64(pure.MostNumber)
	if p.world.plan.corrects {
		clock = p.clocks().at.UnixMicro() + p.ahead.Microseconds()
	}
	p.floors.Sight(m.index, s, g.asked, p.now(), clock)
	p.beliefs.Agree(p.floors.Common())
	p.judgeFloors()
	p.giveFloors()
}

// judgeFloors makes the process's set follow what is known of the nodes. A node
// is what it was until it was looked at.
func (p *process) judgeFloors() {
	for i := range p.members {
		switch {
		case p.floors.Sealed(i), p.world.broken.is(FloorNotNeeded) && p.floors.Seen(i):
			p.floorless &^= bit(i)
		case p.floors.Seen(i):
			p.floorless |= bit(i)
		}
	}
}

// giveFloors gives nodes their floors, or looks at the others first.
func (p *process) giveFloors() {
	for i, m := range p.members {
		if !p.live.Has(i) {
			continue
		}
		floor, again, ok := p.floors.Due(i)
		if ok {
			m.giveFloor(floor)
			continue
		}
		for j, other := range p.members {
			if multiplex.Set(again).Has(j) && p.live.Has(j) && !other.looks.Asking {
				other.look()
			}
		}
	}
}

// A givenFloor is the arguments of floor.lua.
type givenFloor struct {
	seal, run string
	floor     int64
}

// giveFloor writes a floor, and then looks whether it is there.
func (m *member) giveFloor(n int64) {
	p := m.process
	p.floors.Ordered(m.index)
	p.world.report.Count("floors given", 1)
	m.send(expected{purpose: floor, cmd: &command{op: giveFloor, floor: givenFloor{p.floors.Proof(m.index), m.trust.Run, n}}})
}

func (m *member) floored(r reply) {
	p := m.process
	p.floors.Answered(m.index)
	switch {
	case r.kind == isInteger && r.n == 1 && !m.looks.Asking:
		m.look()
	case r.kind == isNoScript:
		m.cureScripts()
		m.looks.Hasten(p.now())
		m.arm(m.looks.Next)
	}
}

// floorLost takes in that a node granted a number without a floor: its memory
// is gone.
func (m *member) floorLost() {
	p := m.process
	if !p.floors.Sealed(m.index) {
		return
	}
	p.floors.Blind(m.index)
	p.judgeFloors()
	if p.live.Has(m.index) && !m.looks.Asking {
		m.look()
	}
}
