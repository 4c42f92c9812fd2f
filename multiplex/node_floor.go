package multiplex

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Floors (docs/fencing.md): with Config.Floors, a node grants a claim only if
// its number is higher than any that it has granted for the key. A node that
// lost its memory has no floor, and does not count, until it was given one that
// makes up for what it forgot. pure.Floors decides when, and which.

// A numbering is what the group knows of the nodes' fencing numbers. The group's
// mutex guards it.
type numbering struct {
	// floorless is the set of nodes whose grants of numbered claims must not
	// count, whether or not they are live. It is empty without Config.Floors.
	floorless Set
	floors    pure.Floors
	clocks    pure.Clocks
	ahead     time.Duration // of most nodes' clocks to this one
}

func newNumbering(config *Config) numbering {
	n := len(config.Nodes)
	f := numbering{floors: pure.NewFloors(n), clocks: make(pure.Clocks, n)}
	if config.numbered() {
		f.floorless = All(n)
	}
	return f
}

// sightFloorLocked takes in what a look found of the node's numbers.
func (n *node) sightFloorLocked(l *look, now time.Duration) {
	g := n.group
	who, _ := g.quarantine.deployment.Identity()
	seal := l.sighting.Seal
	s := pure.Footing{
		Record: l.record, Known: l.recorded == pure.SealSeen, Strange: l.recorded == pure.SealStrange,
		Run: n.trust.Run, Durable: g.config.Durable.Has(n.index),
	}
	// The node's own account, written by clients that have watched it for as
	// long as any attempt can take (F4). The script that writes the floor
	// compares it. A durable node forgets nothing with its process.
	proved := l.sighting.What == pure.SealSeen && n.trust.Believes(seal) &&
		seal.Watched >= pure.NeedFor(g.quarantine.maxTTL, g.config.DriftFactor)
	if proved && seal.Identity == who && !g.quarantine.nodes.Has(n.index) {
		s.Proof = l.seal
	}
	g.numbering.floors.Sight(n.index, s, l.asked, now, g.nodesTimeLocked(now).UnixMicro())
	if g.config.OnNumber != nil {
		g.config.OnNumber(g.numbering.floors.Common())
	}
	g.judgeFloorsLocked()
	g.giveFloorsLocked()
}

// judgeFloorsLocked makes the group's set follow what is known of the nodes. A
// node is what it was until it was looked at.
func (g *Group) judgeFloorsLocked() {
	floorless := g.numbering.floorless
	for i := range g.nodes {
		switch {
		case g.numbering.floors.Sealed(i):
			floorless &^= setOf(i)
		case g.numbering.floors.Seen(i):
			floorless |= setOf(i)
		}
	}
	if floorless == g.numbering.floorless {
		return
	}
	g.numbering.floorless = floorless
	for _, n := range g.nodes {
		n.trust.shared = nil
	}
	g.notifyLocked()
}

// giveFloorsLocked gives nodes their floors, or looks at the others first.
func (g *Group) giveFloorsLocked() {
	f := &g.numbering.floors
	for i, n := range g.nodes {
		if !g.live.Has(i) {
			continue
		}
		floor, again, ok := f.Due(i)
		if ok {
			n.giveFloorLocked(floor)
			continue
		}
		for j, other := range g.nodes {
			if Set(again).Has(j) && g.live.Has(j) && !other.trust.looks.Asking {
				other.lookLocked()
			}
		}
	}
}

// giveFloorLocked writes a floor, in the lane, and then looks whether it is
// there. What a node cannot do for the moment is tried again after the next
// look.
func (n *node) giveFloorLocked(floor int64) {
	g := n.group
	f := &g.numbering.floors
	q := &inquiry{abandoned: func(*fault) { f.Answered(n.index) }}
	q.answer = func(_ int, v resp.Value) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		f.Answered(n.index)
		count, ok := v.Int64()
		switch {
		case ok && count == 1:
			if !n.trust.looks.Asking {
				n.lookLocked()
			}
		case ok && count == 0: // the seal has changed
		case !v.IsError():
			return fmt.Errorf("%w: type %q to the floor", ErrUnexpected, v.Type())
		case conn.ClassOf(v) == conn.ClassNoScript:
			n.cureSealLocked()
		}
		return nil
	}
	if n.inquireLocked(q, g.config.Floors.Write(f.Proof(n.index), n.trust.Run, floor)) {
		f.Ordered(n.index)
	}
}

