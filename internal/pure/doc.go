// Package pure holds the decisions of redmux that take time and events as arguments and give a new state and what to do:
// (state, event, now) → (state, action). It has no clock, no socket, no goroutine and no lock. The running code of multiplex
// and redlock feeds these machines, tables and properties test them here, and the single-threaded simulation
// (internal/proof/sim/machines) drives the very same ones, so that a seed of it replays exactly.
//
//   - Life is where a node stands: down, dialing, fencing, paying, up, shed (R8, R26).
//   - Ledger holds the debts of a node: releases that it has not confirmed (R8).
//   - Trust says whether a node may have forgotten a lock, and Debut whether a deployment is new; Seal is what the one tells
//     the other clients (R23).
//   - Renewal is one lock that is held and renewed (R10, R13).
//   - Validity, Drift, Elapsed, Remaining and RetryDelay are the arithmetic of the algorithm (R4, R11).
//   - Soon is the least that whoever acts on these sets a timer to.
//
// The tally of a round stands beside the types of its votes, as multiplex.Tally.
package pure
