package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/inside"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// A FenceReset is what ResetFence found and did.
type FenceReset struct {
	Floor uint64      // all numbers are higher from now on
	Nodes []FenceNode // in the order of redlock.Config.Nodes
}

// A FenceNode is one node before a reset.
type FenceNode struct {
	Addr    string // without credentials
	Highest uint64 // no number that it remembered was higher; 0 if none
	Floored bool   // it had a floor, so that its grants counted
	// Beyond reports a record replaced because it could not be true, or was
	// none.
	Beyond bool
}

// ResetFence makes the nodes grant fencing numbers again after too many of them
// lost their memory: more than ⌊N/2⌋ of N nodes between two moments with all
// counting, so with one node always. It also gives floors to a deployment
// opened without them, and is the way out of a node's impossible record (R33).
// Until then, locks of clients with redlock.Config.Fenced end with
// redlock.ErrNoQuorum, and its causes are redlock.ErrNoFloor.
//
// The new floor is the highest of the numbers remembered by the nodes, of the
// clock of most of them a minute from now, in microseconds, and of least. So
// numbers go on rising if no lost one was further ahead of the clocks. Where
// this is not certain, ask the protected resources for the highest number they
// have seen, and pass it as least.
//
// One node alone is not believed to remember a number more than a day ahead of
// the clocks: its record is replaced, and FenceNode.Beyond says so. After a
// step of the clocks back by more than a day, this number was right: pass it as
// least.
//
// ResetFence needs all nodes, each of them up, of this deployment, and out of
// quarantine: otherwise it changes nothing, and the error is
// redlock.ErrNoQuorum, with the cause for each node. least must leave numbers
// above it (redlock.ErrConfig). After a failed write, some nodes may have the
// new floor, without harm: call it again. It lowers no floor but that of a
// replaced record. ctx bounds the call. It leaves nothing running.
func ResetFence(ctx context.Context, config redlock.Config, least uint64) (FenceReset, error) {
	switch {
	case config.Forgetful:
		return FenceReset{}, configError("with Forgetful there are no fencing numbers")
	case least > uint64(pure.MostNumber):
		return FenceReset{}, configError(fmt.Sprintf("too few fencing numbers are above %d: the last one is %d", least, uint64(pure.LastNumber)))
	}
	config.Fenced = false // for this client, the nodes count without a floor
	client, err := redlock.New(ctx, config)
	if err != nil {
		return FenceReset{}, err
	}
	defer func() { _ = client.Close(ctx) }()
	c := inspectorOf(ctx, client)
	if err := c.awaitEvery(ctx); err != nil {
		return FenceReset{}, err
	}
	return c.raiseFloors(ctx, int64(least), pure.FenceLead)
}

// resetPatience bounds the wait for all nodes, as a shorter
// redlock.Config.Connect.Timeout does.
const resetPatience = 4 * time.Second

// awaitEvery waits for all nodes to count.
func (c *inspector) awaitEvery(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, min(resetPatience, cmp.Or(c.config.Connect.Timeout, resetPatience)))
	defer cancel()
	err := c.Group().Complete(limited)
	var missing *multiplex.UndecidedError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &missing):
		return inside.Translate(err)
	case ctx.Err() != nil:
		return inside.Cancelled(ctx, inside.NoQuorum(missing))
	}
	return errtext.Wrap("redlock: the fence cannot be reset, which needs all nodes: "+strings.Join(missing.Causes(), "; "), redlock.ErrNoQuorum, missing)
}

// giveFloors gives the nodes of a new deployment their floors: the time. So
// numbers go on rising after a new setup of masters.
func (c *inspector) giveFloors(ctx context.Context) error {
	if _, err := c.raiseFloors(ctx, 0, 0); err != nil && c.config.Fenced {
		return err
	}
	return nil
}

// raiseTries is how often a node with a seal changed meanwhile is asked again,
// and raiseTakes how long all of it may take.
const (
	raiseTries = 3
	raiseTakes = 3 * time.Second
)

// resetBelief is how far ahead of the clocks a number of one node alone may be,
// for a reset by an operator: more than the usual setback of a clock. A client
// believes less (pure.Belief).
const resetBelief = 24 * time.Hour

// newFloor returns the floor for all nodes: the highest of least, of their
// remembered and believed numbers, and of the clock of most of them some time
// from now. No number above most is believed of one node (R33).
func newFloor(found []foundFloor, least int64, lead time.Duration) (floor, most int64) {
	clocks, said := make([]int64, len(found)), make([]int64, len(found))
	for i := range found {
		clocks[i], said[i] = found[i].clock.UnixMicro(), found[i].record.High()
	}
	clock := min(pure.CommonOf(clocks), pure.MostNumber-resetBelief.Microseconds())
	most = pure.Believable(clock+resetBelief.Microseconds(), max(least, pure.CommonOf(said)))
	floor = max(least, clock+lead.Microseconds())
	for i := range found {
		if high := found[i].record.High(); high <= most {
			floor = max(floor, high)
		}
	}
	return floor, most
}

