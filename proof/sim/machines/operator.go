package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// operate is the operator of a world with fencing numbers, who now and then
// checks whether the servers can give each other their floors, and resets the
// fence if they cannot: when the set was opened, and after too many of them
// lost their memory (redlock.ResetFence).
func (w *world) operate() {
	if w.over {
		return
	}
	w.after(w.span(time.Second), w.operate)
	sealed := 0
	for _, s := range w.servers {
		if r, ok := s.recorded(); ok && r.Floor != pure.NoFloor && (s.durable || r.Run == s.name()) {
			sealed++
		}
	}
	if n := len(w.servers); sealed < n-(n/2+1)+1 || sealed < n/2+1 {
		w.resetFence()
	}
}

// resetFence asks all servers, and then gives each the same floor. It needs all
// of them up, of one deployment, and out of quarantine.
func (w *world) resetFence() {
	var who pure.Identity
	floor := int64(0)
	seals, runs := make([]pure.Seal, len(w.servers)), make([]string, len(w.servers))
	for i, s := range w.servers {
		seal := s.mark().Seal
		if i == 0 {
			who = seal.Identity
		}
		runs[i] = s.name()
		if s.down+s.stopped > 0 || seal.Identity != who || who == (pure.Identity{}) ||
			seal.Run != s.name() && !s.durable || seal.Watched < pure.NeedFor(w.plan.ttl, drift) {
			return
		}
		seals[i] = seal
		r, _ := s.recorded()
		floor = max(floor, r.High(), timeOf(0, s.clock.at(w.now)).Add(w.plan.resetLead).UnixMicro())
	}
	// What the protected resources have seen, of which the operator has asked
	// them.
	for _, o := range w.referee.orders {
		if n := len(o.grants); n > 0 {
			floor = max(floor, o.grants[n-1].highest)
		}
	}
	for i, s := range w.servers {
		w.after(w.span(20*ms), func() {
			if s.down+s.stopped == 0 && s.name() == runs[i] { // the connection still leads to it
				s.giveFloor(givenFloor{seals[i].String(), runs[i], floor})
			}
		})
	}
	w.report.Count("resets of the fence", 1)
}

// recorded returns a server's record of fencing numbers.
func (s *server) recorded() (r pure.Record, ok bool) {
	text, _ := s.numbers.record.text(s.ms())
	r, err := pure.ParseRecord(text)
	return r, err == nil
}
