package doctor

import (
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/multiplex"
)

// checkFence wants all masters to have a floor for fencing numbers, or none:
// without one, a master does not count for locks with a number
// (docs/fencing.md). If none has one, such locks are not in use.
func (d *Deployment) checkFence() []Finding {
	strange := d.seen(func(n *Node) string {
		if n.Fence.State == probe.SealStrange {
			return "not a record of fencing numbers"
		}
		return ""
	})
	floors := d.seen(func(n *Node) string {
		if d.floored(n) {
			return "has a floor"
		}
		return ""
	})
	found := finding(Finding{Level: Warning, Seen: strange, Found: "the key redlock:fence holds something else",
		Why: "that master grants no lock with a fencing number", Change: "delete the key, if nothing else needs it"})
	if len(floors) == 0 || d.MaxTTL == 0 {
		return found
	}
	f := Finding{Level: Note, Seen: d.seen(func(n *Node) string {
		if n.Fence.State != probe.SealUnknown && n.Fence.State != probe.SealStrange && !d.floored(n) && d.able(n) {
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
	return n.Fence.State == probe.SealThere && r.Floored(n.Process(), n.Declared)
}
