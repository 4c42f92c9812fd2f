package multiplex

import (
	"math"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A lane carries what concerns one node alone: cures, debts and probes. Its entries are written between whole commands of
// the log, and their replies come in that place: an entry with position p is answered before the round at p.
//
// The group's mutex guards it. The node's reader learns from an atomic copy of the front position whether the next reply
// is the lane's, so that a lane costs nothing while it is empty.
type lane struct {
	buf     []byte      // encoded entries that no flusher has taken yet
	queued  []laneEntry // those entries
	awaited []laneEntry // written, in order; a position each
}

// A purpose says what a lane entry is for, and so what its reply means.
type purpose uint8

const (
	probe   purpose = iota // PING: that there is a reply is enough
	load                   // a script: whatever it says, the command that follows tells
	again                  // a round's command again, after its script was loaded
	payment                // a debt
	inquire                // whatever somebody wants to know of this node
)

type laneEntry struct {
	purpose purpose
	pos     uint64
	round   *round     // held, for again
	debt    *pure.Debt // for payment
	cured   bool       // it is sent again, behind the scripts
	inquiry *inquiry
	turn    int // of the inquiry's commands
}

const (
	// maxLane bounds the entries of a lane (R26).
	maxLane = 8192
	// noLane is the front position of a lane that awaits nothing.
	noLane = math.MaxUint64
)

// add queues an entry; false means that the lane is full.
func (l *lane) add(e laneEntry, commands ...[]byte) bool {
	if l.room() == 0 {
		return false
	}
	for _, c := range commands {
		l.buf = append(l.buf, c...)
	}
	l.queued = append(l.queued, e)
	return true
}

// room is how many more entries the lane takes.
func (l *lane) room() int { return maxLane - len(l.queued) - len(l.awaited) }

// handOut gives the bytes to be written before the round at pos, and awaits their replies there.
func (l *lane) handOut(pos uint64) []byte {
	if len(l.queued) == 0 {
		return nil
	}
	for _, e := range l.queued {
		e.pos = pos
		l.awaited = append(l.awaited, e)
	}
	clear(l.queued)
	l.queued = l.queued[:0]
	buf := l.buf
	l.buf = nil
	return buf
}

// front is the position before which the next reply of the lane comes.
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

// empty takes all entries, written or not, of a lane whose connection died.
func (l *lane) empty() []laneEntry {
	all := append(l.awaited, l.queued...)
	*l = lane{}
	return all
}

// rounds calls f for each round whose command was repeated and has no answer yet. Such a round may have left the log.
func (l *lane) rounds(f func(*round)) {
	for _, entries := range [...][]laneEntry{l.awaited, l.queued} {
		for _, e := range entries {
			if e.round != nil {
				f(e.round)
			}
		}
	}
}

// idle reports that nothing is queued or awaited.
func (l *lane) idle() bool { return len(l.queued) == 0 && len(l.awaited) == 0 }

// loading reports that the scripts are on their way already.
func (l *lane) loading() bool {
	for _, e := range l.queued {
		if e.purpose == load {
			return true
		}
	}
	return false
}

// An inquiry asks one node alone, in its lane: some commands, each with one reply.
type inquiry struct {
	// answer is given each reply in its turn, errors too, by whoever reads the node, without the mutex. It keeps nothing of
	// it, and must not wait. What it returns ends the connection (R16).
	answer func(i int, v resp.Value) error
	// abandoned is called once if the connection ends before the last reply, or by what answer returned, under the mutex. It
	// must not wait.
	abandoned func(why *fault)
	ended     bool // guarded by the mutex
}

// inquire queues the commands of an inquiry; false means that the lane is full, and nothing was queued. The node is up.
// The caller holds the mutex.
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

// abandon ends an inquiry whose answer was no answer.
func (n *node) abandon(q *inquiry, why *fault) {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	if !q.ended {
		q.ended = true
		q.abandoned(why)
	}
}

// abandonLane ends the entries of a connection that died. The caller holds the mutex.
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
