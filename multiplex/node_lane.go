package multiplex

import (
	"math"
	"slices"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A lane carries what concerns one node alone: cures, debts, probes and
// inquiries. Its entries are written between whole commands of the log, and
// their replies come in the same order: an entry with position p is answered
// before the round at p.
//
// The group's mutex guards it. The node's reader learns from an atomic copy of
// the front position whether the next reply is the lane's, so an empty lane
// costs nothing.
type lane struct {
	buf     []byte      // encoded entries that were not written yet
	queued  []laneEntry // those entries
	awaited []laneEntry // written, in order; each has its position
	// few is where a short awaited is: to confirm grants allocates nothing.
	few [8]laneEntry
}

// A purpose says what a lane entry is for, and so what its reply means.
type purpose uint8

const (
	probe   purpose = iota // PING: any reply will do
	load                   // a script; the command behind it shows the result
	again                  // a round's command again, after its script was loaded
	payment                // a debt
	inquire                // an inquiry
	keeps                  // the first half of confirm, in a cluster
	confirm                // whether the grants before it count (node_confirm.go)
)

type laneEntry struct {
	purpose purpose
	pos     uint64
	round   *round     // held, for again
	debt    *pure.Debt // for payment
	cured   bool       // it was sent again, after the scripts
	inquiry *inquiry
	turn    int       // of the inquiry's commands
	sent    time.Time // for confirm; the command may be written later
}

const (
	// maxLane bounds the entries of a lane (R26).
	maxLane = 8192
	// noLane is the front position of a lane that awaits nothing.
	noLane = math.MaxUint64
)

// add queues an entry. It returns false if the lane is full. It may be more
// than full: what stands behind a batch asks for no room.
func (l *lane) add(e laneEntry, commands ...[]byte) bool {
	if l.room() <= 0 {
		return false
	}
	for _, c := range commands {
		l.buf = append(l.buf, c...)
	}
	l.queued = append(l.queued, e)
	return true
}

// room returns how many more entries the lane takes.
func (l *lane) room() int { return maxLane - len(l.queued) - len(l.awaited) }

// handOut returns the bytes to write before the round at pos. From then on
// their replies are awaited there.
func (l *lane) handOut(pos uint64) []byte {
	if len(l.queued) == 0 {
		return nil
	}
	for _, e := range l.queued {
		e.pos = pos
		l.await(e)
	}
	clear(l.queued)
	l.queued = l.queued[:0]
	buf := l.buf
	l.buf = nil
	return buf
}

// await adds an entry that is written, with its position.
func (l *lane) await(e laneEntry) {
	if n := len(l.awaited); n == cap(l.awaited) && n < len(l.few) {
		copy(l.few[:], l.awaited)
		clear(l.few[n:])
		l.awaited = l.few[:n]
	}
	l.awaited = append(l.awaited, e)
}

// front returns the position before which the next reply of the lane comes.
func (l *lane) front() uint64 {
	if len(l.awaited) == 0 {
		return noLane
	}
	return l.awaited[0].pos
}

// pop takes the entry whose reply has come.
func (l *lane) pop() laneEntry {
	e := l.awaited[0]
	l.awaited[0] = laneEntry{}
	l.awaited = l.awaited[1:]
	if len(l.awaited) == 0 {
		l.awaited = nil
	}
	return e
}

// empty takes all entries of a lane whose connection died, written or not.
func (l *lane) empty() []laneEntry {
	all := slices.Concat(l.awaited, l.queued) // awaited is in l, perhaps
	*l = lane{}
	return all
}

// rounds calls f for each round whose command was sent again and is not
// answered yet. Such a round may have left the log.
func (l *lane) rounds(f func(*round)) {
	for _, entries := range [...][]laneEntry{l.awaited, l.queued} {
		for _, e := range entries {
			if e.round != nil {
				f(e.round)
			}
		}
	}
}

// idle reports whether nothing is queued or awaited.
func (l *lane) idle() bool { return len(l.queued) == 0 && len(l.awaited) == 0 }

// loading reports whether the scripts are queued already.
func (l *lane) loading() bool {
	for _, e := range l.queued {
		if e.purpose == load {
			return true
		}
	}
	return false
}

// An inquiry asks one node alone, in its lane: some commands, each with one
// reply.
type inquiry struct {
	// answer is called with each reply in turn, errors included, by the
	// goroutine that reads the node, without the mutex. It must not keep the
	// reply, and must not wait. If it returns an error, the connection ends
	// (R16).
	answer func(i int, v resp.Value) error
	// abandoned is called once, under the mutex, for a connection that ends
	// before the last reply, or by answer's error. It must not wait.
	abandoned func(why *fault)
	ended     bool // guarded by the mutex
}

// inquireLocked queues the commands of an inquiry on a node that is up. If it
// returns false, the lane is full and nothing was queued.
func (n *node) inquireLocked(q *inquiry, commands ...[]byte) bool {
	if n.lane.room() < len(commands) {
		return false
	}
	for i, c := range commands {
		n.lane.add(laneEntry{purpose: inquire, inquiry: q, turn: i}, c)
	}
	n.group.promptLocked()
	return true
}

// abandon ends an inquiry after answer returned an error.
func (n *node) abandon(q *inquiry, why *fault) {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	if !q.ended {
		q.ended = true
		q.abandoned(why)
	}
}

// abandonLaneLocked ends the entries of a connection that died.
func (n *node) abandonLaneLocked(why *fault) {
	for _, e := range n.lane.empty() {
		switch e.purpose {
		case again:
			n.failLocked(e.round, why)
			e.round.drop()
		case payment:
			n.ledger.Recall(e.debt)
		case inquire:
			if !e.inquiry.ended {
				e.inquiry.ended = true
				e.inquiry.abandoned(why)
			}
		}
	}
	n.laneNext.Store(noLane)
}

// cure sends the scripts and then the round's command again, on the same
// connection, whether or not a caller still waits for it (R24). The round's
// vote comes with that reply. cure returns false for a full lane, and for a
// command that must not be executed after later ones (ClaimKind,
// ExtendKind.Creates). Then the vote has failed.
func (n *node) cure(r *round, why conn.Class) bool {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if !n.loadScriptsLocked() {
		return false
	}
	if r.verb.creates {
		g.promptLocked()
		return false
	}
	if !n.lane.add(laneEntry{purpose: again, round: r}, r.appendCommand(nil)) {
		return false
	}
	r.hold()
	n.counters.cured++
	n.counters.countError(why)
	g.promptLocked()
	return true
}

// loadScriptsLocked queues the scripts in the lane, unless they are there
// already. It returns false if the lane is full.
func (n *node) loadScriptsLocked() bool {
	if n.lane.loading() {
		return true
	}
	for _, script := range n.group.config.Cure {
		if !n.lane.add(laneEntry{purpose: load}, script) {
			return false
		}
	}
	return true
}
