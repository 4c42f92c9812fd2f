//go:build !race

package redlock_test

// The bounds of R5, R6 and R26 as written; the other file has those for the
// race detector.
const (
	leastThroughput  = 0.9 // of the healthy throughput, with one of five nodes stopped
	mostTail         = 2.0 // times the healthy p99
	timingSlack      = 1   // factor on bounds of a few milliseconds
	leastInTheSocket = 600 // more than a payment and a turn of Expire: 256 and twice that
	fewFailures      = 2   // per thousand, when votes of two healthy nodes are late on a busy machine
)
