// Package redistest is what the tests, the benchmarks and the tools of this
// module stand on: servers to talk to, and ways to make them fail.
//
//	Servers, Start   real servers, started, stopped, killed, restarted
//	OwnClock, Clock  a real server's clock: its rate, and steps
//	Side             a connection to a real server that stays open beside the clients'
//	Spawn            processes that die with this one, as the servers do
//	Network          an in-memory network for testing/synctest: latency,
//	                 silence, cuts, resets on simulated time
//	Node             a node in memory: keys with a TTL, scripts as Go
//	                 functions, answers and delays as the test wants them
//	Proxy            the faults of Network before a real server
//	Hostile          a node that shakes hands well and then lies
//	NoLeaks          goroutines and descriptors that a test left behind
//
// It knows nothing of redlock, multiplex and conn: it imports resp and the
// standard library, and nothing but tests, mains and package redlocktest, which
// gives others a part of it for their own tests, imports it.
//
// A Link is the one idea behind Network and Proxy: the settings of all
// connections to one address, changeable while they are open. A pipe carries
// the bytes of one direction of one connection under these settings; Network
// puts a net.Conn at each end, Proxy a real socket. Bytes and the end of a
// connection travel in one order, so a close never overtakes a command: that
// is what lets a test build the late SET of R8.
//
// Real servers are redis-server or valkey-server on PATH, or what the
// environment variable REDMUX_SERVER names, and in groups what REDMUX_SERVERS
// lists, in turn. Tests that need one skip where there is none, unless
// REDMUX_REQUIRE_SERVERS is 1.
//
// Whoever makes a thing closes it: Network, Node, Proxy, HostileNode and Server
// each have a Close that returns when their goroutines are gone. Functions that
// take a testing.TB do so by themselves.
package redistest
