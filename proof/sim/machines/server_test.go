package machines

import (
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/require"
)

// quiet returns a world in which nothing happens by itself.
func quiet(seed uint64) *world {
	return quietWith(seed, scenario{nodes: 1, processes: 1, resources: 2})
}

// quietWith is quiet with so many servers and processes, and such locks.
func quietWith(seed uint64, plan scenario) *world {
	w := newWorld(seed, Options{})
	w.queue, w.servers, w.links = nil, nil, nil
	plan.workers, plan.ttl, plan.latency, plan.lateness = 1, time.Second, ms, 100*ms
	plan.dialTimeout, plan.debtsMost, plan.calmFrom, plan.faultLasts = time.Second, 100, time.Hour, time.Second
	w.plan = plan
	for i := range plan.nodes {
		w.servers = append(w.servers, newServer(w, i))
	}
	w.referee = referee{world: w, claims: make([][]*claim, plan.resources), orders: make([]order, plan.resources)}
	w.referee.formReferee = newFormReferee(plan.resources)
	w.processes = make([]*process, plan.processes)
	for i := range plan.processes {
		row := []*link(nil)
		for range w.servers {
			row = append(row, newLink(w))
		}
		w.links = append(w.links, row)
		newProcess(w, i)
	}
	return w
}

// pass lets time pass, with all its events.
func (w *world) pass(d time.Duration) {
	until := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := w.queue.Pop()
		w.now = e.at
		e.do()
	}
	w.now = until
}

// The servers execute the commands of the algorithm as Redis does.
func TestServer(t *testing.T) {
	w := quiet(1)
	s, p := w.servers[0], w.processes[0]
	a, b := w.newAttempt(p, []int{0}, 1), w.newAttempt(p, []int{0}, 2)
	do := func(op operation, of *attempt, ttl time.Duration) reply {
		return s.result(&command{op: op, attempt: of, ttl: ttl})
	}
	require.Equal(t, reply{kind: isOK}, do(set, a, 100*ms))
	require.Equal(t, reply{kind: isNull}, do(set, b, 100*ms), "NX")
	require.Equal(t, reply{kind: isInteger}, do(release, b, 0), "it is not its own")
	require.Equal(t, reply{kind: isInteger, n: 1}, do(extend, a, 10*ms))
	w.pass(50 * ms)
	require.Same(t, a, s.look(0), "an extension never shortens")
	require.Equal(t, reply{kind: isInteger, n: 1}, do(extend, a, 100*ms))
	w.pass(90 * ms)
	require.Same(t, a, s.look(0))
	w.pass(11 * ms)
	require.Nil(t, s.look(0), "it has expired")
	require.Equal(t, reply{kind: isInteger, n: 2}, do(heal, a, 100*ms))
	require.Equal(t, reply{kind: isInteger}, do(heal, b, 100*ms))
	require.Equal(t, reply{kind: isInteger, n: 1}, do(release, a, 0))
	s.knowsScripts = false
	require.Equal(t, reply{kind: isNoScript}, do(release, a, 0))
	s.refusesSets++
	require.Equal(t, reply{kind: isError}, do(set, a, 100*ms))
}

// So they do those of locks on several resources.
func TestServerWithSets(t *testing.T) {
	w := quiet(1)
	s, p := w.servers[0], w.processes[0]
	both, one := w.newAttempt(p, []int{0, 1}, 1), w.newAttempt(p, []int{1}, 2)
	do := func(op operation, of *attempt, ttl time.Duration) reply {
		return s.result(&command{op: op, attempt: of, ttl: ttl})
	}
	require.Equal(t, reply{kind: isOK}, do(set, one, 100*ms))
	require.Equal(t, reply{kind: isInteger, n: -2}, do(set, both, 100*ms))
	require.Nil(t, s.look(0), "it sets all or none")
	require.Equal(t, reply{kind: isInteger, n: 1}, do(release, one, 0))
	require.Equal(t, reply{kind: isInteger, n: 1}, do(set, both, 100*ms))
	require.True(t, s.hasAll(both))
	require.Equal(t, reply{kind: isNull}, do(set, one, 100*ms))
	require.Equal(t, reply{kind: isInteger, n: 1}, do(extend, both, 200*ms))
	w.pass(150 * ms)
	require.True(t, s.hasAll(both))
	require.Equal(t, reply{kind: isInteger, n: 1}, do(release, both, 0))
	require.False(t, s.has(both))
}

