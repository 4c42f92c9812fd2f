// Package window lets one peer acquire and release locks for a short time, in a
// process of its own, and returns what it did and what that cost. It knows
// nothing of rounds, turns or ratios, and starts no servers.
//
// [Run] is the parent's half: it starts this program again, hands it a [Job] on
// standard input and reads a [Result] from standard output. [Main] is the
// child's. In a process of its own, CPU, allocations, garbage collections and
// goroutines are this peer's only, and the window ends on time even if a peer
// does not return: the child leaves its callers and exits.
package window

import "time"

// A Job is all that a child knows. It does not know what happens to the servers
// meanwhile.
type Job struct {
	Peer    string
	URLs    []string
	PIDs    []int // of the servers, whose CPU is measured; may be empty
	Callers int
	TTL     time.Duration
	// Resource begins the names of the resources. Each window has its own, so
	// that locks left behind by an earlier one do not matter.
	Resource string
	// Warmup comes first and is not measured; connections are made, pools are
	// filled. It goes on until the callers have made WarmPairs on average, but
	// no longer than WarmupLimit, so that a peer that takes long to fill its
	// pools is not measured while it does. Settle follows if something happens
	// to the servers at the end of the warm-up, and is not measured either.
	// Window is measured.
	Warmup, WarmupLimit, Settle, Window time.Duration
	WarmPairs                           int
	// Gaps asks for the longest time without a grant, for which each grant
	// reads the clock.
	Gaps bool
}

// length is how long the job takes at most if nothing goes wrong.
func (j Job) length() time.Duration { return max(j.Warmup, j.WarmupLimit) + j.Settle + j.Window }

// A Result has the figures of a window, as sums over the window.
type Result struct {
	// Failure is why nothing could be measured. Then everything else is zero.
	Failure string `json:",omitempty"`

	Warmed  time.Duration // how long the warm-up was
	Elapsed time.Duration // the measured time
	Pairs   int64         // acquired and released in it
	// Of the acquisitions of those pairs; zero where there was none.
	P50, P99, P999, Longest time.Duration
	// Gap is the longest time without a grant, if the job asked for it. If
	// zero, it is not known.
	Gap time.Duration `json:",omitempty"`

	ClientCPU time.Duration // user and system
	// ServersCPU is the sum over the servers. If nil, it is not known, and
	// Unknown is the reason.
	ServersCPU *time.Duration `json:",omitempty"`
	Unknown    string         `json:",omitempty"`

	Mallocs, Bytes uint64
	Collections    uint32 // of garbage
	Goroutines     int    // at the end of the window, callers included

	Errors  map[string]int64 `json:",omitempty"` // by kind
	Waiting int              // callers that had not come back when the window was over

	// Syscalls is the number of system calls that the child began in
	// CountedFor. The parent counts them.
	Syscalls     int64         `json:",omitempty"`
	CountedFor   time.Duration `json:",omitempty"`
	CountFailure string        `json:",omitempty"`
}

// A Stage is reported by a child before its result.
type Stage string

// The stages of a child, in order.
const (
	Warm      Stage = "warm"      // the warm-up is over
	Measuring Stage = "measuring" // the window begins
)

// message is a line of the child's standard output: a stage or the result.
type message struct {
	Stage  Stage   `json:",omitempty"`
	Result *Result `json:",omitempty"`
}
