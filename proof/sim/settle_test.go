package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
)

// settle checks what follows when all faults are over: masters count again and
// locks are granted within the bounds of R26, and every debt is paid.
func (w *world) settle() {
	if len(w.report.violations) > 0 {
		return // one violation is enough, and what follows it proves nothing
	}
	if w.draw.broken.staysAway {
		w.masters[0].absent.on()
		w.masters[0].node.DropConns()
	}
	start := time.Now()
	var wg sync.WaitGroup
	for _, p := range w.running() {
		wg.Go(func() { w.awaitHealth(p, start) })
	}
	wg.Wait()
	w.awaitFloors()
	w.awaitExpiry()
	for _, p := range w.running() {
		w.awaitGrant(p)
	}
	w.awaitExpiry()
}

// extra returns what some kinds of faults add to the bounds of R26, which apply
// to masters that were stopped or refused connections.
func (d *draw) extra() (all time.Duration) {
	if d.has("half-open") || d.has("drip") || d.has("dials held") || d.has("narrow window") {
		all += dialTimeout // a handshake hangs until its timeout
	}
	return all + 20*d.latency
}

// repeated returns how long a release may be repeated because its SET may still
// arrive (R8).
func (d *draw) repeated() time.Duration {
	if d.has(killForbidden) {
		return d.longest + d.slack(d.longest)
	}
	return 0
}

// barred is the longest delay that refused credentials can have reached in a
// contest: 1 s, 2 s, 4 s. It is allowed only for processes that wait for it.
const barred = 4 * time.Second

// isBarred reports whether the process waits before it dials a master again,
// because its credentials were refused.
func (p *process) isBarred() bool {
	return slices.ContainsFunc(p.client.Nodes(), func(n redlock.NodeStatus) bool {
		return n.State != "up" && n.Err != nil && strings.Contains(n.Err.Error(), "NOPERM")
	})
}

// paidWithin is how long it may take until all debts are paid (R8, R26).
const paidWithin = 1500 * ms

// steady is how long all must have been well: by then a connection that died
// silently is given up.
const steady = unnoticed

// lenient is how much longer a connection that died silently may seem well if
// no other master is faster (R26): a starved client must not give up all its
// connections.
const lenient = 1500 * ms

// awaitHealth waits until all masters count for a process and all its debts are
// paid. Meanwhile it acquires locks, as a process does: an idle process need
// not notice that a connection is dead.
func (w *world) awaitHealth(p *process, start time.Time) {
	counts, paid := redial+w.draw.extra()+w.draw.quarantine()+w.draw.opening(), paidWithin+w.draw.extra()+w.draw.repeated()
	counted, settled := start, start // since when all masters count, and since when no debt is left
	waits, answered, misplaced := false, true, false
	for {
		if !waits && p.isBarred() {
			waits, counts, paid = true, counts+barred, paid+barred
			w.count("processes barred at the end", 1)
		}
		missing, owing, now := w.missing(p, misplaced), p.owing(), time.Now()
		if missing != "" {
			counted = now
		}
		if owing > 0 {
			settled = now
		}
		switch since := now.Sub(start); {
		case now.Sub(counted) > steady && now.Sub(settled) > steady && (answered || misplaced || since > counts+lenient):
			return
		case missing != "" && since > counts:
			w.violate("R26", "%s: %v after the last fault: %s", p.name, since, missing)
			return
		case owing > 0 && since > paid:
			w.violate("R26", "%s: %v after the last fault %d debts", p.name, since, owing)
			return
		}
		lock, err := p.client.TryAcquire(context.Background(), "probe of "+p.name, w.draw.shortest+signature*ms)
		answered, misplaced = !errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, redlock.ErrDeployment)
		if err == nil {
			err = lock.Release(context.Background())
		}
		if err != nil && !isOneOf(err, append(attemptErrors, redlock.ErrNotHeld)) {
			w.violate("R12", "%s: an error that is not documented: %v", p.name, err)
			return
		}
		time.Sleep(10 * ms)
	}
}

// missing says what is not yet as it should be for a process, if misplaced tells
// that its client was refused for its set of masters.
func (w *world) missing(p *process, misplaced bool) string {
	w.lookAtSeals()
	switch w.share(p) {
	case whole:
		return p.missing(p.masters)
	case common:
		return p.missing(w.inBoth())
	case refused:
		if misplaced {
			return ""
		}
		return "the masters belong to the other set, and it does not say so"
	}
	if w.takenOver() != nil {
		return "" // each set may have lost masters to the other
	}
	return "no set is open"
}

