package history

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
)

// EDN turns events into histories as Jepsen writes them, for Knossos and other
// checkers that know nothing of this project: one for each resource, with the
// operations :acquire and :release. By the form of the locks,
//
//   - of plain and fenced locks, leaders and fair locks, they are those of
//     knossos.model/mutex;
//   - of permits, each has a value with the :client, as the model of semaphores
//     in Jepsen's tests of Hazelcast wants it (AcquiredPermitsModel), and :permits;
//   - of readers and writers, each has a value with the :client and the :mode,
//     :read or :write, and a writer becomes a reader by :downgrade. Knossos has
//     no such model. It must let a reader in if there is no writer, and a writer
//     if there is no other client.
//
// WriteQueue writes the order of fair locks, for knossos.model/fifo-queue.
//
// These models have no validity. So a lock ends at the earlier of its release's
// call and its `until`, at one moment, as for Locks; and a grant that came too
// late is a failure. Each attempt is a process of its own. One without an
// outcome, whose client died, is never answered.
//
// The zero value is ready for use. It keeps all events in memory.
type EDN struct {
	resources map[string]*ednHistory
	attempts  map[attempt]*ednAttempt
}

type ednHistory struct {
	operations []ednOperation
	processes  int
	ended      map[attempt]int // the last operation of each lock that was released
	queue      []ednOperation
}

type ednOperation struct {
	at            int64
	process       int
	kind, acts    string // kind is "" if it is not written
	value         string
	orderOfEquals int
}

type ednAttempt struct {
	history *ednHistory
	start   Event
	process int
	began   int // its first operation
	until   int64
	holds   bool
	place   ednPlace
}

// An ednPlace is an attempt's place in the queue of a fair lock.
type ednPlace struct {
	first, last int64 // when it was known; 0 if it never was
	until       int64
	lapsed      bool // it was not certain for some time
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
		d.attempts[id] = d.begin(e)
	case a == nil: // the history is cut
	case e.Ev == Queued:
		a.place.ask(e)
	case e.Ev == Grant && e.Until > e.T:
		a.grant(e)
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

func (d *EDN) begin(e Event) *ednAttempt {
	h := d.resources[e.Resource]
	if h == nil {
		h = &ednHistory{ended: make(map[attempt]int)}
		d.resources[e.Resource] = h
	}
	a := &ednAttempt{history: h, start: e, process: h.processes, began: len(h.operations)}
	h.processes++
	a.add(e.T, "invoke", "acquire")
	return a
}

func (a *ednAttempt) grant(e Event) {
	a.holds, a.until = true, e.Until
	h, exchanged := a.history, a.start.exchanged()
	if end, ok := h.ended[exchanged]; ok && a.start.Form == ReadForm && a.start.From != 0 {
		// The writer's release was this reader's acquisition.
		h.operations[a.began].kind, h.operations[end].kind = "", ""
		release := &h.operations[end-1]
		release.process, release.acts, release.value = a.process, "downgrade", a.value()
		a.add(e.T, "ok", "downgrade")
		return
	}
	a.add(e.T, "ok", "acquire")
	if a.start.Form == FairForm {
		a.serve(e)
	}
}

// serve adds the caller to the queue and takes it out again, by two processes,
// since it may have got the lock before it knew its place.
func (a *ednAttempt) serve(e Event) {
	p := a.place
	if p.lapsed || p.first != 0 && p.until < e.T {
		return // others may have overtaken it
	}
	h, value := a.history, fmt.Sprint(a.process)
	in, out := cmp.Or(p.first, e.T), cmp.Or(p.last, a.start.T)
	for _, o := range []ednOperation{
		{at: a.start.T, process: 2 * a.process, kind: "invoke", acts: "enqueue", value: value},
		{at: in, process: 2 * a.process, kind: "ok", acts: "enqueue", value: value},
		{at: out, process: 2*a.process + 1, kind: "invoke", acts: "dequeue", value: "nil"},
		{at: e.T, process: 2*a.process + 1, kind: "ok", acts: "dequeue", value: value},
	} {
		o.orderOfEquals = len(h.queue)
		h.queue = append(h.queue, o)
	}
}

func (p *ednPlace) ask(e Event) {
	p.lapsed = p.lapsed || p.first != 0 && p.until < e.T
	p.first, p.last, p.until = cmp.Or(p.first, e.T), e.T, max(p.until, e.Until)
}

// value returns the value of the attempt's operations.
func (a *ednAttempt) value() string {
	client := fmt.Sprintf("%d.%d", a.start.Source, a.start.Client)
	switch a.start.Form {
	case PermitForm:
		return fmt.Sprintf("{:client %q, :permits %d}", client, a.start.Permits)
	case ReadForm, WriteForm:
		return fmt.Sprintf("{:client %q, :mode :%s}", client, a.start.Form)
	}
	return "nil"
}

func (a *ednAttempt) add(at int64, kind, acts string) {
	a.history.operations = append(a.history.operations, ednOperation{at, a.process, kind, acts, a.value(), len(a.history.operations)})
}

// end releases a lock, if it is held.
func (a *ednAttempt) end(at int64) {
	if a.holds {
		a.holds = false
		at = min(at, a.until)
		a.add(at, "invoke", "release")
		a.add(at, "ok", "release")
		a.history.ended[attemptOf(a.start)] = len(a.history.operations) - 1
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
	return writeEDN(w, h.operations)
}

// Queues reports whether the resource's locks were fair.
func (d *EDN) Queues(resource string) bool { return len(d.resources[resource].queue) > 0 }

// WriteQueue writes the order in which callers were served, as operations of a
// queue. Callers that gave up, or whose place was not certain all the time until
// they were served, are not in it: others may have overtaken them.
func (d *EDN) WriteQueue(w io.Writer, resource string) error {
	return writeEDN(w, d.resources[resource].queue)
}

func writeEDN(w io.Writer, operations []ednOperation) error {
	slices.SortFunc(operations, func(a, b ednOperation) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.orderOfEquals, b.orderOfEquals))
	})
	out := bufio.NewWriter(w)
	for _, o := range operations {
		if o.kind != "" {
			fmt.Fprintf(out, "{:process %d, :type :%s, :f :%s, :value %s, :time %d}\n", o.process, o.kind, o.acts, o.value, o.at)
		}
	}
	return out.Flush()
}
