// Package bench does the same work twice: with package redlock, and with a
// Redlock written on github.com/redis/rueidis, the fastest general client that
// Go has. It lets every reader check a claim of speed on their own machine,
// against an opponent that was not set up to lose.
//
// Only loadgen, the peers that it measures and tests import this package.
// [Rueidis] is the baseline; [Locker] and [Lease] are the few calls that both
// sides share, so that the loop around them is the same code for either. They
// are type constraints, not interfaces to store values in: a lock that is a
// plain value stays one, and the measuring loop allocates nothing of its own.
//
// # How the baseline is built, and why
//
// rueidis has no call that only queues a command: Do waits for the reply. To
// ask N masters at once therefore takes N goroutines. The baseline starts them
// for each call, from functions made once per pooled round, so starting one
// allocates nothing. Worker goroutines kept per round were measured and are no
// faster: handing over work by channel costs what starting a goroutine costs.
// With one master, the caller sends the command itself, on the synchronous path
// that rueidis takes for a lone caller. It then notices a cancellation or a
// vote timeout only when the reply comes or rueidis gives up the connection.
//
// # Order
//
// A client with default options spreads its commands over four connections, so
// neither FIFO nor the early return at the quorum keeps a release behind the
// SET that it undoes (R8). An overtaken SET leaves a key which then refuses its
// own owner until the TTL ends. Here each node's part of a round is a small
// state machine: a release that finds the SET of that node unanswered leaves a
// note, and the goroutine that waits for the SET sends the release when the
// reply is in. So a release never overtakes its own SET while the connection
// lives, and an early return never waits for a slow node.
//
// What the baseline lacks: when a connection dies with a SET in flight, the
// server may execute the SET late, and the key stays until its TTL ends (there
// is no fence and there are no debts, as R8 wants them). And on the nodes that
// a call did not wait for, nothing orders the last commands of one lock before
// the first ones of the next. The next SET of the same resource may find the
// old key there, be refused, and cost that node's vote; about once in some
// thousands of pairs it costs the attempt.
package bench
