package faults

import (
	"context"
	"math/rand/v2"
	"time"
)

// Who injects what when. One goroutine per node and one per process with proxies draw kinds from a bag of their scope,
// which holds each kind as often as it weighs; the first bag holds each once, so that a short run has all of them too.
// The gate keeps them to a minority of the nodes, but for short storms.

// rates is how the faults of a second are shared out among the scopes.
var rates = map[Scope]float64{OfNode: 0.70, OfLink: 0.27, OfProcess: 0.03}

// A scheduler injects the faults of one node or of one process.
type scheduler struct {
	run    *run
	bag    *bag
	scope  Scope
	random *rand.Rand
	gap    time.Duration // mean time from the beginning of a fault to that of the next
	node   int           // OfNode
	slot   int           // OfLink
}

// work injects until ctx ends.
func (s *scheduler) work(ctx context.Context) {
	next := time.Now()
	// No gap is longer than twice the mean, so that a run of ten seconds has every kind by no chance.
	for ; ; next = next.Add(time.Duration(min(s.random.ExpFloat64(), 2) * float64(s.gap))) {
		// A scheduler that was kept waiting catches up, but not for long.
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
		if !s.run.gate.enter(ctx, k) {
			return
		}
		s.strike(ctx, k)
		s.run.gate.leave(k)
	}
}

// lastFaults is how long before a rest those faults are made after which it is most worth looking for what was left: keys
// live for MaxTTL only, so that a rest sees no more than what happened a second or two before it.
const lastFaults = 800 * time.Millisecond

func (s *scheduler) draw() *Kind {
	if s.run.untilRest() < lastFaults {
		if k := s.bag.drawLast(); k != nil {
			return k
		}
	}
	return s.bag.draw(func(k *Kind) bool { return s.run.gate.allowed(k) && s.run.mayKill(k) })
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
	s.run.log.begin(f, s.run.gate.quorum, s.run.gate.nodes)
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
	at := s.run.log.end(f)
	if f.node >= 0 { // of a node that forgot, the clients' quarantine is part of the time until its vote counts
		s.run.tellHealed(f, at)
	}
}

// repair is for when a fault could not be made or healed: the server is started anew, whatever state it was left in.
func (s *scheduler) repair(t *target, err error) {
	s.run.results.failedInjection(t.kind.Name, err)
	if s.scope != OfNode {
		return
	}
	f := &fault{kind: repairKind, node: t.node, slot: -1}
	s.run.log.begin(f, s.run.gate.quorum, s.run.gate.nodes)
	defer s.run.log.end(f)
	if err := t.restart(); err != nil {
		s.run.fail(err)
	}
}

// repairKind is no kind that is drawn, but a node that it befalls forgets.
var repairKind = &Kind{
	Name: "repair", About: "a server that a fault could not be healed on is started anew", Scope: OfNode, forgets: true,
}

// target draws a victim.
func (s *scheduler) target(k *Kind) *target {
	r := s.run
	t := &target{
		kind: k, random: s.random, life: k.lifetime(s.random), fleet: r.fleet, crew: r.crew, node: s.node, slot: s.slot,
	}
	switch s.scope {
	case OfLink:
		t.node = s.random.IntN(len(r.fleet.servers))
		t.proxy = r.crew.proxies[s.slot][t.node]
	case OfProcess:
		t.slot = s.random.IntN(r.options.Processes)
		if k.Name == killKind {
			t.slot = victimSlot(r.options.Processes)
		}
		if t.life == pastValidity {
			t.life = r.options.MaxTTL + 300*time.Millisecond
		}
		return t
	}
	t.server, t.side = r.fleet.servers[t.node], r.fleet.sides[t.node]
	return t
}

// Only the processes of one slot are killed, so that those of the others live long enough for their memory to be judged.
const killKind = "client-kill-9"

func victimSlot(processes int) int { return min(byTCP, processes-1) }

// storms let a majority of the nodes fail at once, for a short time now and then.
func (r *run) storms(ctx context.Context, random *rand.Rand) {
	for {
		if !r.wait(ctx, r.options.StormEvery/2+time.Duration(random.Int64N(int64(r.options.StormEvery))), false) {
			return
		}
		r.gate.setStorm(true)
		r.hurry.Store(true)
		r.wait(ctx, 300*time.Millisecond+time.Duration(random.Int64N(int64(700*time.Millisecond))), false)
		r.hurry.Store(false)
		r.gate.setStorm(false)
	}
}

// wait waits. A storm hurries those who wait for the next fault of their node. It reports false when ctx has ended.
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
