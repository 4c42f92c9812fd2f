package doctor

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// checkFailover wants nodes that fail over to be fenced in time: a former
// primary must stop accepting writes soon after another was promoted.
func (d *Deployment) checkFailover() []Finding {
	seen := d.seen(func(n *Node) string {
		needed, known := n.Config.Number("min-replicas-to-write")
		lag, _ := n.Config.Number("min-replicas-max-lag")
		present, _ := n.Info.Number("connected_slaves")
		bound := boundOf(n)
		switch {
		case !n.Failover.Expected:
			return ""
		case n.Failover.Bound < 0:
			return "its URL says that nothing bounds a former primary"
		case n.Failover.Bound == 0 && !known:
			return "it may not be asked for min-replicas-to-write"
		case known && bound == 0:
			return fmt.Sprintf("min-replicas-to-write %d, min-replicas-max-lag %d, and %s", needed, lag, plural(present, "replica"))
		case known && n.Failover.Bound > 0 && bound > n.Failover.Bound:
			return fmt.Sprintf("its settings allow %v, and its URL says %v", bound, n.Failover.Bound)
		}
		return ""
	})
	return append(finding(Finding{Level: Warning, Seen: seen, Found: "a former primary may go on granting locks for longer than clients know",
		Why: "after a failover two clients can hold one lock while two primaries accept writes",
		Change: "on all servers of the node set min-replicas-to-write to the number of its replicas, and min-replicas-max-lag to a few " +
			"seconds, or declare in the URL how long a former primary may write"}), append(d.checkSealedFailover(), d.checkOutlasting()...)...)
}

// checkSealedFailover wants the URL to say of a failover what the seal says.
func (d *Deployment) checkSealedFailover() []Finding {
	seen := d.seen(func(n *Node) string {
		theirs, ours := n.Seal.Failover, n.Failover
		switch {
		case n.Seal.State != probe.SealThere:
			return ""
		case theirs.Expected && !ours.Expected:
			return "fails over, by its seal, and not by its URL"
		case ours.Expected && !theirs.Expected:
			return "fails over, by its URL, and not by its seal"
		case ours.Bound != 0 && max(0, ours.Bound) != theirs.Bound:
			return fmt.Sprintf("a former primary may write for %v by its seal, and for %v by its URL", theirs.Bound, max(0, ours.Bound))
		}
		return ""
	})
	return finding(Finding{Level: Unsafe, Seen: seen, Found: "the seals are of clients that know another failover",
		Why: "clients refuse masters whose seal says otherwise than they do, since they count them too early after a failover",
		Change: "write the URL as all clients of the deployment do. To change what it says of a failover, stop all clients and use redlock " +
			"init --replace ID"})
}

// checkOutlasting wants locks that outlive a failover.
func (d *Deployment) checkOutlasting() []Finding {
	seen := d.seen(func(n *Node) string {
		bound := max(0, n.Failover.Bound)
		if n.Failover.Bound == 0 {
			bound = boundOf(n)
		}
		alone := pure.Failover{Expected: true, Bound: bound}.Alone(drift)
		if !n.Failover.Expected || d.MaxTTL == 0 || alone <= d.MaxTTL*2/3 {
			return ""
		}
		return fmt.Sprintf("a former primary may grant for %v, and MaxTTL is %v", alone, d.MaxTTL)
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "no lock outlives a failover",
		Why:    "a lock that was renewed in time has two thirds of its TTL left, and ends before a former primary has stopped",
		Change: "raise MaxTTL and the TTL of holds, or lower min-replicas-max-lag"})
}

// boundOf returns what a server's settings say of how long it goes on accepting
// writes as a former primary, or 0.
func boundOf(n *Node) time.Duration {
	needed, _ := n.Config.Number("min-replicas-to-write")
	lag, _ := n.Config.Number("min-replicas-max-lag")
	present, _ := n.Info.Number("connected_slaves")
	return pure.BoundByReplicas(int(present), int(needed), time.Duration(lag)*time.Second)
}

// lone returns a look that passes over nodes that fail over.
func lone(look func(*Node) string) func(*Node) string {
	return func(n *Node) string {
		if n.Failover.Expected {
			return ""
		}
		return look(n)
	}
}
