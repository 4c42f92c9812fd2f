package doctor

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// checkFailover wants nodes that fail over to be fenced in time: a former
// primary must stop accepting writes soon after another was promoted.
func (d *Deployment) checkFailover() []Finding {
	return append(finding(Finding{Level: Warning, Seen: d.seen(unbounded), Found: "a former primary may go on granting locks for longer than clients know",
		Why: "after a failover two clients can hold one lock while two primaries accept writes",
		Change: "on all servers of the node set min-replicas-to-write to the number of its replicas, and min-replicas-max-lag to a few " +
			"seconds, or declare in the URL how long a former primary may write; in a cluster that is at least one and a half times " +
			"cluster-node-timeout, and a second"}), append(d.checkSealedFailover(), d.checkOutlasting()...)...)
}

// unbounded returns why a former primary of the node may write for longer than
// clients know, or "".
func unbounded(n *Node) string {
	bound, asked := outlook.Bound(&n.Facts), n.Config["min-replicas-to-write"] != ""
	timeout := boundByTimeout(n)
	switch declared := n.Failover.Bound; {
	case !n.Failover.Expected:
		return ""
	case declared < 0:
		return "its URL says that nothing bounds a former primary"
	case declared == 0 && !asked:
		return "it may not be asked for min-replicas-to-write"
	case declared == 0 && bound > 0, declared > 0 && !asked:
		return ""
	case timeout > 0 && declared > 0 && (bound == 0 || timeout < bound):
		if declared < timeout {
			return fmt.Sprintf("cluster-node-timeout %s allows %v, and its URL says %v", n.Config[nodeTimeout], timeout, declared)
		}
	case bound == 0:
		present, _ := n.Info.Number("connected_slaves")
		return fmt.Sprintf("min-replicas-to-write %s, min-replicas-max-lag %s, and %s",
			n.Config["min-replicas-to-write"], n.Config["min-replicas-max-lag"], plural(present, "replica"))
	case declared < bound:
		return fmt.Sprintf("its settings allow %v, and its URL says %v", bound, declared)
	}
	return ""
}

const (
	nodeTimeout = "cluster-node-timeout"
	// stateTaken is how long a master of a cluster may take to act on what it
	// sees. It looks ten times a second, and later if it is busy.
	stateTaken = time.Second
)

// boundByTimeout returns how long a master of a cluster goes on accepting
// writes once it is cut off from most others, or 0 where that is unknown. It
// pings each of them at least every half of cluster-node-timeout, and gives
// those up whose answer is missing for the whole
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/,
// "Heartbeat and gossip messages").
func boundByTimeout(n *Node) time.Duration {
	timeout, _ := n.Config.Number(nodeTimeout)
	if !n.inCluster() || timeout <= 0 || timeout > pure.LongestTTL.Milliseconds() {
		return 0
	}
	return time.Duration(timeout)*time.Millisecond*3/2 + stateTaken
}

// inCluster reports whether the URL leads to servers of a cluster.
func (n *Node) inCluster() bool { return n.Failover.Expected && n.Server.Mode == "cluster" }

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
		alone, noticed := outlook.Alone(&n.Facts), noticedAfter(n)
		if d.MaxTTL == 0 || alone+noticed <= d.MaxTTL*2/3 {
			return ""
		}
		var what string
		if noticed > 0 {
			what = fmt.Sprintf("a loss is noticed after %v, ", noticed)
		}
		if alone > 0 {
			what += fmt.Sprintf("a former primary may grant for %v, ", alone)
		}
		return what + fmt.Sprintf("and MaxTTL is %v", d.MaxTTL)
	})
	return finding(Finding{Level: Warning, Seen: seen, Found: "no lock outlives the loss of a primary",
		Why: "a lock that was renewed in time has two thirds of its TTL left, and ends before another primary renews it",
		Change: "raise MaxTTL and the TTL of holds, or lower min-replicas-max-lag, or down-after-milliseconds of the sentinels " +
			"(in a cluster cluster-node-timeout)"})
}

// noticedAfter returns how long the loss of a primary goes unnoticed at least,
// as far as is known.
func noticedAfter(n *Node) (after time.Duration) {
	longest := func(milliseconds int64) { after = max(after, time.Duration(milliseconds)*time.Millisecond) }
	for _, s := range n.Around.Seeds {
		if down, _ := s.Watch.Number(downAfter); down > 0 && down <= pure.LongestTTL.Milliseconds() {
			longest(down)
		}
	}
	if timeout, _ := n.Config.Number(nodeTimeout); n.inCluster() && timeout > 0 && timeout <= pure.LongestTTL.Milliseconds() {
		longest(timeout)
	}
	return after
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
