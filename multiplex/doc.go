// Package multiplex asks N independent nodes the same thing at once and reads the replies afterwards: the "poor man's
// multiplexing" of the Redlock description, as one broadcast log.
//
// A Group has one buffer, one mutex and one ring of rounds for all its nodes, since all of them receive the same bytes in
// the same order. A caller appends its command and its round; whoever finds nobody flushing writes the gathered batch to
// every socket, without ever waiting for one. Whoever reads a connection finds that its reply k belongs to command k (R16),
// so a cursor names the round, and one bit in the round's word is the vote. The vote that settles the round wakes its
// caller (R5); later ones are still read and accounted for. What concerns one node alone (a lost script, a debt, a probe)
// travels in that node's private lane, between whole commands of the log.
//
// Callers read for themselves, from all nodes at once, where the system allows it: see poll.go. Over TLS, over what a
// user's NetDial returned, on other systems than Linux and with Config.Portable, each node's goroutine reads.
//
// The package knows nothing of locks. It knows that a claim can be undone by a release, that a release must stand behind
// its claim on every connection, and that a node which may hold a key owes the release of it (R8): see pay.go, with
// node.fence for what happens between two connections to one server. It takes an address to lead to one server
// for as long as that runs: where another takes the address over, the first one's debts are settled with the second.
//
// With Config.MaxTTL, a node that may have forgotten keys is up and gets every command, but its grants of claims do not count
// for as long, nor its extensions of keys that it was given meanwhile (R23): pure.Trust says when, quarantine.go what follows, and seal.go how that is told to
// other processes.
//
// Whoever waits for a key that others hold need not ask again and again: a Lookout has the nodes push when it changes. Who
// keeps thousands of keys alive has no goroutine for each: it posts commands (Group.Post) and reads what came of all of them
// from one inbox. What is to be known of each node, and not of a quorum, is asked by Group.Query.
//
// Decisions are pure and stand in internal/pure: the life of a node, its debts, and whether it may have forgotten keys. What
// is here feeds them.
//
// # Who owns what
//
// Commands are copied before a call returns. Rounds are recycled when the log, the caller and the lanes have let go of
// them. One goroutine owns a node: it dials, fences, pays, reads (or waits while others read) and buries; pure.Life says what
// comes next. One goroutine, the watch, has the only timer of all commands and votes. One goroutine writes
// for callers that have written enough, and one, where callers read for themselves, reads for those who wait while no caller
// does. That is N + 3 goroutines for a group, and one more per connection inside package conn; none is started per command,
// per timeout or per lock, and Close waits for all.
//
// # What is told
//
// Counts (count.go) are numbers that whoever reads adds to once for all replies that came together, and what the mutex guards
// anyway. A Change (change.go) is news of a node's state, told under the mutex to somebody who only puts it down.
//
// # What is bounded
//
// Rounds that wait for answers (MaxPending), bytes that wait for the next flush (a megabyte) and for a socket (conn's
// backlog), the age of an unanswered command (ShedAfter), entries of a lane, lookouts (65,536, and half of a lane), dials per
// minute, the elements and bytes of a reply (Config.Replies), the invalidations that a node may push, and what is read from
// one node before the others have their turn (R32). A node that owes MaxDebts releases gets no new claims; a debt itself is never dropped before its key must have
// expired (R26).
package multiplex
