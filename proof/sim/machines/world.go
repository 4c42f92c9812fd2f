package machines

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/proof/queue"
	"github.com/redmux/redmux/proof/sim"
)

// A world is everything in one seed: servers, links, processes, and future
// events. One goroutine runs it. All random numbers come from one source, in
// the order of events, so that the seed replays exactly.
type world struct {
	seed   uint64
	random *rand.Rand
	plan   scenario
	broken Broken
	only   string

	now    time.Duration // true time
	queue  queue.Queue[event]
	seq    uint64
	over   bool // a property was violated; one is enough
	opened bool // clients may start
	// forsaken is what happened that is outside of the promise; see forsake.
	forsaken []loss

	servers   []*server
	processes []*process
	links     [][]*link // by process and server
	attempts  []*attempt
	tokens    uint64
	runs      int64 // of servers; each has another run id
	stopping  bool  // the faults are over
	mends     []*mend
	referee   referee

	report sim.Report
	hash   uint64
	trace  io.Writer // nil: not wanted
}

// eventsMost bounds one seed. The faults end long before; see
// scenario.eventsUntilCalm.
const eventsMost = 400_000

func newWorld(seed uint64, o Options) *world {
	w := &world{seed: seed, random: rand.New(rand.NewPCG(seed, 0x6d616368696e6573)), broken: o.Broken, only: o.Only, trace: o.Trace}
	w.plan = draw(w.random)
	w.plan.drawKinds(rand.New(rand.NewPCG(seed, 0x6b696e6473)))
	w.note("scenario: %v", w.plan)
	for i := range w.plan.servers() {
		w.servers = append(w.servers, newServer(w, i))
	}
	for range w.plan.processes + w.plan.misfits {
		var row []*link
		for range w.servers {
			row = append(row, newLink(w))
		}
		w.links = append(w.links, row)
	}
	w.referee.world = w
	w.referee.claims = make([][]*claim, w.plan.resources)
	w.referee.orders = make([]order, w.plan.resources)
	w.referee.formReferee = newFormReferee(w.plan.resources)
	w.processes = make([]*process, len(w.links))
	if w.plan.fenced > 0 {
		w.after(w.span(time.Second), w.operate)
	}
	if !w.plan.founded {
		w.open()
		return w
	}
	p := newProcess(w, 0)
	p.founds, p.deployment.Founds, p.workers = true, true, nil
	p.start()
	w.after(4*time.Second, func() { w.founded(p) }) // Init gives up
	return w
}

// founded is the end of Init: its process is gone, and the clients start.
func (w *world) founded(p *process) {
	if !w.opened {
		p.die()
		w.processes[p.index] = nil
		w.open()
	}
}

// open lets the processes start.
func (w *world) open() {
	w.opened = true
	for i := range w.processes {
		w.after(w.plan.startAfter(i)+w.span(w.plan.startSpread), func() {
			if w.processes[i] == nil { // unless calm has started it, because the faults were over first
				newProcess(w, i).start()
			}
		})
	}
	if len(w.plan.faults) == 0 && w.plan.misfits == 0 && w.plan.quarantine {
		w.after(w.plan.startAfter(0)+w.plan.startSpread+4*time.Second, w.agreed)
	}
}

// agreed checks R30: clients of one set that start at the same time agree on
// its deployment within a second, after the 3 s for which nodes that have just
// started are left to other deployments.
func (w *world) agreed() {
	first, _ := w.processes[0].deployment.Identity()
	for i, p := range w.processes {
		if who, _ := p.deployment.Identity(); p.strangers != 0 || who != first {
			w.violate("R30", "process %d has deployment %.4q after 4 s, and process 0 has %.4q", i, who.ID, first.ID)
		}
	}
	w.report.Count("openings without a fault", 1)
}

// nearly returns what a wall clock shows at a true time. Some are off by
// seconds.
func (w *world) nearly(now time.Duration) time.Duration {
	off := 300 * ms
	if w.oneIn(5) {
		off = 30 * time.Second
	}
	return time.Hour + now + w.span(2*off) - off
}

// run runs the seed: a time with faults, a time of rest, and a last check.
func (w *world) run() {
	w.at(w.plan.calmFrom, w.calm)
	if len(w.plan.faults) > 0 {
		w.after(w.span(w.plan.faultEvery), w.misfortune)
	}
	events := 0
	for len(w.queue) > 0 && !w.over {
		e := w.queue.Pop()
		w.now = e.at
		w.mix(uint64(e.at), e.seq)
		e.do()
		events++
		if events == w.plan.eventsUntilCalm {
			w.calm()
		}
		if events > eventsMost {
			w.violate("R28", "it never comes to rest")
			w.over = true
		}
	}
	w.report.Seeds, w.report.Simulated = 1, w.now
	w.report.Count("events", events)
}

// An event is in the future. Of two at the same time, the one that was planned
// first comes first.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e event) Before(other event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

// at schedules do at a true time.
func (w *world) at(t time.Duration, do func()) {
	w.seq++
	w.queue.Push(event{t, w.seq, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// span returns a uniformly random time below most.
func (w *world) span(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(w.random.Int64N(int64(most)))
}

// oneIn returns true once in n times.
func (w *world) oneIn(n int) bool { return w.random.IntN(n) == 0 }

// violate records that a property does not hold, and ends the seed.
func (w *world) violate(rule, format string, args ...any) {
	if w.over || w.only != "" && w.only != rule {
		return
	}
	w.over = true
	w.report.Violate(w.seed, rule, format+" (at %v; run it again with -sim.seed=%d -sim.trace)", append(args, w.now, w.seed)...)
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12v VIOLATION %v\n", w.now, w.report.Violations[len(w.report.Violations)-1])
	}
}

// mix adds values to the hash of the trace.
func (w *world) mix(values ...uint64) {
	for _, v := range values {
		w.hash = (w.hash ^ v) * 0x100000001b3
		w.hash ^= w.hash >> 29
	}
}

// step records an event in numbers: it is part of the hash, and is printed if a
// trace is wanted.
func (w *world) step(format string, numbers ...int64) {
	w.mix(uint64(len(format)))
	for _, n := range numbers {
		w.mix(uint64(n))
	}
	if w.trace == nil {
		return
	}
	args := make([]any, len(numbers))
	for i, n := range numbers {
		args[i] = n
	}
	w.note(format, args...)
}

// note prints to the trace only.
func (w *world) note(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12v "+format+"\n", append([]any{w.now}, args...)...)
	}
}
