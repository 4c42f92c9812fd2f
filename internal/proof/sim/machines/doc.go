// Package machines simulates redmux single-threaded: many clients, some servers, and all that can go wrong between them, as a
// queue of events in true time. A seed decides everything, so it replays exactly, event by event, and a hundred thousand of
// them take minutes.
//
// # What is real, and what is re-stated
//
// The decisions are the ones that the running code uses: all of internal/pure, and multiplex.Tally. When a vote is given up
// and when a node is shed, what is owed and when it is sent, who is trusted and when a seal is read or written, when a hold is
// renewed or lost: whatever is broken there is broken here.
//
// What stands around them is re-stated in as few words as possible, since the running code makes it of goroutines, locks and
// sockets: a round with its votes (round.go), a node with its handshake, fence, payments, join and end (member.go), the looks
// at it and at its seal (watch.go), an attempt with its retries, extension and release (worker.go), and a hold (holder.go). So
// this is evidence about the rules and about the decisions; internal/proof/sim/running shows that the running code puts them
// together in the same way. Left out is what cannot break a promise in a world without bytes: merged and native releases,
// CLIENT TRACKING and the queues of callers that wait, MinHold, bounds on memory, RESP, and TLS.
//
// The world has no counterpart: servers with keys that expire by clocks of their own, up to a millisecond early (server.go);
// links with delays, and connections whose ends learn of their end at different times (link.go); processes that are stopped,
// suspended and killed, with three clocks (process.go, clock.go); and misfortune (faults.go). scenario.go draws which of it a
// seed has: few kinds of faults in most, by themes that make trouble together in half of them.
//
// # What is judged
//
// The referee (referee.go) knows true time and what each server executed, and judges what is promised:
//
//   - exclusion: at most one holder within validity, each by its own clocks, whenever a validity begins or is prolonged
//   - R4: no validity reaches further than a command that a quorum executed gives reason to
//   - R7, R8: no key of what is over is left where nothing is wrong, at once or, after trouble, promptly; no SET is executed
//     behind the release that undoes it
//   - R10: no extension counts once the old validity is over; no healing is proof where somebody else's key may be forgotten
//   - R13, R15: who holds is told of the end in time, and after a pause by the first question
//   - R26: a node that can be reached again is up, and its debts are paid, within 1.5 s
//   - liveness and R28: some time after the last fault every node counts for everybody, every lock is to be had, and nothing is
//     left
//
// Faults keep to what is promised: clocks within the drift, no steps forward where a lock has just a quorum of keys, no
// restarts without memory where no MaxTTL is set, and none that takes the last seal from a deployment whose declaration to be
// new (redlock.Config.NewDeployment) is still to be used.
//
// That the referee finds what it is there for is tested too: broken.go lists rules that can be broken on purpose, and
// TestEachBrokenPartIsFound demands each to be found within a thousand seeds.
//
//	go test ./internal/proof/sim/machines -run 'TestSim$' -v -sim.seeds=100000
//	go test ./internal/proof/sim/machines -run 'TestSim$' -v -sim.seed=4711 -sim.trace
package machines
