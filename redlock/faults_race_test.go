//go:build race

package redlock_test

// The race detector makes this process five to ten times slower, but not the
// servers, so a test mostly measures the detector: these bounds on time and
// throughput only detect hangs.
const (
	leastThroughput  = 0.4
	mostTail         = 8.0
	timingSlack      = 10
	leastInTheSocket = 600
	fewFailures      = 100
)
