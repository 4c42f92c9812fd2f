package doctor

import (
	"fmt"
	"time"

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
			"seconds, or declare in the URL how long a former primary may write"}), d.checkOutlasting()...)
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
