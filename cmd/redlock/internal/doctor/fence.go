package doctor

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// checkFence wants all masters to have a floor for fencing numbers, or none:
// without one, a master does not count for locks with a number
// (docs/fencing.md). If none has one, such locks are not in use.
func (d *Deployment) checkFence() []Finding {
	strange := d.seen(func(n *Node) string {
		switch {
		case n.Fence.State == probe.SealStrange:
			return "not a record of fencing numbers"
		case d.beyond(n):
			return fmt.Sprintf("remembers the fencing number %d", n.Fence.Record.High())
		}
		return ""
	})
	floors := d.seen(func(n *Node) string {
		if d.floored(n) {
			return "has a floor"
		}
		return ""
	})
	found := finding(Finding{Level: Warning, Seen: strange,
		Found:  "the key redlock:fence holds something else, or a number that no clock and no quorum of masters account for",
		Why:    "that master does not count for locks with a fencing number (redlock.Config.Fenced)",
		Change: "redlock fence reset; if clocks were set back, see its --least"})
	if len(floors) == 0 || d.MaxTTL == 0 {
		return found
	}
	f := Finding{Level: Note, Seen: d.seen(func(n *Node) string {
		if n.Fence.State != probe.SealUnknown && n.Fence.State != probe.SealStrange && !d.beyond(n) && !d.floored(n) && d.able(n) {
			return "has no floor"
		}
		return ""
	}), Found: "a master has no floor for fencing numbers",
		Why:    "it may have forgotten numbers, so its grants of locks with a number (redlock.Config.Fenced) do not count",
		Change: "nothing: a client of such locks gives it one. Without such clients it does not matter"}
	if len(floors) < len(d.Nodes)-multiplex.Quorum(len(d.Nodes))+1 {
		f.Why = "too few masters are left from which clients could learn what the others forgot: locks with a number " +
			"(redlock.Config.Fenced) are refused"
		f.Change = "redlock fence reset, if such locks are in use"
	}
	return append(found, finding(f)...)
}

// floored reports whether a master's grants of locks with a number count.
func (d *Deployment) floored(n *Node) bool {
	r := n.Fence.Record
	return n.Fence.State == probe.SealThere && r.Floored(n.Process(), n.Declared) && !d.beyond(n)
}

// beyond reports whether a master's record cannot be true, by this machine's
// clock (R33).
func (d *Deployment) beyond(n *Node) bool {
	said := make([]int64, len(d.Nodes))
	for i := range d.Nodes {
		if f := d.Nodes[i].Fence; f.State == probe.SealThere {
			said[i] = f.Record.High()
		}
	}
	return n.Fence.State == probe.SealThere && n.Fence.Record.High() > pure.Believable(time.Now().UnixMicro(), pure.CommonOf(said))
}
