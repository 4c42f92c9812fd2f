// Package compare sets this module beside other implementations of distributed locks on Redis. It is a module of its own,
// so that what they depend on reaches nobody who imports redlock. It may use the root's internal packages, since its path
// lies below the root's.
//
//	go run ./cmd/compare                   measure everything, write bench/RESULTS.md and docs/throughput.svg
//	go run ./cmd/compare --quick --assert  the check for CI, most of a minute
//
// This package holds the peers: each implementation behind one call, [Pairer], which acquires a lock and releases it.
// Package internal/window lets one peer work for a short time in a process of its own, internal/report turns what was
// measured into ratios, tables and a chart, and cmd/compare decides who is measured when.
//
// # What each peer gets
//
// The options that its users get when they set none, with these exceptions, which are the same for all: one try per
// acquisition, so that a pair is one acquisition and one release and no sleep between tries is measured; a TTL of 10 s; and
// a resource of its own for each caller, so that nobody waits for a lock. What an implementation needs once (clients,
// connections, scripts) is made once, as its documentation advises, and not per pair.
//
// # Who is not here
//
// rueidislock, which comes with rueidis, does other work, and a number beside ours would mislead in both directions. It takes
// one client, for one server or one cluster, and asks it for a majority of several keys: there are no N independent
// masters, so it gives no lock that outlives a master, which is what is compared here. The keys it asks for one after the
// other until the majority is there; the rest follow in the background. A lock that it granted extends itself, watched by
// a goroutine per key over client-side caching, and its release waits until those goroutines have ended; there is no TTL per
// acquisition. To time that as an acquire/release pair would charge it for renewal and notification, which nobody else
// here offers, and credit it with asking one server. redislock, too, knows one server only, but does the same work there:
// it is compared at N = 1.
package compare
