// Package trial puts implementations of distributed locks through the same faults, on the same real servers, and counts what
// came of it. It asks what an incident would ask, and not how fast anybody is: is a key left behind when a caller gives up, how
// long does one stopped master hold everybody up, are there two holders after a master came back empty, or after a release
// arrived late, and does whoever lost a lock hear of it.
//
// Each subject is used as its documentation says, with its default options and, where options exist that are meant for the
// fault, with those as well. A trial calls a lock held until the end of validity that its own implementation states. Each
// subject gets servers of its own, so that none suffers from what another left.
//
// cmd/faults runs the trials and writes docs/peers.md.
package trial
