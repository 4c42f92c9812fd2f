package failover

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

var (
	count  = flag.Int("failover.count", 2, "how many failovers each trial makes")
	trials = flag.Int("failover.trials", 1, "how many trials with one set of servers there are at one time")
	limit  = flag.Duration("failover.for", 9*time.Minute, "after what time trials end all the same")
	maxTTL = flag.Duration("failover.ttl", 3*time.Second, "the longest TTL")
	needed = flag.Int("failover.needed", 1, "min-replicas-to-write of a primary with two replicas; with 1, the bound is declared")
	secure = flag.Bool("failover.tls", false, "servers and sentinels are over TLS")
	back   = flag.Bool("failover.back", false, "a replica returns to each former primary for a while; with -failover.needed=1, two callers have a lock at one time")
)

// watched is for how long a new primary does not count: MaxTTL, the bound by
// min-replicas-max-lag 1, and the longest silence.
func watched(maxTTL time.Duration) time.Duration { return (maxTTL + 6*time.Second) * 101 / 100 }

// One primary with two replicas fails over again and again, in all ways: no two
// callers have a lock at one time.
func TestSentinels_R23(t *testing.T) {
	redistest.Long(t)
	redistest.Require(t)
	for i := range *trials {
		t.Run(fmt.Sprint("trial=", i), func(t *testing.T) {
			t.Parallel()
			requireLost(t, run(t, Trial{Nodes: []Node{newSentinels(t)}, Open: openOurs()}))
		})
	}
}

// Of three nodes that fail over, one at a time is away, and the others grant.
// One of them is over TLS.
func TestThreeSentinels_R23(t *testing.T) {
	redistest.Long(t)
	redistest.Require(t)
	t.Parallel()
	report := run(t, Trial{Nodes: threeSentinels(t), Open: openOurs()})
	for i, pause := range report.Pauses {
		if !report.Joined[i] {
			assert.Less(t, pause, watched(*maxTTL)/2, "at failover %d", i)
		}
	}
	if !slices.Contains(report.Joined, true) {
		assert.Positive(t, report.Lived, "the two others renew a lock")
	}
}

// Clients whose quorums have only the node in common that fails over are those
// that could meet.
func TestThreeSentinelsIsolated_R23(t *testing.T) {
	redistest.Long(t)
	redistest.Require(t)
	t.Parallel()
	requireLost(t, run(t, Trial{Nodes: threeSentinels(t), Open: openOurs(), Isolated: true}))
}

// requireLost requires that no lock lives through a failover that takes longer
// than its TTL, if its quorum needs the node.
func requireLost(t *testing.T, report *Report) {
	if *maxTTL < watched(*maxTTL)/2 {
		assert.Zero(t, report.Lived)
	}
}

// The slot of all keys gets other masters, by failovers, by partitions and by
// migration.
func TestCluster_R23(t *testing.T) {
	redistest.Long(t)
	redistest.Require(t)
	t.Parallel()
	run(t, Trial{Nodes: []Node{NewCluster(t)}, Open: Ours(*maxTTL, declared)})
}

func threeSentinels(t *testing.T) (nodes []Node) {
	for i := range 3 {
		nodes = append(nodes, NewSentinels(t, *needed, *secure || i == 0, kinds()...))
	}
	return nodes
}

func newSentinels(t *testing.T) Node { return NewSentinels(t, *needed, *secure, kinds()...) }

func kinds() []string {
	if *back {
		return []string{Returned}
	}
	return SentinelKinds
}

// declared is what min-replicas-max-lag 1 comes to, and longer than a master of a
// cluster is stopped here beyond its cluster-node-timeout.
const declared = "failover=3s"

// openOurs declares the bound where redlock cannot read it: a replica might stay
// with the former primary.
func openOurs() func(*Way) (Client, error) {
	if *needed == 1 {
		return Ours(*maxTTL, declared)
	}
	return Ours(*maxTTL, "")
}

func run(t *testing.T, trial Trial) *Report {
	trial.MaxTTL, trial.Failovers, trial.Log = *maxTTL, *count, t.Logf
	trial.Rest = watched(*maxTTL) + 1500*time.Millisecond
	trial.Until = time.Now().Add(*limit)
	report, err := trial.Run()
	if report != nil {
		median, most, longest := Quantiles(report.Pauses)
		t.Logf("%d failovers %v, others joined %v, %d spells, grants %v, of renewed locks %d lived on and %d were lost; no new lock for %.2f s in the median, %.2f s in nine of ten, %.2f s at most, where %.2f s are expected",
			report.Failovers, report.Kinds, report.Joined, report.Spells, report.Grants, report.Lived, report.Lost, median.Seconds(), most.Seconds(), longest.Seconds(), watched(*maxTTL).Seconds())
	}
	require.NoError(t, err)
	assert.Empty(t, report.Overlaps)
	assert.Positive(t, report.Lived+report.Lost, "no lock that renews itself was held when a failover began")
	assert.LessOrEqual(t, report.Lived+report.Lost, clients*report.Failovers, "each client keeps one")
	return report
}
