// Package report draws what a run of loadgen measured as one page of HTML that needs nothing else: no server, no network.
package report

import "time"

// A Page is everything that the page shows. Nothing in it is a secret: addresses come without credentials.
type Page struct {
	Title   string // the command line, without secrets
	Made    time.Time
	Backend string // "remote", "spawned" or "embedded"
	Loop    string // "closed" or "open, N/s"
	Runs    []Run
	Remarks []string // what must be known before runs are compared
}

// A Run is one implementation measured once, or read from an earlier result.
type Run struct {
	Impl     string
	Number   int  // from 1
	Earlier  bool // read from --compare's file: no Series, Nodes may be empty
	Clients  int
	Duration time.Duration
	Pairs    int64
	PerSec   float64

	// Of an open loop: attempts that began late, and those that were due but were not begun before the end, so that no latency
	// counts them.
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

// Quantiles is a distribution of latencies: for each percentile, from 0 to 100, ascending, the latency.
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
	ReplyTimes    []time.Duration // per node, zero where unknown
}

// A Node is one of the masters.
type Node struct {
	Addr, Product, Version string
	State                  string
	ReplyTime              time.Duration // at the end
}

// A Fault is what was done to a server while it ran.
type Fault struct {
	At, Length time.Duration // from the start of measuring
	Kind       string
	Node       int // from 0
}
