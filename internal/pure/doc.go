// Package pure holds decisions of redmux as functions of their arguments: time
// and events come in, a new state and what to do come out. It has no clock, no
// socket, no goroutine and no lock. The packages multiplex and redlock feed it,
// tables and properties test it here, and a single-threaded simulation
// (internal/proof/sim/machines) drives the same code, so that a seed of it
// replays exactly.
//
//   - Life is where a node stands: down, dialing, fencing, paying, up, shed (R8,
//     R26). It is a value: (state, event, now) → (state, action).
//   - Trust tells whether a node may have forgotten a lock, and Debut whether a
//     deployment is new; a Seal passes that on to other clients (R23). All three
//     are values, too.
//   - Renewal is one lock that is held and renewed (R10, R13), also a value.
//   - Ledger holds the debts of a node, releases that it has not confirmed (R8).
//     It is a mutable store in the order of their times, guarded by its owner's
//     mutex. multiplex decides when a debt arises and what an answer means.
//   - Validity, Drift, Elapsed, Remaining and RetryDelay are the arithmetic of the
//     algorithm (R4, R11).
//   - Soon is the shortest time that a timer is set to.
//
// Not here are the tally of a round, which is multiplex.Tally, and the
// decisions about vote timeouts, silent nodes and the cadence of seals, which
// are part of multiplex.
package pure
