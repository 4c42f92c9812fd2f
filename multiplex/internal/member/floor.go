package member

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Floors (docs/fencing.md): with numbers, a node grants a claim only with a
// number higher than any granted for the key. A node that lost its memory has
// no floor, and does not count. It is given one to make up for the loss.
// pure.Floors decides on the time and the number.

// sightFloor takes in what a look found of a node's numbers.
func (m *Members) sightFloor(l *look, now time.Duration) {
	i := l.node
	s := pure.Footing{
		Record: l.record, Known: l.recorded == pure.SealSeen, Strange: l.recorded == pure.SealStrange,
		Run: m.nodes[i].trust.Run, Durable: m.config.Durable.Has(i),
	}
	if m.proves(l) {
		s.Proof = l.seal
	}
	m.floors.Sight(i, s, l.asked, now, m.nodesTime(now).UnixMicro())
	if m.config.OnNumber != nil {
		m.config.OnNumber(m.floors.Common())
	}
	m.judgeFloors()
	m.giveFloors()
}

// proves reports whether a look found the node's own account, by clients with a
// watch as long as any attempt can take (F4). The script for the floor compares
// it. A durable node forgets nothing with its process.
func (m *Members) proves(l *look) bool {
	seal := l.sighting.Seal
	if l.sighting.What != pure.SealSeen || m.Doubted.Has(l.node) || !m.nodes[l.node].trust.Believes(seal) {
		return false
	}
	who, _ := m.deployment.Identity()
	return seal.Open == who && seal.Watched >= pure.NeedFor(m.maxTTL, m.config.DriftFactor)
}

// judgeFloors makes the set follow what is known of the nodes. Before a look, a
// node is what it was.
func (m *Members) judgeFloors() {
	floorless := m.Floorless
	for i := range m.nodes {
		switch {
		case m.floors.Sealed(i):
			floorless = floorless.Without(pure.SetOf(i))
		case m.floors.Seen(i):
			floorless = floorless.Add(i)
		}
	}
	if floorless == m.Floorless {
		return
	}
	m.Floorless = floorless
	for i := range m.nodes {
		m.nodes[i].cause = nil
	}
	m.host.Notify()
}

// giveFloors gives nodes their floors, or looks at the others first.
func (m *Members) giveFloors() {
	for i := range m.nodes {
		if !m.up.Has(i) {
			continue
		}
		floor, again, ok := m.floors.Due(i)
		if ok {
			m.giveFloor(i, floor)
			continue
		}
		for j := range m.nodes {
			if (Set(again) & m.up).Has(j) {
				m.lookAgain(j)
			}
		}
	}
}

// giveFloor writes a floor, and then looks for it. What a node cannot do for
// the moment is tried again after the next look.
func (m *Members) giveFloor(i int, floor int64) {
	took := func(said said, v resp.Value) error {
		m.floors.Answered(i)
		switch said {
		case saidDone:
			m.lookAgain(i)
		case saidText:
			return unexpected(v, "the floor", nil)
		}
		return nil // or the seal has changed
	}
	command := m.config.WriteFloor(m.floors.Proof(i), m.nodes[i].trust.Run, floor)
	if m.write(i, "the floor", command, took, func() { m.floors.Answered(i) }) {
		m.floors.Ordered(i)
	}
}

// LostFloor tells of a node's grant without a floor: its memory is gone. It
// returns the cause of the failed vote.
func (m *Members) LostFloor(i int) *Cause {
	if m.floors.Sealed(i) {
		m.floors.Blind(i)
		m.judgeFloors()
		if m.up.Has(i) {
			m.lookAgain(i)
		}
	}
	return m.NoFloor(i)
}

// Disbelieved tells of a refused number with an impossible reason (R33). The
// node's record and clock are read again soon: this client may be wrong.
func (m *Members) Disbelieved(i int) {
	if m.up.Has(i) {
		m.hasten(i)
	}
}

// readClock takes in a node's clock, read since asked.
func (m *Members) readClock(i int, clock time.Time, asked time.Duration) {
	if m.config.OnClock == nil {
		return
	}
	now := m.host.Now()
	here := m.config.Epoch.Round(0).Add((asked + now) / 2) // by its wall clock
	m.ahead = m.clocks.Take(i, pure.Reading{Ahead: clock.Sub(here), Trip: now - asked, At: now})
	m.config.OnClock(m.ahead)
}

// nodesTime returns the time by most nodes' clocks.
func (m *Members) nodesTime(now time.Duration) time.Time {
	return m.config.Epoch.Round(0).Add(now + m.ahead)
}

// tellClock takes the reply to TIME, without the mutex.
func (m *Members) tellClock(i int, v resp.Value, asked time.Duration) error {
	if v.IsError() {
		return nil
	}
	clock, err := ReadTime(v)
	if err != nil {
		return err
	}
	m.host.Lock()
	defer m.host.Unlock()
	m.readClock(i, clock, asked)
	return nil
}
