// Package redlocktest gives users of package redlock a deployment to test
// against: nodes that stop, restart empty, freeze, answer late and refuse
// connections when the test says so.
//
//	d := redlocktest.New(t, 5)
//	client := d.Client(t)
//	…
//	d.Node(0).Stop()
//
// Without an option the nodes run in this process and the network is in memory:
// nothing is installed, no port is taken, and five nodes start in less than a
// millisecond. Inside testing/synctest all of it runs in simulated time, where
// the test of a lock that expires tonight takes milliseconds. (A client probes
// an idle node every five seconds, so a simulated day of five nodes and an idle
// client costs seconds.) The nodes execute the commands of this module's client
// as real servers do, and no others. Under -race, set your own timers in a
// bubble to at least a nanosecond: a timer that is due when it is set crashes
// the race detector (go.dev/issue/78156); this module sets none. With Real the
// nodes are redis-server or valkey-server processes, each behind a proxy that
// simulates faults of the network.
//
// The package imports this module and the standard library only. A Deployment
// owns its nodes and ends them with the test; clients made by Deployment.Client
// are closed before that. Tests with nodes in memory run in one process: they
// say nothing about a machine's clocks, disks or network.
package redlocktest
