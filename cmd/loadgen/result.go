package main

import (
	"encoding/json"
	"io"
)

// result is what is printed with -o json. Scripts read it: fields are added,
// never renamed.
type result struct {
	Schema int         `json:"schema"`
	Seed   uint64      `json:"seed"` // that --seed repeats
	Runs   []runResult `json:"runs"`
}

// runResult is one run of one implementation. What is "per pair" is divided by
// the acquisitions whose release succeeded, and 0 where there was none.
type runResult struct {
	Impl          string           `json:"impl"`
	Backend       string           `json:"backend"`
	N             int              `json:"n"`
	Nodes         []nodeResult     `json:"nodes"`
	Clients       int              `json:"clients"`
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
}

// nodeResult is a node as it introduced itself; Server and Version are empty
// when it did not.
type nodeResult struct {
	Addr    string `json:"addr"`
	Server  string `json:"server"`
	Version string `json:"version"`
}

// outcomeCounts counts attempts, which are more than pairs where locks are
// contended or nodes fail.
type outcomeCounts struct {
	Granted   int64 `json:"granted"`
	Held      int64 `json:"held"`
	NoQuorum  int64 `json:"noquorum"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
	Error     int64 `json:"error"`
}

// newRunResult sums up a phase that has ended.
func newRunResult(p *phase, t *totals) runResult {
	pairs := p.pairsSoFar()
	per := func(x float64) float64 {
		if pairs == 0 {
			return 0
		}
		return x / float64(pairs)
	}
	return runResult{
		Clients:   p.flags.Clients,
		DurationS: p.cost.at.Seconds(),
		Pairs:     pairs,
		PairsPerS: float64(pairs) / p.cost.at.Seconds(),
		AcquireUS: t.acquired.quantiles(),
		ReleaseUS: t.release.quantiles(),
		Outcomes: outcomeCounts{
			Granted:   t.outcomes[granted],
			Held:      t.outcomes[held],
			NoQuorum:  t.outcomes[noQuorum],
			Expired:   t.outcomes[expired],
			Cancelled: t.outcomes[cancelled],
			Error:     t.outcomes[failed],
		},
		Errors:        t.causes,
		AllocsPerPair: per(float64(p.cost.allocs)),
		BytesPerPair:  per(float64(p.cost.bytes)),
		CPUUSPerPair:  per(float64(p.cost.cpu.Nanoseconds()) / 1e3),
		Violations:    p.violations.Load(),
	}
}

// failed reports a run in which nothing was granted though nobody else was in
// the way. Locks that were held, and attempts that the user had cancelled, are
// what a run may be about.
func (r runResult) failed() bool {
	o := r.Outcomes
	return o.Granted == 0 && o.NoQuorum+o.Expired+o.Error > 0
}

// writeJSON prints the result for scripts, indented, for people who look too.
func (r result) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
