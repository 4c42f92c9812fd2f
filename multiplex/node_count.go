package multiplex

import (
	"math/bits"
	"sync/atomic"

	"github.com/redmux/redmux/conn"
)

// Counts tell what happened with one node since the group was made; nothing is ever reset. Each number is exact, but they
// are not taken at one instant, and a reader adds what it has read only when it has read all that there was: a sum over
// several of them may be short of what is under way.
type Counts struct {
	// Granted, Refused and Failed are the votes that counted, each before its round was decided (R17).
	Granted, Refused, Failed uint64
	// TimedOut, Absent and Quarantined tell of the failed votes: given up for want of an answer in time (R6), of a node
	// that was not up when the command was queued, or discounted since the node may have forgotten keys (R23). The others are
	// errors that the node answered, and connections that died.
	TimedOut, Absent, Quarantined uint64
	// Late are replies that did not count, since the round was decided without them. That is ordinary: a quorum was faster
	// (R5). Overdue are those of them whose own vote had been given up: this node was too slow.
	Late, Overdue uint64
	// Errors are the errors that it answered to lock commands, by conn.Class: "NOSCRIPT", "OOM" … Nil if there were none.
	Errors map[string]uint64
	// Dials are attempts to connect and shake hands, DialFailures those that led to nothing.
	Dials, DialFailures uint64
	// Deaths are connections that ended, by cause: "silent" (shed, R26), "stalled" (a full backlog), "indebted" (R8),
	// "protocol" (no RESP), "unexpected" (a reply that cannot answer, R16), "forgot" (scripts lost before it joined),
	// "peer" (ended by the node or the network), "closed" (by us). Nil if there were none.
	Deaths map[string]uint64
	// Probes are PINGs to an idle connection (R26), Cures commands that were sent again with their scripts (R24).
	Probes, Cures uint64
	// DebtsMade are releases that this node came to owe (R8), DebtsPaid those that it confirmed, also if they are still
	// repeated to be safe, and DebtsExpired those whose keys had to have expired before.
	DebtsMade, DebtsPaid, DebtsExpired uint64
}

// counters are where a node's Counts come from. What replies say is counted by whoever reads, for itself, and added to the
// atomics once for all replies that came together, so that nobody who counts shares a cache line with another.
type counters struct {
	batch replies // owned by whoever reads

	granted, refused, failed, late, overdue atomic.Uint64
	errors                                  [classes]atomic.Uint64

	// The following are guarded by the group's mutex.
	died                               uint64 // votes that a dying connection owed
	missed                             [reasons]uint64
	deaths                             [deathCauses]uint64
	dials, dialFailures, probes, cured uint64
	connects, ended, sheds             int // see Status; ended is the sum of deaths
}

// replies counts votes by what became of them.
type replies struct{ granted, refused, failed, late, overdue uint64 }

// classes is more than package conn has.
const classes = 32

// A reason says why a vote failed that no reply was about.
type reason uint8

const (
	overdue     reason = iota // it was given up (R6)
	absent                    // the node was not up
	quarantined               // the node was up, and its grant would not have counted (R23)
	reasons
)

// publish adds what was counted since the last time. The caller reads this node.
func (c *counters) publish() {
	addTo(&c.granted, c.batch.granted)
	addTo(&c.refused, c.batch.refused)
	addTo(&c.failed, c.batch.failed)
	addTo(&c.late, c.batch.late)
	addTo(&c.overdue, c.batch.overdue)
	c.batch = replies{}
}

func addTo(sum *atomic.Uint64, n uint64) {
	if n > 0 {
		sum.Add(n)
	}
}

// countError counts an error that the node answered.
func (c *counters) countError(class conn.Class) {
	c.errors[min(int(class), classes-1)].Add(1)
}

// countMissed counts votes that failed without a reply. The caller holds the mutex.
func (g *Group) countMissedLocked(votes Set, why reason) {
	for ; votes != 0; votes &= votes - 1 {
		g.nodes[bits.TrailingZeros16(uint16(votes))].counters.missed[why]++
	}
}

// countDeath counts the end of a connection. Where we broke it, the reader may have met with another error meanwhile. The
// caller holds the mutex, and the node's life has not learned of the end yet.
func (n *node) countDeathLocked(cause error) {
	if n.life.State == Shed {
		cause = n.fault.err
	}
	n.counters.deaths[deathOf(cause)]++
}

// counts takes the numbers. The caller holds the mutex.
func (n *node) countsLocked() Counts {
	c, l := &n.counters, &n.ledger
	all := Counts{
		Granted: c.granted.Load(), Refused: c.refused.Load(), Failed: c.failed.Load() + c.died,
		TimedOut: c.missed[overdue], Absent: c.missed[absent], Quarantined: c.missed[quarantined],
		Late: c.late.Load(), Overdue: c.overdue.Load(),
		Dials: c.dials, DialFailures: c.dialFailures, Probes: c.probes, Cures: c.cured,
		DebtsMade: l.Made, DebtsPaid: l.Paid, DebtsExpired: l.Expired,
	}
	for _, missed := range c.missed {
		all.Failed += missed
	}
	for i := range c.errors {
		all.Errors = note(all.Errors, conn.Class(i).String(), c.errors[i].Load())
	}
	for i, deaths := range c.deaths {
		all.Deaths = note(all.Deaths, death(i).String(), deaths)
	}
	return all
}

// note adds what was counted under a name, if anything was.
func note(counts map[string]uint64, name string, n uint64) map[string]uint64 {
	if n == 0 {
		return counts
	}
	if counts == nil {
		counts = make(map[string]uint64)
	}
	counts[name] += n
	return counts
}
