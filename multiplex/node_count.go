package multiplex

import (
	"maps"
	"math/bits"
	"sync/atomic"

	"github.com/redmux/redmux/conn"
)

// Counts has what happened with one node since the group was made; nothing is
// ever reset. Each number is exact, but they are not read at one instant. A
// reading goroutine adds its replies only after the last of those there. So a
// sum over several numbers may lack what is under way.
type NodeCounts struct {
	// Granted, Refused and Failed are the votes that counted, each before its
	// round was decided (R17).
	Granted uint64 `json:"granted"`
	Refused uint64 `json:"refused"`
	Failed  uint64 `json:"failed"`
	// TimedOut are failed votes without an answer in time (R6). Absent are
	// those of a node not up at the time of the command. Quarantined are
	// those of a node that may have forgotten keys (R23). The other failed
	// votes are error replies and dead connections.
	TimedOut    uint64 `json:"timed_out"`
	Absent      uint64 `json:"absent"`
	Quarantined uint64 `json:"quarantined"`
	// Late are replies to decided rounds. That is ordinary: a quorum was
	// faster (R5). Overdue are the late replies whose own vote had been
	// given up: this node was too slow.
	Late    uint64 `json:"late"`
	Overdue uint64 `json:"overdue"`
	// Errors are the error replies to lock commands, by conn.Class:
	// "NOSCRIPT", "OOM" … It is nil if there were none.
	Errors map[string]uint64 `json:"errors,omitempty"`
	// Dials are attempts to connect and shake hands, DialFailures those that
	// failed.
	Dials        uint64 `json:"dials"`
	DialFailures uint64 `json:"dial_failures"`
	// Deaths are ended connections, by cause: "silent" (shed, R26),
	// "stalled" (a full backlog), "indebted" (R8), "protocol" (no RESP),
	// "unexpected" (a reply that cannot answer, R16), "forgot" (scripts
	// lost before it joined), "demoted" (it is, or may have been, a
	// replica, R23), "moved" (another server is the node's),
	// "credentials" (no longer accepted), "peer" (ended by the node or the
	// network), "closed" (by us). It is nil if there were none.
	Deaths map[string]uint64 `json:"deaths,omitempty"`
	// Probes are PINGs to an idle connection (R26), Cures commands that were
	// sent again with their scripts (R24).
	Probes uint64 `json:"probes"`
	Cures  uint64 `json:"cures"`
	// DebtsMade are releases that this node came to owe (R8). DebtsPaid are
	// confirmed ones, some of them still repeated to be safe. DebtsExpired
	// are those never confirmed, with keys that must have expired.
	DebtsMade    uint64 `json:"debts_made"`
	DebtsPaid    uint64 `json:"debts_paid"`
	DebtsExpired uint64 `json:"debts_expired"`
}

// counters is the source of a node's NodeCounts. The reading goroutine counts
// replies in batch, and adds each batch to the atomics once. So counting
// goroutines do not share a cache line.
type counters struct {
	batch replies // owned by the goroutine that reads

	granted, refused, failed, late, overdue atomic.Uint64
	errors                                  [classes]atomic.Uint64

	// The following are guarded by the group's mutex. died counts the votes
	// that dying connections owed.
	died                               uint64
	missed                             [reasons]uint64
	deaths                             map[string]uint64
	dials, dialFailures, probes, cured uint64
	// See Status; ended is the sum of deaths.
	connects, ended, sheds int
}

// replies counts the votes of one batch of replies.
type replies struct{ granted, refused, failed, late, overdue uint64 }

// classes is more than package conn has.
const classes = 32

// A reason is why a vote failed without a reply.
type reason uint8

const (
	overdue     reason = iota // the vote was given up (R6)
	absent                    // the node was not up
	quarantined               // its grant would not have counted (R23)
	reasons
)

// publish adds what was counted since the last call. The caller must be the
// goroutine that reads this node.
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

// countError counts an error that the node replied.
func (c *counters) countError(class conn.Class) {
	c.errors[min(int(class), classes-1)].Add(1)
}

// countMissedLocked counts votes that failed without a reply.
func (g *Group) countMissedLocked(votes Set, why reason) {
	for ; votes != 0; votes &= votes - 1 {
		g.nodes[bits.TrailingZeros16(uint16(votes))].counters.missed[why]++
	}
}

// countDeathLocked counts the end of a connection. It must be called before the
// node's life hears of the end. For a connection shed by this group, that is
// the cause, whatever the reader met meanwhile.
func (n *node) countDeathLocked(cause error) {
	if n.life.State == Shed {
		cause = n.fault.err
	}
	n.counters.deaths = note(n.counters.deaths, deathOf(cause), 1)
}

// countsLocked returns the numbers.
func (n *node) countsLocked() NodeCounts {
	c, l := &n.counters, n.accounts.total(&n.ledger)
	all := NodeCounts{
		Granted: c.granted.Load(), Refused: c.refused.Load(), Failed: c.failed.Load() + c.died,
		TimedOut: c.missed[overdue], Absent: c.missed[absent], Quarantined: c.missed[quarantined],
		Late: c.late.Load(), Overdue: c.overdue.Load(),
		Dials: c.dials, DialFailures: c.dialFailures, Probes: c.probes, Cures: c.cured,
		DebtsMade: l.Made, DebtsPaid: l.Paid, DebtsExpired: l.Expired, Deaths: maps.Clone(c.deaths),
	}
	for _, missed := range c.missed {
		all.Failed += missed
	}
	for i := range c.errors {
		all.Errors = note(all.Errors, conn.Class(i).String(), c.errors[i].Load())
	}
	return all
}

// note adds n to counts under a name, unless it is zero.
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
