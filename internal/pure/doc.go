// Package pure holds decisions of redmux as functions of their arguments: time
// and events come in, a new state and what to do come out. It has no clock, no
// socket, no goroutine and no lock. The packages multiplex and redlock feed it,
// tables and properties test it here, and a single-threaded simulation
// (internal/proof/sim/machines) drives the same code, so that a seed of it
// replays exactly.
//
//   - Life is where a node stands: down, dialing, fencing, paying, up, shed
//     (R8, R26). It is a value: (state, event, now) → (state, action).
//   - Silence tells when a node that does not answer is shed (R26);
//     VoteTimeout, VotePatience, VoteDeadline and UnreadDeadline tell when its
//     vote is given up (R6).
//   - Trust tells whether a node may have forgotten a lock, and Debut whether a
//     deployment is new; a Seal passes that on to other clients, and Looks says
//     when it is read (R23).
//   - Void, RestoredCounts, DoubtRenewal and DoubtGranted tell which grants of
//     such a node count all the same (R10, R23).
//   - Numbers gives attempts their fencing numbers. A Record is what a node
//     remembers of them, and Floors decides which nodes count, and what those
//     that forgot must be told (docs/fencing.md). Clocks is the nodes' time.
//   - Renewal is one lock that is held and renewed (R10, R13), also a value.
//   - Ledger holds the debts of a node, releases that it has not confirmed
//     (R8), and decides when each is sent and when it ends.
//   - Validity, Drift, Elapsed, Remaining, RetryDelay and Smoothed are the
//     arithmetic of the algorithm (R4, R11).
//   - Heap is the order of what is due: of debts here, of holds in redlock.
//   - Soon is the shortest time that a timer is set to.
//
// Ledger, Silence, Looks, Floors, Clocks and Heap are mutable, and guarded by
// their owner's mutex; the other types are values. The tally of a round is not
// here, but in multiplex.Tally.
package pure
