// Package faults runs redlock on real servers while everything that can be made to fail fails, and judges what came of it.
// `make faults` and `make soak` run it; cmd/faults is its command line.
//
//	Run          servers, client processes, faults and checks for a time; returns a Report
//	Kinds        what can go wrong: one line for each kind of fault
//	MeasureRecovery, MeasureStalled, MeasureLatency
//	             one fault at a time, nothing else wrong: from its end to a counted vote, memory, what it costs
//	WorkerMain   what a client process does: the command starts itself again for each of them
//
// Clients are processes of their own, because to be stopped past one's validity and to die in the middle of an attempt are
// faults too. One reaches the nodes by unix sockets, one by TCP, two through proxies, the last of them without the poller.
// Each has two clients of redlock and makes four loads over them: uncontended locks as fast as it can, contended ones that wait
// to be told and that poll, attempts that are cancelled at a random moment, and holds that renew and heal themselves.
//
// # What is checked
//
//   - Exclusion: every event of a contended resource goes to the parent as it happens, is put in order of time over all
//     processes, and is judged by history.Exclusion. Some locks are dropped, so that the next holder has them as soon as their
//     keys have expired, on clocks that are as fast as the drift allows: then a validity that is a little too long shows.
//   - Mix-ups of replies: uncontended resources have names that were never used before, so that "held" is somebody else's
//     answer; and the nodes are asked from the side, and through the client, whether the key holds the token of its holder.
//   - Locks that vanish: a lock that is not held any more within its validity is a finding, unless a node forgot its keys
//     meanwhile.
//   - Orphans: now and then all faults are healed and the load rests. When every client is connected and owes nothing, only
//     keys of living holds may be left, and no node has any other a second later.
//     Right before a rest those faults are made after which something is most easily left behind.
//   - The holder is told in time (R13, R15), by the clock of its own process.
//   - With Options.Soak, no slope of memory, goroutines or descriptors.
//
// Each of these bugs, planted in redlock or multiplex, was found in a run of a minute: a release without comparison, no release
// after a failed attempt, no fence, no quarantine, a validity that counts from the end of the attempt, no drift. Options.Broken
// has others, which tests of this package plant.
//
// # What is not injected
//
// FLUSHALL and eviction, and forward jumps of a node's clock under a lock that was granted by exactly a quorum: they are
// outside the promise (docs: "What is not"), and two holders would be no finding.
//
// # Who owns what
//
// Run owns the servers, the proxies, the processes and the folder, and ends them before it returns, whatever happened. One
// goroutine per node, per proxied process and for the processes themselves injects faults (schedule.go); a gate bounds how
// many nodes are faulty at once and is closed while the load rests. One goroutine per process reads what it tells. What they
// all know of the moment is in the log of faults (log.go), behind its mutex.
package faults