// A server remembers its fencing numbers, but what it wrote last may be
// forgotten, with its floor or without.
func TestServerWithNumbers(t *testing.T) {
	w := quiet(1)
	w.plan.period, w.plan.lead = time.Second, time.Hour
	s, p := w.servers[0], w.processes[0]
	now := timeOf(0, s.clock.at(0)).UnixMicro()
	try := func(number int64) reply {
		a := w.newAttempt(p, []int{0}, w.newToken())
		a.number = number
		r := s.result(&command{op: set, attempt: a, ttl: 10 * ms})
		w.pass(20 * ms)
		return r
	}
	floored := func() int { return s.giveFloor(givenFloor{s.mark().Seal.String(), "1", now + 5}).n }
	require.Zero(t, floored(), "there is no seal")
	s.past.marks = []writtenMark{{Mark: model.Mark{Seal: pure.Seal{Run: "1", MaxTTL: time.Second, Watched: time.Second}}, at: -time.Hour}}
	require.Equal(t, reply{kind: isNumbered, n: model.GrantedBlind}, try(now+3), "it has no floor")
	require.Equal(t, 1, floored())
	require.Equal(t, reply{kind: isNumbered, n: model.Stale, number: now + 5}, try(now+5))
	require.Equal(t, reply{kind: isNumbered, n: model.Granted, number: now + 5}, try(now+7))
	require.Equal(t, reply{kind: isNumbered, n: model.Stale, number: now + 7}, try(now+7))
	since := w.now
	require.Equal(t, reply{kind: isNumbered, n: model.Granted, number: now + 7}, try(now+9))
	w.pass(4 * time.Second) // another period, and the last number is gone
	r := try(now + 9)
	require.Equal(t, model.Stale, r.n)
	require.GreaterOrEqual(t, r.number, now+9)
	s.forget(since)
	require.Equal(t, reply{kind: isNumbered, n: model.Granted, number: now + 1_000_003}, try(now+1_000_004), "as it was then")
	s.forget(0)
	require.Equal(t, reply{kind: isNumbered, n: model.GrantedBlind}, try(now))
}

// Each reader has its own time, and a restart without the last writes forgets
// readers as it does keys.
func TestServerWithReaders(t *testing.T) {
	w := quietWith(1, scenario{nodes: 1, processes: 1, resources: 1, permits: 1, forms: []formKind{reading}})
	s, p := w.servers[0], w.processes[0]
	of := func(kind formKind) *attempt {
		a := w.newAttempt(p, []int{0}, w.newToken())
		a.form = &form{kind: kind}
		return a
	}
	do := func(op operation, of *attempt, ttl time.Duration) int {
		return s.result(&command{op: op, attempt: of, ttl: ttl}).n
	}
	a, b, c, d := of(reading), of(reading), of(writing), of(reading)
	require.Equal(t, 1, do(set, a, time.Second))
	require.Equal(t, 1, do(set, b, 100*ms))
	w.pass(50 * ms)
	require.True(t, s.hasAll(a) && s.hasAll(b))
	require.Equal(t, -2, do(set, c, time.Second))
	w.pass(51 * ms)
	require.True(t, s.hasAll(a) && !s.has(b))
	require.Zero(t, do(extend, b, time.Second), "its time is over")
	require.Equal(t, 1, do(extend, a, 2*time.Second))
	since := w.now + 1
	w.pass(ms)
	require.Equal(t, 1, do(set, d, time.Second))
	s.forget(since)
	require.True(t, s.has(a) && !s.has(d))
	require.Equal(t, 1, do(release, a, 0))
	require.Equal(t, 1, do(set, c, time.Second))
	require.Equal(t, -1, do(set, d, time.Second))
}

// Commands in flight on a connection that ended may be executed later, in
// order, up to the first one that was lost; after a kill none of them is
// executed (R8).
func TestWire(t *testing.T) {
	for _, killed := range []bool{false, true} {
		executed, lost := 0, 0
		for seed := range uint64(200) {
			w := quiet(seed)
			p, s := w.processes[0], w.servers[0]
			c := &wire{link: p.link(0), process: p, server: s, member: p.members[0], run: s.run}
			s.wires = append(s.wires, c)
			c.held++
			a := w.newAttempt(p, []int{0}, 1)
			c.send(&command{op: set, attempt: a, ttl: time.Second})
			c.send(&command{op: release, attempt: a})
			w.pass(5 * ms)
			require.Nil(t, s.look(0), "it is held")
			c.breakOff()
			if killed {
				require.Equal(t, 1, s.kill(c).n)
			}
			c.held--
			c.link.releaseUp()
			w.pass(time.Second / 2)
			switch {
			case s.look(0) != nil:
				executed++ // and its release was lost
			case a.released == 0:
				lost++
			}
		}
		if killed {
			require.Zero(t, executed)
			require.Equal(t, 200, lost)
			continue
		}
		require.Positive(t, executed)
		require.Positive(t, lost)
	}
}

// A process that was stopped handles at once what has waited, and reports the
// loss of a lock before anything else (R15).
func TestFreeze(t *testing.T) {
	w := quiet(1)
	p := w.processes[0]
	var done []string
	p.after(10*ms, func() { done = append(done, "timer") })
	p.freeze()
	p.run(func() { done = append(done, "reply") })
	w.pass(20 * ms)
	require.Empty(t, done)
	p.thaw()
	require.ElementsMatch(t, []string{"reply", "timer"}, done)

	undo := w.suspend(p)
	before := p.clocks()
	p.after(10*ms, func() { done = append(done, "late") })
	w.pass(time.Second)
	now := p.clocks()
	require.Zero(t, now.at.Sub(before.at), "the monotonic clock stands still")
	undo()
	now = p.clocks()
	require.InDelta(t, time.Second, now.since(before), float64(6*ms))
	wall, slept := now.ahead(before)
	require.InDelta(t, time.Second, wall, float64(6*ms))
	require.Equal(t, time.Second, slept)
	require.Len(t, done, 2)
	w.pass(11 * ms)
	require.Len(t, done, 3)
}
