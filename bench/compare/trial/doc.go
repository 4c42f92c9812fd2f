// Package trial makes the same faults for several implementations of
// distributed locks, on real servers, and counts the results: is a key left
// behind when a caller gives up, what becomes of a try whose reply is lost, for
// how long does one stopped master block callers, are there two holders after a
// master came back empty, or after a release arrived late, and does a holder
// learn that its lock is lost.
//
// Each subject is used as its documentation recommends, with its default
// options and, if it has options meant for the fault, with those as well. A
// trial calls a lock held until the end of validity that its implementation
// states. Each subject gets fresh servers.
//
// [Run] makes all of them. docs/internals/peers.md has what came of them.
package trial
