package history

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// An Access is a read or a write of a register, as a client saw it.
type Access struct {
	Client int
	Key    string
	Write  bool
	// Value is the value written or read; "" is a register that was never
	// written or was wiped. No two writes of a key write the same value, except
	// "".
	Value        string
	Call, Return int64
	// Unknown marks an access without a result: a read that returned nothing,
	// or a write that may happen at any time after its call, or never.
	Unknown bool
}

// Accesses collects the accesses of several goroutines.
type Accesses struct {
	mu  sync.Mutex // guards the following
	all []Access
}

// Add adds one access.
func (a *Accesses) Add(one Access) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, one)
}

// Check calls CheckRegisters for the collected accesses.
func (a *Accesses) Check(patience time.Duration) Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	return CheckRegisters(a.all, patience)
}

// CheckRegisters asks porcupine whether one register for each key can explain
// the accesses. Replies that were mixed up show in it: a value that was never
// written to the key, or one that had been overwritten before the read began.
// Patience is the time limit for each window; if zero, DefaultPatience.
func CheckRegisters(all []Access, patience time.Duration) (v Verdict) {
	keys := make(map[string][]Access)
	for _, a := range all {
		keys[a.Key] = append(keys[a.Key], a)
	}
	for key, accesses := range keys {
		what := "register " + Event{Resource: key}.shown()
		known := v.certain(what, accesses)
		for _, w := range windows(known) {
			v.judge(what, registerModel(w.initial), w.operations, patience)
		}
	}
	return v
}

// certain drops accesses that say nothing, and bounds those without an end.
// Values are unique, so a write without a result happened before the first
// return of a read that saw its value; if no read saw it, it may as well not
// have happened.
func (v *Verdict) certain(what string, all []Access) (known []Access) {
	seen, written := make(map[string]int64), map[string]bool{"": true}
	for _, a := range all {
		if a.Write {
			written[a.Value] = true
			continue
		}
		if first, ok := seen[a.Value]; !a.Unknown && (!ok || a.Return < first) {
			seen[a.Value] = a.Return
		}
	}
	for _, a := range all {
		at, ok := seen[a.Value]
		switch {
		case !a.Unknown && !a.Write && !written[a.Value]:
			v.Violated++
			v.find(fmt.Sprintf("%s: client %d read at t=%d what was never written to it", what, a.Client, a.Return))
		case !a.Unknown:
			known = append(known, a)
		case a.Write && ok:
			a.Return = max(a.Call, at)
			known = append(known, a)
		}
	}
	return known
}

// registerWindow is a part of a register's accesses, and the value before it.
type registerWindow struct {
	initial    string
	operations []porcupine.Operation
}

// windows cuts a history after each access that overlapped no other: what it
// read or wrote is what the register then held.
func windows(accesses []Access) (all []registerWindow) {
	slices.SortStableFunc(accesses, func(a, b Access) int { return cmp.Compare(a.Call, b.Call) })
	current := registerWindow{}
	until := int64(-1 << 63) // when all accesses so far had returned
	for i, a := range accesses {
		current.operations = append(current.operations, porcupine.Operation{
			ClientId: a.Client, Input: a, Call: a.Call, Return: a.Return,
		})
		alone := a.Call > until && (i+1 == len(accesses) || a.Return < accesses[i+1].Call)
		until = max(until, a.Return)
		if alone && len(current.operations) >= windowSize {
			all = append(all, current)
			current = registerWindow{initial: a.Value}
		}
	}
	return append(all, current)
}

func registerModel(initial string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			a := input.(Access)
			if a.Write {
				return true, a.Value
			}
			return state.(string) == a.Value, state
		},
	}
}
