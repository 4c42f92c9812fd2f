// Package multiplex sends the same command to N independent nodes at once and
// reads the replies afterwards: the "poor man's multiplexing" of the Redlock
// description, as one broadcast log. It is the engine of package redlock.
//
// It knows little of locks: not their names, tokens or scripts. But it knows
// what makes a lock unsafe. A claim can be undone by a release. A release must
// stand behind its claim on every connection. A node that may hold a key owes
// the release of it (R8). A node that may have forgotten keys does not count
// for a while (R23).
//
// R1 to R34 in these comments are the rules of docs/internals/rules.md
// (https://github.com/redmux/redmux/blob/main/docs/internals/rules.md).
//
// # The path of a command
//
// A Group has one buffer, one mutex and one ring of rounds for all its nodes,
// since all of them receive the same bytes in the same order. Group.Claim takes
// a command through these steps; Extend, Release and HandOver do the same:
//
//	enter      group_ask.go   check quorum and room, under the mutex
//	place      log.go         append the round and a copy of the command to
//	                          the log, or gather it for the next flush to merge
//	flush      log_flush.go   a caller that finds the flusher's role free
//	                          writes all that gathered to all sockets,
//	                          and never waits for one
//	await      poll.go        a caller that finds the poll role free reads
//	                          for all nodes; the others sleep
//	drain      node_reply.go  reply k belongs to command k (R16), so a
//	                          cursor names the round
//	vote       round.go       set one bit in the round's word; the vote
//	                          that decides it wakes the caller (R5), and
//	                          later ones are only counted
//	outcome    round_outcome.go  the error, if no quorum granted; Claim then
//	                          queues the release that undoes it
//
// What concerns one node alone (a lost script, a debt, a probe) travels in that
// node's private lane, between whole commands of the log (node_lane.go).
//
// # Where to find what
//
// What callers can ask is in group_*.go, and what they pass in command.go.
// PostExtension, PostRelease and Outcomes serve callers that keep thousands of
// keys without a goroutine for each. Group.Query asks each node instead of a
// quorum.
//
// Decisions without a clock or a socket are in internal/pure: a node's life,
// the time for a vote, silence, debts, and doubts about a node's memory. The
// files here supply the events and act on the decisions.
//
// The deadlines of rounds are in watch.go. Its timer also runs each node's
// pass, in node_silence.go: pure.Silence decides when the node is shed (given
// up), and node.shedLocked breaks the connection.
//
// A node's life (dial, fence, pay, join, serve, bury) is in node_life.go. Only
// the node's own goroutine closes the descriptor: in bury from an up node, in
// dial, lost or leave before that. node_pay.go deals with what the previous
// connection left. An address is assumed to lead to one server for as long as
// that server runs. If another server takes the address over, the first one's
// debts are settled with it.
//
// Package internal/member knows which nodes count. It keeps nodes in quarantine
// that may have forgotten keys, makes all belong to one deployment, and gives
// floors to those that forgot fencing numbers (Config.Floors). The decisions
// are those of pure.Trust, pure.Deployment and pure.Floors. group_members.go
// tells it what happens to nodes, and says its causes to users. node_twin.go
// tells two addresses of one server from two servers.
//
// Lookouts wait for a key that other clients hold (lookout.go). A server pushes
// each change of the key. node_reply.go hands each push to lookout_track.go,
// and that finds the lookouts.
//
// A kind of lock with its own scripts needs no change here. The package above
// declares a ClaimKind for the script that sets the keys, a ReleaseKind for the
// one that undoes it, and an ExtendKind for each other command on held keys
// (command.go). It puts the scripts into the handshake (conn.Config.Prelude)
// and Config.Cure, and encodes the commands; see redlock/internal/wire. A
// command may name several keys. If replies say more than a vote, such as the
// last fencing number, the kind's Judge keeps what it reads. Claim.Told gets
// what a refusal says.
//
// # Who owns what
//
// Commands are copied before a call returns. Rounds are recycled when the log,
// the caller and the lanes have let go of them. One goroutine owns each node.
// One goroutine, the watch, has the only timer for all commands and votes. One
// goroutine writes for callers that have written enough. On systems with
// polling, one reads for waiting callers while none of them reads. Over
// connections of a user's NetDial, or with TLS that allows renegotiation, and
// on systems other than Linux, each node's goroutine reads.
//
// That is N + 3 goroutines for a group, and one more per connection inside
// package conn. None is started per command, timeout or lock, and Close waits
// for all of them.
//
// # What is reported
//
// NodeCounts (node_count.go) are numbers. The reading goroutine adds to them
// once for all replies that came together. A Change (node_state.go) is a node's
// new state. OnChange is called under the mutex and must not wait.
//
// # What is bounded
//
// These have limits: rounds without an answer (MaxPending), bytes before a
// flush (a megabyte) and before a socket (conn's backlog), the age of an
// unanswered command (ShedAfter), entries of a lane, lookouts (65,536, and half
// of a lane), dials per minute, the elements and bytes of a reply
// (Config.Replies), invalidations pushed by a node, and bytes read from one
// node before the others get their turn (R32). A node that owes MaxDebts
// releases gets no new claims. A debt is dropped only once its key must have
// expired (R26).
package multiplex
