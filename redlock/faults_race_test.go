//go:build race

package redlock_test

// The race detector makes this process five to ten times slower and leaves the servers as they are, so that it measures
// itself: its bounds on time and throughput only tell a hang from an answer.
const (
	leastThroughput  = 0.4
	mostTail         = 8.0
	timingSlack      = 10
	leastInTheSocket = 600
	fewFailures      = 100
)