// raiseFloors gives all nodes the same floor.
func (c *inspector) raiseFloors(ctx context.Context, least int64, lead time.Duration) (FenceReset, error) {
	ctx, cancel := context.WithTimeout(ctx, raiseTakes)
	defer cancel()
	var done FenceReset
	for try := 1; ; try++ {
		found, err := c.lookAtFloors(ctx)
		if err != nil {
			return FenceReset{}, err
		}
		floor, most := newFloor(found, least, lead)
		if done.Nodes == nil {
			done.Nodes = nodesOf(found, most)
		}
		done.Floor = uint64(floor)
		changed, err := c.writeFloors(ctx, found, floor, most)
		if err == nil && !changed {
			return done, nil
		}
		if err != nil || try == raiseTries {
			return FenceReset{}, fenceError(err)
		}
	}
}

// A foundFloor is what a node says before it gets a floor.
type foundFloor struct {
	addr, run, seal string
	record          pure.Record
	strange         bool // the record is none
	clock           time.Time
}

func nodesOf(found []foundFloor, most int64) (all []FenceNode) {
	for _, f := range found {
		beyond := f.strange || f.record.High() > most
		floored := !beyond && f.record.Floored(f.run, false)
		all = append(all, FenceNode{f.addr, uint64(f.record.High()), floored, beyond})
	}
	return all
}

// fenceError reports floors not written everywhere.
func fenceError(err error) error {
	if err == nil {
		err = errors.New("a node was given another seal at the same time")
	}
	return errtext.Wrap("redlock: not all nodes were given a floor: "+errtext.Text(err), err)
}

// lookAtFloors asks each node for its record, its seal and its clock.
func (c *inspector) lookAtFloors(ctx context.Context) ([]foundFloor, error) {
	found := make([]foundFloor, len(c.config.Nodes))
	for i, n := range c.Group().Nodes() {
		found[i].addr, found[i].run, found[i].record.Floor = n.Addr, pure.ProcessName(n.Server.RunID, n.Server.History), pure.NoFloor
	}
	errs := make([]error, len(found))
	questions := [][]byte{
		wire.ReadRecord(c.config.Prefix), resp.AppendCommand(nil, "GET", c.config.Prefix+wire.SealName), resp.AppendCommand(nil, "TIME"),
	}
	silent := c.Group().Query(ctx, questions, func(node, question int, v resp.Value) error {
		f := &found[node]
		if question == 0 && conn.ClassOf(v) == conn.ClassWrongType {
			f.strange = true
			return nil
		}
		if v.IsError() {
			errs[node] = &multiplex.RefusalError{Class: conn.ClassOf(v)}
			return nil
		}
		var err error
		switch {
		case question == 0 && !v.IsNull():
			record, strange := pure.ParseRecord(string(v.Bytes()))
			if f.strange = strange != nil; !f.strange {
				f.record = record
			}
		case question == 1:
			f.seal = string(v.Bytes())
		case question == 2:
			f.clock, err = multiplex.ReadTime(v)
		}
		if err != nil {
			errs[node] = err
		}
		return nil
	})
	return found, firstOf(found, silent, errs)
}

// writeFloors writes the floor on each node. changed reports a node's seal
// changed since the look. Numbers above most are replaced.
func (c *inspector) writeFloors(ctx context.Context, found []foundFloor, floor, most int64) (changed bool, err error) {
	errs := make([]error, len(found))
	silent := c.Group().QueryEach(ctx, 2, func(node int) [][]byte {
		write := wire.WriteFloor(c.config.Prefix, found[node].seal, found[node].run, strconv.FormatInt(floor, 10), strconv.FormatInt(most, 10))
		return [][]byte{wire.Floor.Load(), write}
	}, func(node, question int, v resp.Value) error {
		count, ok := v.Int64()
		switch {
		case v.IsError():
			errs[node] = &multiplex.RefusalError{Class: conn.ClassOf(v)}
		case question == 0:
		case !ok:
			return fmt.Errorf("%w: type %q to the floor", multiplex.ErrUnexpected, v.Type())
		case count == 0:
			changed = true
		}
		return nil
	})
	return changed, firstOf(found, silent, errs)
}

// firstOf returns the first of the nodes' errors, with the node's name.
func firstOf(found []foundFloor, silent, refused []error) error {
	for i := range found {
		if silent[i] != nil {
			return silent[i] // it names the node
		}
		if refused[i] != nil {
			return errtext.Wrap(found[i].addr+": "+errtext.Text(refused[i]), refused[i])
		}
	}
	return nil
}
