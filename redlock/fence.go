package redlock

import (
	"context"
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// Fencing numbers (docs/fencing.md): with Config.Fenced, an attempt runs
// acquire_fenced.lua instead of SET NX. A node grants it only if its number is
// higher than any that the node has granted for the resource, or for one of
// several, which then all have this number as their last. Two quorums share
// a node, so a later lock has a higher number than an earlier one. Releases and
// extensions are those of any lock: they do not touch the numbers.

// A fence is what a client with Config.Fenced has besides.
type fence struct {
	*pure.Numbers
	beliefs       *pure.Beliefs
	kind, allKind *multiplex.ClaimKind // of one resource, and of several
}

func newFence() *fence {
	f := &fence{Numbers: pure.NewNumbers(time.Now()), beliefs: pure.NewBeliefs(time.Now())}
	kind := multiplex.Kind{Judge: f.judge, Script: true}
	f.kind = &multiplex.ClaimKind{Kind: kind, Undo: releaseKind, Telling: true, Numbered: true}
	f.allKind = &multiplex.ClaimKind{Kind: kind, Undo: releaseAllKind, Telling: true, Numbered: true}
	return f
}

const (
	// fenceLead is how far a number may be ahead of a node's clock. It bounds
	// what a clock that was set does to the numbers, and is no matter of
	// safety.
	fenceLead = 2 * pure.FenceLead
	// fencePeriod is for how long at least a node remembers a resource's last
	// number by itself. All clients use the same.
	fencePeriod = 24 * time.Hour

	// fenceSuffix makes the key of a resource's last number from its own.
	fenceSuffix = ":fence"
	// recordName is the key of a node's record, behind the prefix.
	recordName = "redlock:fence"
)

// attemptFenced is an attempt with a number. If nodes where the resource is
// free refuse that as too low, it makes a second round at once, with the number
// that their answers ask for, and a new token (R3).
func (c *Client) attemptFenced(ctx context.Context, lock *Lock) error {
	var set [largeRoom]byte
	lock.number = c.fence.Next(time.Now())
	err := c.claim(ctx, lock, set[:0])
	if !isHeld(err) || !c.fence.Outdated(lock.number) {
		return err
	}
	c.stats.renumbered.Add(1)
	lock.number = c.fence.Next(time.Now())
	return c.claim(ctx, lock, set[:0])
}

// appendFenced appends the call of acquire_fenced.lua that sets a lock.
func (c *Client) appendFenced(dst []byte, l *Lock) []byte {
	one := [1]string{l.resource}
	names := one[:]
	if l.form != nil {
		names = l.form.names
	}
	keys := 2*len(names) + 1
	dst = appendScriptHead(dst, &fencedScript, keys, 3+keys+5)
	for _, name := range names {
		dst = c.appendKey(dst, name)
	}
	for _, name := range names {
		dst = c.appendKeyWith(dst, name, fenceSuffix)
	}
	dst = c.appendKey(dst, recordName)
	dst = c.appendValue(dst, &l.token)
	dst = appendMilliseconds(dst, l.ttl)
	dst = appendInteger(dst, l.number)
	dst = appendInteger(dst, fenceLead.Microseconds())
	return appendMilliseconds(dst, fencePeriod)
}

// The codes that acquire_fenced.lua returns.
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
func (f *fence) judge(v resp.Value) multiplex.Vote {
	code, number, ok := readFenced(v)
	switch {
	case !ok:
		return multiplex.Alien
	case code == fenceGranted:
		return multiplex.Granted
	case code == fenceFloorless:
		return multiplex.Floorless
	// A number of ours is not too far ahead of an honest node whose clock is
	// right, nor is one that such a node has granted beyond belief (R33).
	case code == fenceAhead || !f.beliefs.Believes(number, time.Now()):
		return multiplex.Beyond
	case code == fenceStale:
		f.Stale(number)
	default:
		f.Learn(number)
	}
	return multiplex.Refused
}

// readFenced reads a code and a number, and, with the code fenceHeld, checks
// the text behind them, which Claim.Told gets.
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
		case i == 2 && blocks(e):
			held = true
		default:
			return 0, 0, false
		}
		i++
	}
	code, number = both[0], both[1]
	return code, number, held == (code == fenceHeld) && code >= 0 && code < fenceCodes && number >= 0 && number <= pure.LastNumber
}

// configure says how the group finds the nodes' floors and clocks. A client
// without Config.Fenced has no fence, and does not.
func (f *fence) configure(group *multiplex.Config, prefix string) {
	if f == nil {
		return
	}
	group.Floors = multiplex.Floors{Read: readRecord(prefix), Write: writeFloor(prefix)}
	numbers := f.Numbers
	group.OnClock = func(ahead time.Duration) { numbers.Correct(ahead); f.beliefs.Correct(ahead) }
	group.OnNumber = f.beliefs.Agree
}

// readRecord returns the command that reads a node's record.
func readRecord(prefix string) []byte { return resp.AppendCommand(nil, "GET", prefix+recordName) }

// writeFloor returns what encodes a call of floor.lua.
func writeFloor(prefix string) func(seal, run string, floor int64) []byte {
	return func(seal, run string, floor int64) []byte {
		return appendFloor(prefix, seal, run, strconv.FormatInt(floor, 10))
	}
}

// appendFloor encodes a call of floor.lua for the process with a run id, with
// its last arguments.
func appendFloor(prefix, seal, run string, numbers ...string) []byte {
	if run == "" {
		run = pure.NoRun
	}
	args := append([]string{"EVALSHA", floorScript.digest, "2", prefix + recordName, prefix + sealName, seal, run}, numbers...)
	return resp.AppendCommand(nil, args...)
}
