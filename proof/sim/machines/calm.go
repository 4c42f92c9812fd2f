package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// calm ends all faults and lets every worker finish.
func (w *world) calm() {
	if w.stopping {
		return
	}
	w.stopping = true
	w.step("all faults are over")
	for _, m := range w.mends {
		m.now()
	}
	if !w.opened {
		w.founded(w.processes[0])
	}
	for i, p := range w.processes {
		if p == nil {
			newProcess(w, i).start() // it would have started later
			continue
		}
		for _, k := range p.workers {
			if k.letGo != nil {
				k.letGo()
			}
		}
	}
	// A node that was out waits a second, and two more if it has used up its
	// dials. A watch lasts as long as a lock and its drift on the slowest
	// clock, and so does a key that was never released on a server whose clock
	// was turned back.
	rest := 4*time.Second + w.plan.dialTimeout
	if w.plan.quarantine {
		rest += 6 * time.Second // what is left of openings is removed
	}
	lives := w.plan.ttl + w.plan.ttl/50 + 50*ms
	for _, s := range w.servers {
		lives += s.turnedBack
	}
	w.after(rest+2*lives, w.atRest)
}

// atRest checks liveness: some time after the last fault, every node counts for
// every process, nothing is owed, and locks are granted. Processes whose nodes
// must count belong to one deployment (R30).
func (w *world) atRest() {
	var agreed pure.Identity
	for _, p := range w.processes {
		if who, bound := p.deployment.Identity(); bound && w.mustCount(p) {
			if agreed != (pure.Identity{}) && who != agreed {
				w.violate("R30", "process %d has deployment %.4s, and another %.4s", p.index, who.ID, agreed.ID)
			}
			agreed = who
		}
		for _, m := range p.members {
			switch {
			case m.life.State != pure.Up:
				w.violate("liveness", "node %d of process %d is %v", m.index, p.index, m.life.State)
			case w.mustCount(p) && p.quarantined.Has(m.index):
				w.violate("liveness", "node %d of process %d is quarantined: %s, berth %d", m.index, p.index, m.trust.Why, p.deployment.Berth(m.index))
			case w.mustCount(p) && p.floorless.Has(m.index):
				w.violate("liveness", "node %d of process %d has no floor", m.index, p.index)
			case len(m.ledger.Debts) > 0:
				w.violate("liveness", "node %d of process %d owes %d releases", m.index, p.index, len(m.ledger.Debts))
			}
		}
		if len(p.open) > 0 {
			w.violate("R28", "process %d has %d rounds that were never decided", p.index, len(p.open))
		}
	}
	w.probe(0)
}

// mustCount reports whether the nodes of a process must count in the end. Of
// two sets that overlap only one is open, and after some losses neither works.
func (w *world) mustCount(p *process) bool {
	if w.plan.misfits == 0 || !w.plan.quarantine {
		return true
	}
	if w.forsaken != nil {
		return false
	}
	var open pure.Identity
	for _, s := range w.servers {
		if who := s.mark().Seal.Identity; who != (pure.Identity{}) {
			open = who
		}
	}
	if open == (pure.Identity{}) {
		w.violate("liveness", "no set is open")
	}
	return open.Members == p.names()
}

// probes returns what each process must get in the end: each resource, and all
// of them together.
func (w *world) probes() (all [][]int) {
	var every []int
	for resource := range w.plan.resources {
		all, every = append(all, []int{resource}), append(every, resource)
	}
	if w.plan.sets > 0 {
		all = append(all, every)
	}
	return all
}

// probe lets each process acquire each lock once, one after the other.
func (w *world) probe(n int) {
	if w.over {
		return
	}
	wanted := w.probes()
	if n == len(w.processes)*len(wanted) {
		w.after(time.Second, w.last)
		return
	}
	p, resources := w.processes[n%len(w.processes)], wanted[n/len(w.processes)]
	if !w.mustCount(p) || p.fenced && w.plan.lead == shortLead {
		w.probe(n + 1)
		return
	}
	k := p.workers[0]
	t := &wish{resources: resources, ttl: w.plan.ttl, ends: pure.Never, slept: p.slept, triesMax: 1}
	k.shape(t)
	t.done = func(l *lock) {
		if l == nil {
			w.violate("liveness", "process %d does not get resources %v, which no process has", p.index, t.resources)
			w.over = true // even if only another rule is checked
			return
		}
		k.giveBack(l)
		w.after(100*ms, func() { w.probe(n + 1) })
	}
	k.try(t)
}

// last checks R28: nothing is left.
func (w *world) last() {
	for _, s := range w.servers {
		s.each(func(k *key) {
			w.violate("R28", "server %d has the key of attempt %d at the end", s.index, k.attempt.index)
		})
	}
	for _, p := range w.processes {
		p.closed = true
		for _, m := range p.members {
			if len(m.ledger.Debts)+len(p.open) > 0 {
				w.violate("R28", "process %d has something left to do at the end", p.index)
			}
		}
	}
	w.over = true
}
