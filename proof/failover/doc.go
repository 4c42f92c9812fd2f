// Package failover runs redlock on real servers that fail over, again and
// again, and looks for two holders of one lock.
//
//	Trial      clients that use few locks while a node fails over
//	Sentinels  a node: a primary with two replicas and three sentinels
//	Cluster    a node: the master of a slot, in a cluster of six
//	Way        how one client reaches the servers: it may be left with a former
//	           primary
//	Truth      who held what, and when, by one clock
//
// Before each failover half of the clients are left with the primary of that
// moment. They reach no other server, and a sentinel that is outdated, until
// all is over. The others follow at once; one of these reads by the poller, as
// the others cannot, since they do not dial by themselves. Each client also
// keeps a lock that renews itself, as long as it lives. In half of the
// failovers the replicas lag behind, so that the keys of the last moments are
// lost. Now and then a caller keeps its lock to the end of its validity and
// does not release it, as if it had died: then a validity that is a little too
// long shows.
//
// The trial knows nothing of how a client locks, so that other libraries can be
// put through the same (bench/compare/trial). Whether it finds anything at all
// is what a planted bug shows (testdata/mutants): without the time for which a
// new primary does not count, there are two holders.
//
// Many failovers take long, since new primaries do not count for a while. So
// several trials run at one time:
//
//	go test ./proof/failover -v -run Sentinels_R23 -parallel 5 \
//		-failover.trials=5 -failover.count=40
package failover
