//go:build !race

package redlock_test

// The bounds of R5, R6 and R26 as they stand; see the other file for what the race detector does to them.
const (
	leastThroughput  = 0.9 // of the healthy throughput, with one of five nodes stopped
	mostTail         = 2.0 // times the healthy p99
	timingSlack      = 1   // factor on bounds of a few milliseconds
	leastInTheSocket = 600 // more than a payment and a look at what was paid, which are 256 and twice that
	fewFailures      = 2   // of a thousand, where votes of two healthy nodes come late on a busy machine
)
