package faults

import (
	"context"
	"math/rand/v2"
	"time"
)

// One goroutine per node and one per process with proxies draw kinds from the
// deck of their scope. The limiter keeps the faults to a minority of the nodes,
// but for short storms.

// rates shares the faults of a second out among the scopes.
var rates = map[Scope]float64{OfNode: 0.70, OfLink: 0.265, OfProcess: 0.03, OfFleet: 0.005}

// A scheduler injects the faults of one node or of one process.
type scheduler struct {
	run    *run
	deck   *deck
	scope  Scope
	random *rand.Rand
	gap    time.Duration // mean time from the beginning of a fault to that of the next
	node   int           // OfNode
	slot   int           // OfLink
}

// work injects until ctx ends.
func (s *scheduler) work(ctx context.Context) {
	next := time.Now()
	// No gap is longer than twice the mean, so that a run of ten seconds always
	// has every kind.
	for ; ; next = next.Add(time.Duration(min(s.random.ExpFloat64(), 2) * float64(s.gap))) {
		// A scheduler that had to wait catches up, but not for long.
		if behind := time.Now().Add(-5 * s.gap); next.Before(behind) {
			next = behind
		}
		if !s.run.wait(ctx, time.Until(next), s.scope == OfNode) {
			return
		}
		k := s.draw()
		if k == nil {
			if !s.run.wait(ctx, 50*time.Millisecond, false) {
				return
			}
			continue
		}
		if !s.run.limiter.enter(ctx, k) {
			return
		}
		s.strike(ctx, k)
		s.run.limiter.leave(k)
	}
}

// lastFaults is how long before a rest those faults are made that leave most
// behind: keys live for MaxTTL only, so that a rest sees no more than what
// happened a second or two before it.
const lastFaults = 800 * time.Millisecond

func (s *scheduler) draw() *Kind {
	if s.run.untilRest() < lastFaults {
		if k := s.deck.drawLast(); k != nil {
			return k
		}
	}
	return s.deck.draw(func(k *Kind) bool { return s.run.limiter.allowed(k) && s.run.mayKill(k) })
}

// strike makes one fault and heals it.
func (s *scheduler) strike(ctx context.Context, k *Kind) {
	t := s.target(k)
	f := &fault{kind: k, node: -1, slot: -1}
	switch s.scope {
	case OfNode:
		f.node = t.node
	case OfLink:
		f.node, f.slot = t.node, t.slot
	case OfProcess:
		f.slot = t.slot
	}
	s.run.log.begin(f, s.run.limiter.quorum, s.run.limiter.nodes)
	heal, err := t.Inject(ctx)
	if k.Name == killKind {
		s.run.noteKilled()
	}
	if err == nil {
		s.run.wait(ctx, t.life, false)
		err = heal()
	}
	if err != nil {
		s.repair(t, err)
	}
	s.run.log.end(f)
}

// repair starts a server anew if a fault could not be made or healed.
func (s *scheduler) repair(t *target, err error) {
	s.run.results.failedInjection(t.kind.Name, err)
	if s.scope == OfFleet && t.kind.forgets {
		s.run.fail(err) // a server is missing
	}
	if s.scope != OfNode {
		return
	}
	f := &fault{kind: repairKind, node: t.node, slot: -1}
	s.run.log.begin(f, s.run.limiter.quorum, s.run.limiter.nodes)
	defer s.run.log.end(f)
	if err := t.restart(); err != nil {
		s.run.fail(err)
	}
}

// repairKind is never drawn. A node that is repaired forgets.
var repairKind = &Kind{
	Name: "repair", About: "a server that a fault could not be healed on is started anew", Scope: OfNode, forgets: true,
}

// target draws a victim.
func (s *scheduler) target(k *Kind) *target {
	r := s.run
	t := &target{
		kind: k, random: s.random, life: k.lifetime(s.random), fleet: r.fleet, processes: r.processes, node: s.node, slot: s.slot,
	}
	switch s.scope {
	case OfLink:
		t.node = s.random.IntN(len(r.fleet.servers))
		t.proxy = r.processes.proxies[s.slot][t.node]
	case OfProcess:
		t.slot = s.random.IntN(r.options.Processes)
		if k.Name == killKind {
			t.slot = victimSlot(r.options.Processes)
		}
		if t.life == pastValidity {
			t.life = r.options.MaxTTL + 300*time.Millisecond
		}
		return t
	case OfFleet:
		return t
	}
	t.server, t.side = r.fleet.servers[t.node], r.fleet.sides[t.node]
	return t
}

// Only the processes of one slot are killed, so that the others live long
// enough for their memory to be judged.
const killKind = "client-kill-9"

func victimSlot(processes int) int { return min(byTCP, processes-1) }

// storms lets a majority of the nodes fail at once, for a short time now and
// then.
func (r *run) storms(ctx context.Context, random *rand.Rand) {
	for {
		if !r.wait(ctx, r.options.StormEvery/2+time.Duration(random.Int64N(int64(r.options.StormEvery))), false) {
			return
		}
		r.limiter.setStorm(true)
		r.hurry.Store(true)
		r.wait(ctx, 300*time.Millisecond+time.Duration(random.Int64N(int64(700*time.Millisecond))), false)
		r.hurry.Store(false)
		r.limiter.setStorm(false)
	}
}

// wait waits for d. It reports false if ctx has ended. If mayHurry is set, a
// storm ends the wait.
func (r *run) wait(ctx context.Context, d time.Duration, mayHurry bool) bool {
	const step = 10 * time.Millisecond
	for d > 0 {
		if mayHurry && r.hurry.Load() {
			return ctx.Err() == nil
		}
		part := d
		if mayHurry {
			part = min(d, step)
		}
		timer := time.NewTimer(part)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		d -= part
	}
	return ctx.Err() == nil
}
