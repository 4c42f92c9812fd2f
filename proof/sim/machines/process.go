package machines

import (
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A process is one client with its group of connections: a redlock.Client and
// its multiplex.Group, re-stated around the pure machines. A process can be
// stopped, suspended and killed, and its wall clock can be set.
type process struct {
	world      *world
	index      int
	mono, wall clock
	slept      time.Duration // in total
	dead       bool          // killed: nothing more runs in it
	closed     bool
	frozen     int       // faults that keep it from running
	backlog    []waiting // what it does when it continues
	goesSince  time.Duration

	// The state of multiplex.Group.
	members     []*member
	size        int
	quorum      int
	live        multiplex.Set
	quarantined multiplex.Set // whether live or not
	head        uint64        // position of the next round in the log
	longest     time.Duration // the longest TTL requested so far
	excused     time.Duration // see pure.Excused
	maxTTL      time.Duration
	deployment  pure.Deployment
	due         time.Duration // when it is looked after next
	strangers   multiplex.Set // nodes that do not show the deployment
	rivals      bool          // they show several
	founds      bool          // like redlock.Init
	believed    pure.Identity // for Broken
	fencing
	tickets    *pure.Numbers
	lastPermit map[int]int // by resource

	quorumTime time.Duration // smoothed, for retries
	workers    []*worker
	open       []*round // undecided
}

// A waiting item is done when the process continues: a reply to read, or a
// timer that fires.
type waiting struct {
	do    func()
	timer bool
}

func newProcess(w *world, index int) *process {
	set := w.plan.setOf(index)
	p := &process{world: w, index: index, size: len(set), quorum: multiplex.Quorum(len(set)), goesSince: w.now}
	rate := w.plan.rate(w.random)
	p.mono = clock{ppm: rate, base: w.span(time.Minute), since: w.now}
	p.wall = clock{ppm: rate, base: w.nearly(w.now), since: w.now}
	if w.plan.quarantine {
		p.maxTTL = w.plan.ttl
	}
	for i, s := range set {
		p.members = append(p.members, newMember(p, i, w.servers[s]))
	}
	p.deployment = pure.NewDeployment(p.addrs())
	p.deployment.Need, p.deployment.Drift = pure.NeedFor(p.maxTTL, drift), drift
	if p.maxTTL > 0 {
		p.strangers = all(p.size)
		p.quarantined = p.strangers // fresh processes obey quarantine too (R23)
	}
	p.fencing = newFencing(p)
	p.tickets, p.lastPermit = pure.NewNumbers(p.clocks().at), make(map[int]int)
	w.processes[index] = p
	for i := range w.plan.workers {
		p.workers = append(p.workers, &worker{process: p, index: i})
	}
	return p
}

// start begins to connect and to work.
func (p *process) start() {
	for _, m := range p.members {
		p.world.disturb(p.link(m.server.index))
		m.step(pure.Started)
	}
	p.world.setTraps(p)
	for _, k := range p.workers {
		k.rest()
	}
}

// names returns the set of servers that the process names.
func (p *process) names() string { return pure.MembersOf(p.addrs()) }

// addrs returns the addresses of the process's servers.
func (p *process) addrs() (all []string) {
	for _, m := range p.members {
		all = append(all, strconv.Itoa(m.server.index))
	}
	return all
}

// link returns the way to a server.
func (p *process) link(server int) *link { return p.world.links[p.index][server] }

// member returns what the process knows of a server, or nil if the server is
// not one of its nodes.
func (p *process) member(server int) *member {
	for _, m := range p.members {
		if m.server.index == server {
			return m
		}
	}
	return nil
}

// now returns the process's monotonic clock, which all its timers use.
func (p *process) now() time.Duration { return p.mono.at(p.world.now) }

// clocks reads all clocks of the process.
func (p *process) clocks() instant {
	return instant{timeOf(p.now(), p.wall.at(p.world.now)), p.slept}
}

// run runs do now, or when the process continues.
func (p *process) run(do func()) { p.runAs(do, false) }

func (p *process) runAs(do func(), timer bool) {
	switch {
	case p.dead:
	case p.frozen > 0:
		p.backlog = append(p.backlog, waiting{do, timer})
	default:
		do()
	}
}

// after sets a timer on the monotonic clock.
func (p *process) after(d time.Duration, do func()) { p.wake(p.now()+d, do) }

func (p *process) wake(due time.Duration, do func()) {
	if p.mono.still {
		p.backlog = append(p.backlog, waiting{func() { p.wake(due, do) }, true})
		return
	}
	p.world.at(p.mono.when(due, p.world.now), func() {
		if p.now() < due { // the process was suspended meanwhile
			p.wake(due, do)
			return
		}
		p.runAs(do, true)
	})
}

// freeze is SIGSTOP: nothing runs, but the clocks do. Replies and timers wait.
func (p *process) freeze() { p.frozen++ }

// thaw continues the process, and all waiting items run at once. Whether
// replies are read before timers fire is the scheduler's choice.
func (p *process) thaw() {
	p.frozen--
	if p.frozen > 0 || p.dead {
		return
	}
	p.goesSince = p.world.now
	p.world.referee.firstQuestion(p)
	for _, m := range p.members {
		m.silence.Excuse(p.now())
	}
	all := p.backlog
	p.backlog = nil
	if p.world.oneIn(2) {
		all = repliesFirst(all)
	}
	for _, next := range all {
		p.runAs(next.do, next.timer)
	}
}

func repliesFirst(all []waiting) []waiting {
	ordered := make([]waiting, 0, len(all))
	for _, timers := range [...]bool{false, true} {
		for _, next := range all {
			if next.timer == timers {
				ordered = append(ordered, next)
			}
		}
	}
	return ordered
}

// die is SIGKILL: the kernel ends the process's connections, and its keys stay
// until their TTL ends.
func (p *process) die() {
	p.dead, p.backlog = true, nil
	for _, m := range p.members {
		if m.wire != nil {
			m.wire.breakOff()
		}
	}
	for _, a := range p.world.attempts {
		if a.process == p && !a.over {
			a.over, a.kept, a.ended = true, true, p.world.now
		}
	}
	p.world.referee.died(p)
}

// counting returns the nodes whose grants make a lock.
func (p *process) counting() multiplex.Set { return p.live &^ p.quarantined &^ p.floorless }

// fastest returns the place in the log up to which the fastest connected node
// has answered.
func (p *process) fastest() (pos uint64) {
	for _, m := range p.members {
		if m.life.State == pure.Up {
			pos = max(pos, m.answered())
		}
	}
	return pos
}

// jitter returns a uniform number in [0, 1).
func (p *process) jitter() float64 { return p.world.random.Float64() }

// learn smooths the time to a quorum, which paces retries.
func (p *process) learn(spent time.Duration) {
	p.quorumTime = pure.Smoothed(p.quorumTime, spent)
}
