package failover

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Truth is what an observer outside of the clients knows: who held what, and
// when, by one clock.
type Truth struct {
	mu     sync.Mutex // guards the following
	begun  time.Time
	spells []spell
	pauses []pause
	last   time.Time // of the last grant
	// lived and lost are those of a Report.
	lived, lost int
}

// A spell is a time for which a caller had a lock.
type spell struct {
	resource, caller string
	from, to         time.Duration
}

// A pause is the longest time without a grant since a failover began.
type pause struct {
	grants  int
	longest time.Duration
}

func newTruth() *Truth {
	now := time.Now()
	return &Truth{begun: now, last: now, pauses: []pause{{}}}
}

// granted notes that a lock was granted now.
func (w *Truth) granted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pauses[len(w.pauses)-1].grants++
	w.pausedLocked()
}

func (w *Truth) pausedLocked() {
	now := time.Now()
	p := &w.pauses[len(w.pauses)-1]
	p.longest = max(p.longest, now.Sub(w.last))
	w.last = now
}

// present returns what is known since the last failover.
func (w *Truth) present() pause {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pauses[len(w.pauses)-1]
	p.longest = max(p.longest, time.Since(w.last))
	return p
}

// account returns the pauses until now. The first is from before all failovers.
func (w *Truth) account() []pause {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pausedLocked()
	return slices.Clone(w.pauses)
}

// failed begins the account of another failover.
func (w *Truth) failed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pausedLocked()
	w.pauses = append(w.pauses, pause{})
}

// failovers returns how many have begun.
func (w *Truth) failovers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pauses) - 1
}

// kept notes a lock that was renewed since so many failovers had begun, and
// lives, or was just lost.
func (w *Truth) kept(since int, lives bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	through := len(w.pauses) - 1 - since
	if !lives && through > 0 {
		through--
		w.lost++
	}
	w.lived += through
}

// had notes a lock that was granted at from and not used after to.
func (w *Truth) had(resource, caller string, from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to.After(from) {
		w.spells = append(w.spells, spell{resource, caller, from.Sub(w.begun), to.Sub(w.begun)})
	}
}

// overlaps lists pairs of holders of one resource at one time.
func (w *Truth) overlaps() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.spells, func(a, b spell) int { return cmp.Compare(a.from, b.from) })
	last := map[string]spell{}
	for _, s := range w.spells {
		l, ok := last[s.resource]
		if ok && s.from < l.to {
			all = append(all, fmt.Sprintf("%s: %s from %v to %v, and %s from %v to %v", s.resource, l.caller, l.from, l.to, s.caller, s.from, s.to))
		}
		if s.to > l.to {
			last[s.resource] = s
		}
	}
	return all
}
