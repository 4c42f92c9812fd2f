package pure

import "time"

// A Failover is what is known of a node behind which the server may change. The
// zero Failover is that of a lone master.
type Failover struct {
	Expected bool
	// Bound is how long a former primary may go on accepting writes after
	// another was promoted, by its own settings. If zero, nothing bounds it.
	Bound time.Duration
}

const (
	// graceLeast is the shortest Failover.Grace: a client that pauses for a
	// moment should not have to wait.
	graceLeast = time.Second
	// graceMost is the longest. Probes three times as often cost a server
	// little.
	graceMost = 3 * time.Second
)

// Grace returns how long a server may be silent. After a longer silence it may
// have been stopped, and time that it did not notice does not count for its
// bound.
func (f Failover) Grace() time.Duration {
	if f.Bound == 0 {
		return graceMost
	}
	return min(max(f.Bound, graceLeast), graceMost)
}

// Alone returns how long after the first reply of a new primary its former one
// may still grant: all of the bound, and a silence that was not noticed. Clocks
// may differ in rate by the drift. Without a bound it is zero, and the promise
// is for one primary at a time.
func (f Failover) Alone(drift float64) time.Duration {
	if f.Bound == 0 {
		return 0
	}
	return NeedFor(f.Bound+f.Grace(), drift)
}

const (
	// lagCounted is how far behind the good replicas of a primary may be beyond
	// min-replicas-max-lag: lags are whole seconds.
	lagCounted = time.Second
	// lagRefreshed is how often a primary counts its good replicas.
	lagRefreshed = time.Second
)

// BoundByReplicas returns the Failover.Bound of a primary that accepts no
// writes without enough replicas, which must not lag behind by more than
// maxLag. It is zero unless all present replicas are needed: after the
// promotion of one of them, the others may stay with the former primary.
func BoundByReplicas(present, needed int, maxLag time.Duration) time.Duration {
	if needed < 1 || needed < present || maxLag <= 0 {
		return 0
	}
	return maxLag + lagCounted + lagRefreshed
}

// Renewable reports whether an extension, or healing, counts on a server too
// young for claims. ends is when the node's own vote for the lock ends, which
// another of its servers may have given; met is when the server was met as a
// primary, and alone what Failover.Alone returned. Up to ends, no other client
// counts a vote of the node. From met plus alone on, no former primary lets
// another client in. So no time is left for one.
func Renewable(ends, met, alone time.Duration) bool { return ends >= met+alone }
