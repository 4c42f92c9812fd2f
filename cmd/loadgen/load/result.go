package load

import (
	"encoding/json"
	"io"

	"github.com/redmux/redmux/redlock"
)

// schema is raised when scripts would misread a result.
const schema = 1

// result is the output of -o json. Scripts read it: fields are added, never
// renamed.
type result struct {
	Schema   int          `json:"schema"`
	Seed     uint64       `json:"seed"` // for --seed, to repeat the run
	Runs     []runResult  `json:"runs"`
	Compared []comparison `json:"compared,omitempty"` // with --compare

	// Interrupted says that runs are missing or that the last one was cut
	// short.
	Interrupted bool `json:"interrupted,omitempty"`
}

const interruptedRemark = "Interrupted: runs are missing, or the last one was cut short."

// runResult is one run of one implementation. Figures "per pair" are divided by
// the acquisitions whose release succeeded, and 0 if there was none.
type runResult struct {
	Impl          string           `json:"impl"`
	Backend       string           `json:"backend"`
	N             int              `json:"n"`
	Nodes         []nodeResult     `json:"nodes"`
	Clients       int              `json:"clients"`
	Loop          string           `json:"loop"`                // "open" or "closed"
	Rate          float64          `json:"rate,omitempty"`      // attempts per second of an open loop
	Late          int64            `json:"late,omitempty"`      // of them, begun more than a millisecond late
	NotBegun      int64            `json:"not_begun,omitempty"` // due, but all callers were busy until the end
	Cut           int64            `json:"cut,omitempty"`       // attempts without an outcome, because the run ended
	Work          *work            `json:"work,omitempty"`      // what the callers had to do; nil in a result from before this field existed
	DurationS     float64          `json:"duration_s"`
	Pairs         int64            `json:"pairs"`
	PairsPerS     float64          `json:"pairs_per_s"`
	AcquireUS     quantiles        `json:"acquire_us"`
	ReleaseUS     quantiles        `json:"release_us"`
	Outcomes      outcomeCounts    `json:"outcomes"`
	Errors        map[string]int64 `json:"errors"`
	AllocsPerPair float64          `json:"allocs_per_pair"`
	BytesPerPair  float64          `json:"bytes_per_pair"`
	CPUUSPerPair  float64          `json:"cpu_us_per_pair"`
	Violations    int64            `json:"violations"`
	Faults        []faultResult    `json:"faults,omitempty"`          // in order of time
	FaultsNotMade []string         `json:"faults_not_made,omitempty"` // because the run ended before, in the syntax of --fault

	// Not in the JSON: the distributions behind the quantiles, and what the
	// page shows besides.
	acquired, released latency
	samples            []sample
	states             []redlock.NodeStatus
}

// nodeResult is a node as it introduced itself; Server and Version are empty if
// it did not.
type nodeResult struct {
	Addr    string `json:"addr"`
	Server  string `json:"server"`
	Version string `json:"version"`
}

// outcomeCounts counts attempts. There are more of them than pairs if locks are
// contended or nodes fail.
type outcomeCounts struct {
	Granted   int64 `json:"granted"`
	Held      int64 `json:"held"`
	NoQuorum  int64 `json:"noquorum"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
	Error     int64 `json:"error"`
}

func countsOf(t tally) outcomeCounts {
	return outcomeCounts{t[granted], t[held], t[noQuorum], t[expired], t[cancelled], t[failed]}
}

func (c outcomeCounts) tally() tally {
	return tally{granted: c.Granted, held: c.Held, noQuorum: c.NoQuorum, expired: c.Expired, cancelled: c.Cancelled, failed: c.Error}
}

// newRunResult sums up a finished phase.
func newRunResult(p *phase, t *totals) runResult {
	pairs := p.pairsSoFar()
	r := runResult{
		Clients:       p.flags.Clients,
		Loop:          "closed",
		Work:          p.flags.work(),
		DurationS:     p.cost.at.Seconds(),
		Pairs:         pairs,
		PairsPerS:     float64(pairs) / p.cost.at.Seconds(),
		AcquireUS:     t.acquired.quantiles(),
		ReleaseUS:     t.release.quantiles(),
		Outcomes:      countsOf(t.outcomes),
		Errors:        t.causes,
		AllocsPerPair: per(float64(p.cost.allocs), pairs),
		BytesPerPair:  per(float64(p.cost.bytes), pairs),
		CPUUSPerPair:  per(float64(p.cost.cpu.Nanoseconds())/1e3, pairs),
		Violations:    p.violated(),
		Cut:           t.cut,
		acquired:      t.acquired,
		released:      t.release,
	}
	if p.pacer != nil {
		r.Loop, r.Rate, r.Late, r.NotBegun = "open", p.flags.Rate, t.late, p.pacer.notBegun
	}
	return r
}

// per returns 0 if there was no pair.
func per(x float64, pairs int64) float64 {
	if pairs == 0 {
		return 0
	}
	return x / float64(pairs)
}

// failed reports a run in which nothing was granted although no other client
// was in the way. Held locks, and attempts that the user had cancelled, may be
// the purpose of a run.
func (r runResult) failed() bool {
	o := r.Outcomes
	return o.Granted == 0 && o.NoQuorum+o.Expired+o.Error > 0
}

// fruitless reports a failed run, or one that ended before any attempt did:
// attempts retry for --wait.
func (r runResult) fruitless() bool {
	return r.failed() || r.Outcomes.Granted == 0 && r.Errors[cutWithoutQuorum] > 0
}

// writeJSON prints the result for scripts, indented for human readers.
func (r result) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
