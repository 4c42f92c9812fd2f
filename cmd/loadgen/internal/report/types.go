// Package report shows the result of a loadgen run as one self-contained page
// of HTML: it needs no server and no network.
package report

import "time"

// A Page is everything that the page shows. It contains no secrets: addresses
// have no credentials.
type Page struct {
	Title   string // the command line, without secrets
	Made    time.Time
	Backend string // "remote", "spawned" or "embedded"
	Loop    string // "closed" or "open, N/s"
	Runs    []Run
	Remarks []string // what a reader must know before comparing runs
}

// A Run is one measurement of an implementation, or one read from an earlier
// result.
type Run struct {
	Impl     string
	Number   int  // from 1
	Earlier  bool // from --compare's file: no Series, and Nodes may be empty
	Callers  int
	Duration time.Duration
	Pairs    int64
	PerSec   float64

	// For an open loop: attempts that started late, and those that were due but
	// did not start before the end, so that no latency counts them.
	Late, NotBegun int64

	Acquire, Release Quantiles
	Outcomes         map[string]int64 // granted, held, noquorum, expired, cancelled, error
	Errors           map[string]int64 // by cause
	Violations       int64

	AllocsPerPair, BytesPerPair, CPUMicrosPerPair float64

	Series []Sample // one per interval, in order of time
	Nodes  []Node
	Faults []Fault
}

// Quantiles is a distribution of latencies: percentiles from 0 to 100,
// ascending, with their latencies.
type Quantiles struct {
	Percentiles []float64
	Latencies   []time.Duration
}

// A Sample is what happened in one interval of a run.
type Sample struct {
	At            time.Duration // end of the interval, from the start of measuring
	Length        time.Duration
	Pairs         int64
	P50, P99, Max time.Duration // of acquisitions
	Outcomes      map[string]int64
	ReplyTimes    []time.Duration // per node, zero if unknown
}

// A Node is one of the masters.
type Node struct {
	Addr, Product, Version string
	State                  string
	ReplyTime              time.Duration // at the end
}

// A Fault is what was done to a server during a run.
type Fault struct {
	At, Length time.Duration // from the start of measuring
	Kind       string
	Node       int // from 0
}
