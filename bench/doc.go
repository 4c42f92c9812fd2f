// Package bench does the same work twice: with package redlock, and with a
// Redlock written on github.com/redis/rueidis, the fastest general client that
// Go has. It is there so that a claim of speed can be checked by anybody, on
// their own machine, against an opponent that was not set up to lose.
//
// Nothing imports this package but mains and tests. [Rueidis] is the baseline;
// [Locker] and [Lease] are the few calls that both sides share, so that the
// loop around them is the same code for either. They are type constraints, not
// interfaces to store values in: a lock that is a plain value stays one, and
// the measuring loop allocates nothing of its own.
//
// # How the baseline is built, and why
//
// rueidis has no call that only queues a command: Do waits for the reply. To
// ask N masters at once therefore takes N goroutines. The baseline starts them
// per call, from functions made once per pooled round, so that starting one
// allocates nothing. Worker goroutines kept per round were measured and are no
// faster, because handing over work by channel costs what starting a goroutine
// costs. With one master there is nobody to wait for beside it: the caller
// talks to it itself, on the synchronous path that rueidis takes for a lone
// caller, and so notices a cancellation or a vote's timeout there only when the
// reply comes or rueidis gives the connection up.
//
// # Order
//
// A client with default options spreads its commands over four connections, so
// neither FIFO nor the early return at the quorum keeps a release behind the
// SET that it undoes (R8). An overtaken SET leaves a key which then refuses its
// own owner until the TTL ends. Here each node's part of a round is a small
// state machine: a release that finds the SET of that node unanswered leaves a
// note, and the goroutine that waits for the SET sends the release when the
// reply is in. So a release never overtakes its own SET, for as long as the
// connection lives, and an early return still waits for no slow node.
//
// What the baseline does not give: after a connection died with a SET in
// flight the server may execute it late, and it stays until its TTL ends (R8's
// fence and debts are not there). And nothing orders one lock's last commands
// before the next lock's first ones on the nodes that nobody waited for: there
// the next SET of the same resource may find the old key, be refused, and cost
// that node's vote; about once in some thousands of pairs it costs the attempt.
package bench
