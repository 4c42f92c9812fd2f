package kind

import (
	"context"
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// Fencing numbers (docs/fencing.md): with Config.Fenced, an attempt runs
// acquire_fenced.lua instead of SET NX. A node grants it only with a higher
// number than any it has granted for the resource, or for any of several. All
// of these then have this number as their last. Two quorums share a node, so a
// later lock has a higher number than an earlier one. Releases and extensions
// are those of any lock: they do not touch the numbers.

// numbered is a plain lock with a number, and numberedAll one on several
// resources.
type (
	numbered    struct{ plain }
	numberedAll struct{ all }
)

// Numbers draws the numbers of one client.
type Numbers struct {
	*pure.Numbers
	// OnRenumber is called for each attempt with a second round.
	OnRenumber func()

	beliefs       *pure.Beliefs
	kind, allKind *multiplex.ClaimKind // of one resource, and of several
}

// NewNumbers returns numbers from the local time on.
func NewNumbers() *Numbers {
	n := &Numbers{Numbers: pure.NewNumbers(time.Now()), beliefs: pure.NewBeliefs(time.Now()), OnRenumber: func() {}}
	kind := multiplex.Kind{Judge: n.judge, Script: true}
	n.kind = &multiplex.ClaimKind{Kind: kind, Undo: releaseKind, Telling: true, Numbered: true}
	n.allKind = &multiplex.ClaimKind{Kind: kind, Undo: releaseAllKind, Telling: true, Numbered: true}
	return n
}

const (
	// fenceLead is how far a number may be ahead of a node's clock. It bounds
	// the effect of a wrong clock on the numbers, and is no matter of safety.
	fenceLead = 2 * pure.FenceLead
	// fenceTTL is the TTL of a resource's last number: a period of the node's
	// record, and an hour. All clients use the same.
	fenceTTL = 25 * time.Hour
)

func (n *numbered) Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error) {
	return n.kinds.Numbers.attempt(ctx, r, g)
}

func (n *numberedAll) Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error) {
	return n.kinds.Numbers.attempt(ctx, r, g)
}

// attempt is an attempt with a number. If nodes with a free resource refuse it
// as too low, a second round follows at once, with the number from their
// answers.
func (n *Numbers) attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error) {
	g.Number = n.Next(time.Now())
	refusal, err := r.Round(ctx, g)
	if refusal == nil || !n.Outdated(g.Number) {
		return refusal, err
	}
	n.OnRenumber()
	g.Number = n.Next(time.Now())
	return r.Round(ctx, g)
}

func (n *numbered) Claim(g *Grant, room []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	names := [1]string{g.Name}
	return n.kinds.Numbers.kind, multiplex.Encoded{Bytes: n.kinds.fenced(room, names[:], g)}
}

func (n *numberedAll) Claim(g *Grant, room []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	return n.kinds.Numbers.allKind, multiplex.Encoded{Bytes: n.kinds.fenced(room, n.names, g)}
}

// fenced appends the call of acquire_fenced.lua to set a lock.
func (k *Kinds) fenced(dst []byte, names []string, g *Grant) []byte {
	keys := 2*len(names) + 1
	dst = wire.AcquireFenced.Call(dst, keys, 3+keys+5)
	for _, name := range names {
		dst = k.Encoder.Key(dst, name)
	}
	for _, name := range names {
		dst = k.KeyWith(dst, name, wire.FenceSuffix)
	}
	dst = k.Encoder.Key(dst, wire.RecordName)
	dst = k.Value(dst, &g.Value)
	dst = wire.Milliseconds(dst, g.TTL)
	dst = wire.Integer(dst, g.Number)
	dst = wire.Integer(dst, fenceLead.Microseconds())
	return wire.Milliseconds(dst, fenceTTL)
}

// The codes of acquire_fenced.lua.
const (
	fenceHeld = iota
	fenceGranted
	fenceStale
	fenceAhead
	fenceFloorless
	fenceCodes
)

// judge reads a reply of acquire_fenced.lua, and learns from it, however late
// it comes.
func (n *Numbers) judge(v resp.Value) multiplex.Vote {
	code, number, ok := readFenced(v)
	switch {
	case !ok:
		return multiplex.Alien
	case code == fenceGranted:
		return multiplex.Granted
	case code == fenceFloorless:
		return multiplex.Floorless
	// A number of ours is not too far ahead of an honest node with the right
	// time, nor is a number granted by such a node beyond belief (R33).
	case code == fenceAhead || !n.beliefs.Believes(number, time.Now()):
		return multiplex.Beyond
	case code == fenceStale:
		n.Stale(number)
	default:
		n.Learn(number)
	}
	return multiplex.Refused
}

// IsStale reports whether a reply of acquire_fenced.lua calls the number too
// low.
func IsStale(v resp.Value) bool {
	code, _, ok := readFenced(v)
	return ok && code == fenceStale
}

// readFenced reads a code and a number, and, with the code fenceHeld, checks
// the text behind them, for Claim.Told.
func readFenced(v resp.Value) (code, number int64, ok bool) {
	if v.Type() != resp.Array || v.IsNull() {
		return 0, 0, false
	}
	both, held := [2]int64{-1, -1}, false
	i := 0
	for e := range v.Elements() {
		n, isInteger := e.Int64()
		_, odd := e.Attributes()
		switch {
		case odd:
			return 0, 0, false
		case i < 2 && isInteger:
			both[i] = n
		case i == 2 && wire.Refuses(e):
			held = true
		default:
			return 0, 0, false
		}
		i++
	}
	code, number = both[0], both[1]
	return code, number, held == (code == fenceHeld) && code >= 0 && code < fenceCodes && number >= 0 && number <= pure.LastNumber
}

// Configure says how the group finds the nodes' floors and clocks. A client
// without Config.Fenced has no numbers, and does not.
func (n *Numbers) Configure(group *multiplex.Config, prefix string) {
	if n == nil {
		return
	}
	group.Floors = multiplex.Floors{Read: wire.ReadRecord(prefix), Write: func(seal, run string, floor int64) []byte {
		return wire.WriteFloor(prefix, seal, run, strconv.FormatInt(floor, 10))
	}}
	numbers := n.Numbers
	group.OnClock = func(ahead time.Duration) { numbers.Correct(ahead); n.beliefs.Correct(ahead) }
	group.OnNumber = n.beliefs.Agree
}
