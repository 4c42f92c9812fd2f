// Package redistest provides servers for the tests, the benchmarks and the
// tools of this module, and ways to make them fail.
//
//	Servers, Start   real servers, started, stopped, killed, restarted
//	Sentinels        a primary, its replicas and sentinels, and their failovers
//	Cluster          a cluster of six: failovers, and slots that move
//	OwnClock, Clock  a real server's clock: its rate, and steps
//	Side             a connection to a real server, beside the clients'
//	Spawn            processes that die with this one, as the servers do
//	Network          an in-memory network for testing/synctest: latency,
//	                 silence, cuts, resets on simulated time
//	Node             a node in memory: keys with a TTL, scripts as Go
//	                 functions, answers and delays as the test wants them
//	Proxy            the faults of Network in front of a real server
//	Hostile          a node that completes the handshake and then lies
//	NoLeaks          a check for goroutines and descriptors that a test leaves
//
// It knows nothing of multiplex and conn, and of redlock only what its scripts
// do (lua.go). Only tests, main packages and redlocktest import it; the latter
// makes a part of it available to users' tests.
//
// Network and Proxy are built on Link: the settings of all connections to one
// address, which can be changed while they are open. A pipe carries the bytes
// of one direction of one connection under these settings; Network puts a
// net.Conn at each end, Proxy a real socket. Bytes and the end of a connection
// arrive in the order in which they were sent, so a close never overtakes a
// command. That lets a test build the late SET of R8.
//
// Real servers are redis-server or valkey-server on PATH, or the program that
// the environment variable REDMUX_SERVER names. Groups use the programs that
// REDMUX_SERVERS lists, in turn. Tests that need a server are skipped if there
// is none, unless REDMUX_REQUIRE_SERVERS is 1.
//
// The caller must close what it makes: Network, Node, Proxy, HostileNode and
// Server each have a Close that returns when their goroutines have ended.
// Functions that take a testing.TB close what they make when the test ends.
package redistest