// floorLost takes in that a node granted a number without a floor: its memory
// is gone. It returns the cause of the vote that failed for that.
func (n *node) floorLost() *fault {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.numbering.floors.Sealed(n.index) {
		g.numbering.floors.Blind(n.index)
		g.judgeFloorsLocked()
		if g.live.Has(n.index) && !n.trust.looks.Asking {
			n.lookLocked()
		}
	}
	return n.floorlessLocked()
}

// disbelieve takes in that a node refused a claim for a reason that cannot be
// true (R33). It returns the cause of the vote that failed for that. If the
// claim has a number, the node's record and clock are read again soon: it may
// be this client that is wrong.
func (n *node) disbelieve(r *round) *fault {
	if !r.verb.numbered {
		return placeBeyond
	}
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live.Has(n.index) {
		n.trust.looks.Hasten(g.now())
		g.wakeWatchAtLocked(n.trust.looks.Next)
	}
	return numberBeyond
}

// The causes of votes that failed since a node said what cannot be true.
var (
	numberBeyond = &fault{err: fmt.Errorf("%w: it remembers a fencing number that no clock accounts for, or its clock is more than a minute behind", ErrUnbelieved)}
	placeBeyond  = &fault{err: fmt.Errorf("%w: it says that it let in a ticket that no caller has drawn", ErrUnbelieved)}
)

// floorlessLocked returns why a node that is up has no floor.
func (n *node) floorlessLocked() *fault {
	switch g := n.group; {
	case n.trust.Run == "" && !g.config.Durable.Has(n.index):
		return &fault{err: errFloorWithoutRun, tried: g.now()}
	case g.numbering.floors.Beyond(n.index):
		return &fault{err: errFloorBeyond, tried: g.now()}
	case g.numbering.floors.Learnable(n.index):
		return floorIsLearned
	default:
		return &fault{err: errFloorLost, tried: g.now()}
	}
}

// Why a node has no floor. Waiting helps only in the first case.
var (
	floorIsLearned     = &fault{err: fmt.Errorf("%w: it lost its memory, and learns from the others once its quarantine is over", ErrNoFloor)}
	errFloorLost       = fmt.Errorf("%w: too few other nodes have one from which it could learn (redlock fence reset)", ErrNoFloor)
	errFloorBeyond     = fmt.Errorf("%w: its record of numbers says what no clock accounts for, or is none (redlock fence reset)", ErrNoFloor)
	errFloorWithoutRun = fmt.Errorf("%w: its run id may not be asked (allow INFO)", ErrNoFloor)
)

// readClockLocked takes in a node's clock, which was read since asked.
func (n *node) readClockLocked(clock time.Time, asked time.Duration) {
	g := n.group
	if g.config.OnClock == nil {
		return
	}
	now := g.now()
	here := g.epoch.Round(0).Add((asked + now) / 2) // the epoch by its wall clock
	g.numbering.ahead = g.numbering.clocks.Take(n.index, pure.Reading{Ahead: clock.Sub(here), Trip: now - asked, At: now})
	g.config.OnClock(g.numbering.ahead)
}

// nodesTimeLocked returns the time by most nodes' clocks.
func (g *Group) nodesTimeLocked(now time.Duration) time.Time {
	return g.epoch.Round(0).Add(now + g.numbering.ahead)
}

// tellClock reads the reply to TIME.
func (n *node) tellClock(v resp.Value, asked time.Duration) error {
	if v.IsError() {
		return nil
	}
	clock, err := ReadTime(v)
	if err != nil {
		return err
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.readClockLocked(clock, asked)
	return nil
}
