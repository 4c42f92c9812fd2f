package history

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
)

// EDN turns events into histories as Jepsen writes them, for Knossos and other
// checkers that know nothing of this project: one for each resource, of a mutex
// with the operations :acquire and :release.
//
// A mutex has no validity. So a lock ends at the earlier of its release's call
// and its `until`, at one moment, as for Locks; and a grant that came too late
// is a failure. Each attempt is a process of its own. One without an outcome,
// whose client died, is never answered.
//
// The zero value is ready for use. It keeps all events in memory.
type EDN struct {
	resources map[string]*ednHistory
	attempts  map[attempt]*ednAttempt
}

type ednHistory struct {
	operations []ednOperation
	processes  int
}

type ednOperation struct {
	at            int64
	process       int
	kind, acts    string
	orderOfEquals int
}

type ednAttempt struct {
	history *ednHistory
	process int
	until   int64
	holds   bool
}

// Add adds the next event.
func (d *EDN) Add(e Event) {
	if d.resources == nil {
		d.resources, d.attempts = make(map[string]*ednHistory), make(map[attempt]*ednAttempt)
	}
	id := attemptOf(e)
	a := d.attempts[id]
	switch {
	case e.Ev == Start:
		h := d.resources[e.Resource]
		if h == nil {
			h = &ednHistory{}
			d.resources[e.Resource] = h
		}
		a = &ednAttempt{history: h, process: h.processes}
		h.processes++
		d.attempts[id] = a
		a.add(e.T, "invoke", "acquire")
	case a == nil: // the history is cut
	case e.Ev == Grant && e.Until > e.T:
		a.holds, a.until = true, e.Until
		a.add(e.T, "ok", "acquire")
	case e.Ev == Extend:
		a.until = max(a.until, e.Until)
	case e.Ev == Release, e.Ev == Lost:
		a.end(e.T)
		delete(d.attempts, id) // the outcome of the release says nothing more
	case !a.holds:
		a.add(e.T, "fail", "acquire")
		delete(d.attempts, id)
	}
}

func (a *ednAttempt) add(at int64, kind, acts string) {
	a.history.operations = append(a.history.operations, ednOperation{at, a.process, kind, acts, len(a.history.operations)})
}

// end releases a lock, if it is held.
func (a *ednAttempt) end(at int64) {
	if a.holds {
		a.holds = false
		at = min(at, a.until)
		a.add(at, "invoke", "release")
		a.add(at, "ok", "release")
	}
}

// Resources returns the names of all resources, sorted.
func (d *EDN) Resources() []string {
	var all []string
	for name := range d.resources {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Write writes the history of a resource, one operation a line. No event may be
// added afterwards.
func (d *EDN) Write(w io.Writer, resource string) error {
	h := d.resources[resource]
	for _, a := range d.attempts {
		if a.history == h {
			a.end(a.until)
		}
	}
	slices.SortFunc(h.operations, func(a, b ednOperation) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.orderOfEquals, b.orderOfEquals))
	})
	out := bufio.NewWriter(w)
	for _, o := range h.operations {
		fmt.Fprintf(out, "{:process %d, :type :%s, :f :%s, :value nil, :time %d}\n", o.process, o.kind, o.acts, o.at)
	}
	return out.Flush()
}
