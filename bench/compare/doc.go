// Package compare sets this module beside other implementations of distributed
// locks on Redis. It is a module of its own, so that importers of redlock do
// not get its dependencies.
//
//	go run ./cmd/compare                   measure everything, write bench/RESULTS.md and docs/throughput.svg
//	go run ./cmd/compare --quick --assert  the check for CI, most of a minute
//
// Package etcd, a module of its own, measures etcd's Mutex with these tools.
//
// This package holds the peers: each implementation behind one call, [Pairer],
// which acquires a lock and releases it. Package internal/window lets one peer
// work for a short time in a process of its own, internal/report turns
// measurements into ratios, tables and a chart, and cmd/compare decides which
// peer is measured when.
//
// # What each peer gets
//
// The default options, or those that were the fastest in this work (see
// bench/README.md), with these exceptions, which are the same for all: one
// try per acquisition, so that no sleep between tries is measured; a TTL of 10
// s; and a resource of its own for each caller, so that no caller waits for a
// lock. What an implementation needs once (clients, connections, scripts) is
// made once, as its documentation advises, and not per pair.
//
// # What is not here
//
// rueidislock, which comes with rueidis, does other work, and a number beside
// ours would mislead in both directions. It takes one client, for one server or
// one cluster, and asks it for a majority of several keys: it has no N
// independent masters, so its lock does not outlive a master. It asks for the
// keys one after the other until it has a majority; the rest follow in the
// background. A lock extends itself, watched by a goroutine per key over
// client-side caching, and its release waits until those goroutines have ended;
// an acquisition has no TTL. Timing that as a pair would charge it for renewal
// and notification, which no other peer offers, and credit it with asking one
// server. redislock, too, knows one server only, but does the same work there:
// it is compared at N = 1.
package compare
