// Package redlocktest gives a user of package redlock a deployment to test against: nodes that stop, restart empty, freeze,
// answer late and refuse connections when the test says so.
//
//	d := redlocktest.New(t, 5)
//	client := d.Client(t)
//	…
//	d.Node(0).Stop()
//
// Without an option the nodes are in this process and the network is in memory: nothing is installed, no port is taken, five
// nodes start in less than a millisecond, and all of it runs on simulated time inside testing/synctest, where the test of a
// lock that expires tonight is over in milliseconds. (A client asks an idle node every five seconds how it is: a simulated day
// of five nodes and a client that does nothing else costs seconds.) They execute the commands of this module's client, as real
// servers do, and no others. Under -race, set your own timers in a bubble to a nanosecond at least: those that are due when
// they are set make the race detector crash (go.dev/issue/78156); this module sets none. With Real they are redis-server or
// valkey-server processes, each behind a proxy that makes the network's faults.
//
// It stands on package redlock and on this module's own test helpers, and brings in nothing besides. A Deployment owns its
// nodes, and ends them with the test; clients that Deployment.Client made are closed before. What a test finds here it finds
// in one process: it says nothing of a machine's clocks, disks or network.
package redlocktest
