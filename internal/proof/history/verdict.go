package history

import (
	"cmp"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// A Verdict is what porcupine said of a history. Whether operations could have happened in some order is a question that may
// take for ever, so a history is put to it in windows, each bounded in size and in time, between moments at which the
// state is known for certain.
type Verdict struct {
	Operations int // that were put to it
	Windows    int
	Violated   int // windows whose operations could not have happened in any order
	Undecided  int // windows for which the time was not enough; a test that has one has shown nothing
	Skipped    int // windows that were not looked at, since enough had been violated or not decided
	// Findings describe the first that were violated or not decided.
	Findings []string
}

// maxFindings bounds what is described.
const maxFindings = 20

// DefaultPatience is how long porcupine may think about one window.
const DefaultPatience = 10 * time.Second

// maxBad is how many windows may be violated or not decided before the others are skipped: each may take all of its time,
// and they would say nothing new.
const maxBad = 10

// judge puts one window to porcupine.
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

// Err is nil if all windows were decided, and none was violated.
func (v *Verdict) Err() error {
	if v.Violated == 0 && v.Undecided == 0 {
		return nil
	}
	return fmt.Errorf("history: of %d windows, %d violated and %d not decided, %d more not looked at: %q",
		v.Windows, v.Violated, v.Undecided, v.Skipped, v.Findings)
}
