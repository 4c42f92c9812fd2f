package history

import (
	"cmp"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// A Verdict is the result of porcupine for a history. The question whether
// operations could have happened in some order may take forever, so porcupine
// checks a history in windows, each bounded in size and in time, between
// moments at which the state is certain.
type Verdict struct {
	Operations int // checked in all
	Windows    int
	Violated   int // windows whose operations cannot have happened in any order
	Undecided  int // windows that took too long; a test with one proves nothing
	Skipped    int // windows not checked after too many violated or undecided ones
	// Findings describe the first violated or undecided windows.
	Findings []string
}

// maxFindings bounds Findings.
const maxFindings = 20

// DefaultPatience is how long porcupine may take for one window.
const DefaultPatience = 10 * time.Second

// maxBad is how many windows may be violated or undecided before the others are
// skipped: each may take all of its time, and they would add nothing new.
const maxBad = 10

// judge checks one window with porcupine.
func (v *Verdict) judge(what string, model porcupine.Model, window []porcupine.Operation, patience time.Duration) {
	if len(window) == 0 {
		return
	}
	if v.Violated+v.Undecided >= maxBad {
		v.Skipped++
		return
	}
	v.Operations += len(window)
	v.Windows++
	switch porcupine.CheckOperationsTimeout(model, window, cmp.Or(patience, DefaultPatience)) {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		v.Undecided++
		what += ": not decided in time"
	default:
		v.Violated++
		what += ": could not have happened in any order"
	}
	from, to := window[0].Call, window[0].Return
	for _, o := range window {
		from, to = min(from, o.Call), max(to, o.Return)
	}
	v.find(fmt.Sprintf("%s: %d operations from t=%d to t=%d", what, len(window), from, to))
}

func (v *Verdict) find(what string) {
	if len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, what)
	}
}

// Err returns nil if all windows were decided and none was violated.
func (v *Verdict) Err() error {
	if v.Violated == 0 && v.Undecided == 0 {
		return nil
	}
	return fmt.Errorf("history: of %d windows, %d violated and %d not decided, %d more not looked at: %q",
		v.Windows, v.Violated, v.Undecided, v.Skipped, v.Findings)
}
