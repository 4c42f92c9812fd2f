// Package machines simulates redmux single-threaded: many clients, some
// servers, and all that can go wrong between them, as a queue of events in true
// time. A seed decides everything, so it replays exactly, event by event, and a
// hundred thousand seeds take minutes.
//
// # What is real, and what is re-stated
//
// The decisions are those of the running code: all of internal/pure, and
// multiplex.Tally. They say when a vote is given up and when a node is shed, what
// is owed and when it is sent, which node is trusted and when its seal is read or
// written, and when a hold is renewed or lost. A bug there is a bug here. Package
// internal/lua/model does what the scripts do.
//
// The code around them is re-stated as briefly as possible, since in the
// running code it consists of goroutines, locks and sockets: a round with its
// votes (round.go), a node with its handshake, fence, payments, join and end
// (member.go), the looks at the node (watch.go), what is read of its seal and
// done to it (deployment.go), its floors and the process's numbers
// (numbers.go), an attempt, its retries, extension and release (worker.go), what
// readers, writers, permits and callers in a queue do beyond that (form.go), and
// a hold (holder.go). So this simulation is evidence about the rules and the
// decisions; proof/sim/running shows that the running code combines
// them in the same way. Left out is what cannot break a promise
// in a world without bytes: merged and native releases, CLIENT TRACKING and the
// queues of waiting callers, MinHold, bounds on memory, RESP, and TLS.
//
// The world has no counterpart in the running code: servers with keys that
// expire by their own clocks, up to a millisecond early (server.go), with a
// seal and an account of their past (server_mark.go), a memory of fencing
// numbers (server_numbers.go), and sets of readers and queues (server_form.go); links with delays, and connections whose ends
// learn of the end at different times (link.go);
// processes with three clocks that are stopped, suspended and killed
// (process.go, clock.go), and some of which name other servers than the rest;
// and faults (faults.go). scenario.go draws which of these a seed has. Most
// seeds have few kinds of faults, and half of them have a theme: faults that
// cause trouble together.
//
// # What is checked
//
// The referee (referee.go, referee_order.go, referee_form.go) knows true time and what each
// server executed, and checks what is promised:
//
//   - exclusion: at most one holder within validity, each by its own clocks,
//     whenever a validity begins or is prolonged; also among processes that
//     name different nodes, even if one of these nodes changes sides (R29)
//   - R30: no two deployments that overlap are sealed at one time; nothing is
//     granted to a process that sees several; processes of one set that start
//     together agree within a second
//   - R4: no validity reaches further than a command that a quorum executed
//     justifies
//   - R7, R8: if nothing is wrong, no key of an ended attempt is left, at once
//     or, after a fault, promptly; no SET is executed after the release that
//     undoes it
//   - R10: no extension counts once the old validity is over; no healing counts
//     if another client's key may have been forgotten
//   - R13, R15: a holder is told of the end in time, and after a pause by the
//     first query
//   - R26: a node that can be reached again is up, and its debts are paid,
//     within 1.5 s
//   - F1 to F4: a lock with a fencing number has a higher one than each lock
//     that had been granted before its attempt began, and none has the same
//   - read/write locks and semaphores: readers share, a writer excludes all but
//     the reader that it was, no other writer comes in a downgrade, and there
//     are never more holders than permits
//   - fair locks: a caller that waits in the queues of a quorum, with leases
//     that live, is not overtaken by one whose call began when it was there
//   - several resources: a server has all keys of an attempt or none, exclusion
//     is checked for each resource, and callers do not block each other
//   - liveness and R28: some time after the last fault every node counts for
//     every process, every lock can be acquired, and nothing is left. Nodes have
//     floors again, which an operator (operator.go) resets where none can be
//     learned
//
// Faults respect the promises' conditions: clocks stay within the drift; no
// clock steps forward while a lock has just a quorum of keys; no server
// restarts without memory if no MaxTTL is set. Servers are flushed only in
// worlds in which the order of numbers is checked, and exclusion is not. While
// no node of a set has a seal, none of them is replaced by a server that has
// run elsewhere, and no clock is set far ahead (R29).
//
// Outside of the promise, and counted as such: a server that lost its seal is
// sealed for another set of nodes before a client of its own gave it the seal
// back. Two sets may then both work for a while. The referee ends a seed in
// which both hold a lock that the first set asked for after that server had
// come back, and does not require that either works in the end.
//
// That the referee works is tested too: broken.go lists rules that can be
// broken on purpose, and TestEachBrokenPartIsFound requires that each is found
// within three thousand seeds. Those that chance does not meet have histories of
// their own (form_test.go).
//
//	go test ./proof/sim/machines -run 'TestSim$' -v -sim.seeds=100000
//	go test ./proof/sim/machines -run 'TestSim$' -v -sim.seed=4711 -sim.trace
package machines
