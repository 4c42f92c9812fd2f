// Package faults runs redlock on real servers while everything fails that can
// be made to fail, and checks what happens. `make faults` runs
// it; cmd/faults is its command line.
//
//	Run         servers, client processes, faults and checks for a time
//	Kinds       what can go wrong: one entry for each kind of fault
//	WorkerMain  a client process: the command starts itself again for each
//
// Clients are processes of their own, since a process that is stopped past its
// validity, or that dies in the middle of an attempt, is a fault too. One
// reaches the nodes by unix sockets, one by TCP, two through proxies, the last
// of them without the poller. Each has three clients of redlock, one of them
// with fencing numbers, and puts seven loads on them: uncontended locks as fast
// as it can, contended ones that wait to be told and that poll, attempts that
// are cancelled at a random moment, holds that renew and heal themselves,
// fenced locks and locks on several resources, which compete with each other
// and with plain ones, locks of other kinds (readers and writers, which become
// each other; permits; callers that are served in order, some of which leave),
// and a candidate of an election. The parent is the operator, who resets the
// fence when too many servers have lost their memory for the others to make up
// for it, as after all have at once. Until then no fenced lock is granted.
//
// # What is checked
//
//   - Exclusion: each event of a contended resource goes to the parent as it
//     happens, is put in order of time over all processes, and is judged by
//     history.Exclusion and history.Locks. Some locks are dropped, so that the next holder gets
//     them as soon as their keys have expired, on clocks that are as fast as
//     the drift allows: then a validity that is a little too long shows. Some
//     callers do not read the tokens of their locks, so that these are handed
//     over to other callers of their client. A lock on several resources is a
//     holder of each. Readers may share, permits up to their number, and a term
//     of a leader is a lock.
//   - Order: of callers that wait for a fair lock, none gets it before one that
//     knew its place in the queue when the other began, and still has it.
//   - Fencing numbers: one that was granted before an attempt began is lower
//     than that attempt's, and none is granted twice, whatever servers, clocks
//     and clients do, and also across a reset.
//   - Mix-ups of replies: the names of uncontended resources are never used
//     again, so that "held" answers another question; and the nodes are asked
//     directly, and through the client, whether the key holds its holder's
//     token.
//   - Locks that vanish: a lock that is not held any more within its validity
//     is a finding, unless a node forgot its keys meanwhile.
//   - Orphans: now and then all faults are healed and the load rests. When
//     every client is connected and owes nothing, only keys of living holds may
//     be left, and no node has any other a second later. A reader's entry is
//     such a key; marks, tickets and the like end by themselves (orphans.go).
//     Right before a rest, those faults are made after which something is most
//     easily left behind.
//   - The holder is told in time (R13, R15), by the clock of its own process.
//   - A client that names other servers gets no lock (R30).
//   - Nothing passes idly: locks of every kind, extensions, renewals, leaders
//     that step down, and after a loss of power refusals without a floor, a
//     reset, second rounds, and locks that follow, have all been there
//     (Report.Idle).
//   - With Options.Soak, memory, goroutines and descriptors have no slope.
//
// A run of a minute found each of these bugs, planted in redlock or multiplex:
// a release without comparison, no release after a failed attempt, no fence, no
// quarantine, a validity that counts from the end of the attempt, no drift. One
// of 20 seconds found the number of a lock on several resources that is
// compared with the last number of only one of them, or stored for only one.
// Options.Broken has others, which tests of this package plant.
//
// # What is not injected
//
// FLUSHALL and eviction, and forward jumps of a node's clock under a lock that
// was granted by exactly a quorum: redlock does not promise to survive them,
// and two holders would be no finding.
//
// # Who owns what
//
// Run owns the servers, the proxies, the processes and the folder, and ends
// them before it returns. One goroutine per node, one per proxied process and
// one for the processes themselves inject faults (schedule.go), and one those
// of all servers together, while no other fault is at work. A limiter bounds
// how many nodes are faulty at once and is closed while the load rests.
// One goroutine per process reads what it tells. The log of faults has those of
// the moment, behind its mutex.
package faults