// missing says which of some masters do not count for the process, and why.
func (p *process) missing(masters []*master) (text string) {
	for _, m := range masters {
		i, n := m.index, p.status(m)
		if n.State != "up" || n.Quarantined {
			text += fmt.Sprintf("node %d is %s, quarantined %t (%s): %v; ", i, n.State, n.Quarantined, n.QuarantineWhy, n.Err)
		}
	}
	return text
}

func (p *process) owing() (debts int) {
	for _, n := range p.client.Nodes() {
		debts += n.Debts
	}
	return debts
}

// awaitExpiry waits until everything that may outlive its owner must have
// expired, and checks that nothing else is left (R8).
func (w *world) awaitExpiry() {
	time.Sleep(2*w.draw.latency + goneMost) // releases may be in flight
	for _, m := range w.masters {
		for key, value := range m.values() {
			if !w.tokens.stays(value) {
				w.violate("R8", "%s: its key is on node %d, though nothing is owed", key, m.index)
			}
		}
	}
	for i := 0; i == 0 || i < 8 && w.deadAsk(); i++ {
		time.Sleep(w.draw.longest + w.draw.slack(w.draw.longest) + 200*ms) // a clock may have stepped back
	}
	for _, m := range w.masters {
		if left := m.values(); len(left) > 0 {
			w.violate("R8", "node %d has keys that should have expired: %q", m.index, slices.Sorted(maps.Keys(left)))
		}
	}
}

// deadAsk reports whether masters have keys of processes that crashed. What
// these had written may arrive long after, if their lanes were slow (drip).
func (w *world) deadAsk() bool {
	for _, m := range w.masters {
		for _, value := range m.values() {
			if w.tokens.ofDead(value) {
				return true
			}
		}
	}
	return false
}

// awaitGrant checks that a lock is granted at once, since by now no process
// holds any, unless the process has the wrong set of masters.
func (w *world) awaitGrant(p *process) {
	time.Sleep(2*w.draw.latency + goneMost) // the last release may not have reached all masters
	lock, err := p.client.TryAcquire(context.Background(), "r0", w.draw.longest)
	switch share := w.share(p); {
	case err == nil && share == refused:
		w.violate("R30", "%s: a lock is granted, and the masters belong to the other set", p.name)
	case err == nil:
		if err := lock.Release(context.Background()); err != nil {
			w.violate("R9", "%s: a release: %v", p.name, err)
		}
	case share == refused:
		w.count("clients of the other set refused", 1)
	case share != unsettled:
		w.violate("liveness", "%s: no lock is granted, although no process holds it: %v", p.name, err)
	}
}

// end closes all clients; then nothing is left of them (R28). A leaked
// goroutine would keep the bubble from ending.
func (w *world) end() {
	var wg sync.WaitGroup
	for _, p := range w.running() {
		wg.Go(func() { w.closeHolding(p) })
	}
	wg.Wait()
	time.Sleep(50 * ms)
	w.mu.Lock()
	lives := slices.Clone(w.lives)
	w.mu.Unlock()
	for _, p := range lives {
		if p.isDead() {
			wg.Go(func() { p.bury() })
			continue
		}
		for i, l := range p.lanes {
			if n := l.link.Dialed(); n > 0 {
				w.violate("R28", "%s is closed, and has %d connections to node %d", p.name, n, i)
			}
		}
	}
	wg.Wait()
}

// closeHolding closes a process that holds a lock. No fault is left, so what
// ReleaseOnClose promises must be true on every master.
func (w *world) closeHolding(p *process) {
	resource := "held by " + p.name
	_, err := p.client.Lock(resource).TryHold(context.Background(), redlock.HoldOptions{TTL: w.draw.longest})
	p.close()
	if err != nil || !p.config.ReleaseOnClose {
		return
	}
	w.count("closes that release", 1)
	time.Sleep(2*w.draw.latency + goneMost)
	for _, m := range w.masters {
		if _, there := m.node.Get(w.draw.prefix + resource); there {
			w.violate("R28", "%s: Close left a hold's key on node %d", p.name, m.index)
		}
	}
}

// bury ends the client of a process that crashed. It can send nothing and
// receives nothing.
func (p *process) bury() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p.world.tally(p)
	_ = p.client.Close(ctx)
}
