// Package pure makes decisions of redmux as functions of their arguments: time
// and events go in, a new state and an action come out. It has no clock, no
// socket, no goroutine and no lock. The packages multiplex and redlock call it,
// and tables and properties test it here.
//
//   - Life is the stage of a node's life: down, dialing, fencing, paying, up,
//     shed (R8, R26). It is a value: (state, event, now) → (state, action).
//   - Silence decides when a node that does not answer is shed (R26);
//     VoteTimeout, VotePatience, VoteDeadline and UnreadDeadline decide when
//     its vote is given up (R6).
//   - Trust decides whether a node may have forgotten a lock. A Seal passes
//     that on to other clients, and Looks decides when it is read (R23).
//   - Deployment decides which nodes belong to one deployment, and how it is
//     opened (R30).
//   - Void, RestoredCounts, DoubtRenewal and DoubtGranted decide which grants
//     of a quarantined node still count (R10, R23).
//   - Numbers gives attempts their fencing numbers. A Record is what a node
//     remembers of them, and Floors decides which nodes count, and which floor
//     a node gets that forgot them (docs/internals/fencing.md). Clocks is the
//     nodes' time.
//   - Renewal is the state of one lock that is held and renewed (R10, R13). It
//     is also a value.
//   - WorthHandingOver and Young decide whether a lock passes to the next
//     caller without the nodes.
//   - Ledger holds the debts of a node, which are releases that it has not
//     confirmed (R8), and decides when each is sent and when it ends.
//   - Validity, Drift, Elapsed, Remaining, RetryDelay and Smoothed are the
//     arithmetic of the algorithm (R4, R11).
//   - Slot and PrefixSlot tell where a cluster of servers has keys.
//   - Heap orders what is due: debts here, holds in redlock.
//   - Soon is the shortest time that a timer is set to.
//   - Rights are those that a user of a server needs (R22).
//
// Deployment, Ledger, Silence, Looks, Floors, Clocks and Heap are mutable, and
// guarded by their owner's mutex; the other types are values. The tally of a
// round is not here, but in multiplex.Tally.
package pure
