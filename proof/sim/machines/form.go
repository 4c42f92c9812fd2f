package machines

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A form is what a lock is beyond one key for each resource, as in package
// redlock: its form.go, rw.go, semaphore.go and fair.go are re-stated here. The
// form of a lock without one is nil. A wish has one, and each attempt a copy.
type form struct {
	kind    formKind
	other   *attempt      // of reading: the writer that it was; of writing: the reader that it stays
	mark    time.Duration // how long the mark of a caller that waits stands
	permits int
	number  int // of the permit
	turn    *turn
	ticket  int64 // of the turn, when it was asked
	mode    string
	granted bool
}

// A formKind is what a form is for. In scenario.forms, reading stands for
// writing too.
type formKind uint8

const (
	reading formKind = iota + 1
	writing
	permit
	fair
)

// What the constants of package redlock are.
const (
	markTime     = 300 * ms
	permitMark   = 2 * time.Second
	permitRounds = 4
	fairRounds   = 3
	leaseTime    = 500 * ms
)

func (f *form) is(kind formKind) bool { return f != nil && f.kind == kind }

// was returns the writer that a reader was before the downgrade, or nil.
func (f *form) was() *attempt {
	if f.is(reading) {
		return f.other
	}
	return nil
}

// A turn is the place of one call in a queue.
type turn struct {
	waiter  uint64
	ticket  int64
	let     multiplex.Set // nodes that have let it in with this ticket
	kept    bool          // that was a quorum
	gone    bool          // it has the lock, or has left
	process *process
	begun   time.Duration   // true time, when the call began
	since   []time.Duration // by server: since when it has a place, true time; pure.Never: not
}

func (p *process) newTurn(ticket int64, begun time.Duration) *turn {
	u := &turn{waiter: p.world.newToken(), ticket: ticket, process: p, begun: begun}
	for range p.world.servers {
		u.since = append(u.since, pure.Never)
	}
	return u
}

func (u *turn) name() string {
	if u == nil {
		return ""
	}
	return strconv.FormatUint(u.waiter, 10)
}

// drawForms makes the resources read/write locks, semaphores and fair locks,
// which several callers want.
func (s *scenario) drawForms(r *rand.Rand) {
	s.resources, s.workers = min(s.resources, 2), 2+r.IntN(3)
	s.permits, s.fewer, s.processes = 1+r.IntN(3), r.IntN(4) == 0, max(2, s.processes)
	s.holds, s.think = s.holds/2, s.ttl/100
	for range s.resources {
		s.forms = append(s.forms, []formKind{reading, permit, fair}[r.IntN(3)])
	}
	if r.IntN(5) == 0 && s.trapped == 0 {
		s.faults = nil
	}
}

// keys returns how many plain keys a server has.
func (s *scenario) keys() int {
	if s.forms == nil {
		return s.resources
	}
	return s.permitKey(s.resources, 0)
}

func (s *scenario) permitKey(resource, number int) int {
	return s.resources + resource*s.permits + number
}

// shape draws what a caller wants of a resource that has a form.
func (k *worker) shape(t *wish) {
	w, p := k.world(), k.process
	if w.plan.forms == nil {
		return
	}
	f, waits := &form{kind: w.plan.forms[t.resources[0]]}, t.triesMax > 1
	t.form = f
	switch {
	case f.is(reading) && w.random.IntN(5) < 2:
		f.kind = writing
		if waits {
			f.mark = markTime
		}
	case f.is(permit):
		f.permits = w.plan.permits
		if p.index == 1 && w.plan.fewer && f.permits > 1 {
			f.permits-- // the clients do not agree
		}
		if waits {
			f.mark = permitMark
		}
	case f.is(fair) && waits:
		t.triesMax += 20
		f.turn = p.newTurn(p.tickets.Next(p.clocks().at), w.now)
		w.referee.queues(t.resources[0], f.turn)
	}
}

// formFor returns the form of the next attempt.
func (k *worker) formFor(t *wish) *form {
	if t.form == nil {
		return nil
	}
	f := *t.form
	switch {
	case f.is(permit):
		if last, ok := k.process.lastPermit[t.resources[0]]; t.asked == 0 && ok {
			f.number = last
		} else if t.asked == 0 {
			f.number = k.world().random.IntN(f.permits)
		}
	case f.is(fair):
		f.mode = "try"
		if u := f.turn; u != nil {
			f.ticket, f.mode = u.ticket, "new"
			if u.kept {
				f.mode = "keep"
			}
		}
	}
	return &f
}

// formAsksAgain reports whether a refused try makes another round at once.
func (k *worker) formAsksAgain(t *wish, r *round) bool {
	w, f := k.world(), t.form
	t.asked++
	switch {
	case f.is(permit):
		free := mostNamed(r.texts, f.permits)
		if len(free) == 0 || t.asked == permitRounds {
			return false
		}
		f.number = free[w.random.IntN(len(free))]
		return true
	case f.is(fair) && f.turn != nil:
		return k.redraws(t, r)
	}
	return false
}

// mostNamed returns the permits that most refusals name as free.
func mostNamed(texts []string, permits int) (free []int) {
	named, most := make([]int, permits), 1
	for _, text := range texts {
		_, numbers, _ := strings.Cut(text, " ")
		for number := range strings.SplitSeq(numbers, ",") {
			if n, err := strconv.Atoi(number); err == nil && n < permits {
				named[n]++
				most = max(most, named[n])
			}
		}
	}
	for n, times := range named {
		if times == most {
			free = append(free, n)
		}
	}
	return free
}

// redraws is what a caller does about the refusal of its place: it draws a
// higher ticket, under another name.
func (k *worker) redraws(t *wish, r *round) bool {
	w, p, u := k.world(), k.process, t.form.turn
	late := int64(0)
	for node, text := range r.texts {
		if n, stale := strings.CutPrefix(text, "3 "); stale {
			ticket, _ := strconv.ParseInt(n, 10, 64)
			late, u.let = max(late, ticket), u.let&^bit(node)
		} else if text != "" {
			u.let |= bit(node)
		}
	}
	u.kept = u.kept || u.let.Len() >= multiplex.Quorum(p.size) || w.broken.is(KeptUnheard) && late == 0
	if u.kept || late == 0 || t.asked == fairRounds {
		return false
	}
	w.report.Count("tickets drawn anew", 1)
	ticket := max(p.tickets.Next(p.clocks().at), late+1)
	if w.broken.is(TicketUnderOldName) {
		u.ticket = ticket
		return true
	}
	k.leave(t)
	t.form.turn = p.newTurn(ticket, u.begun)
	w.referee.queues(t.resources[0], t.form.turn)
	return true
}

// leave gives up the place of a call.
func (k *worker) leave(t *wish) {
	w, p, u := k.world(), k.process, t.form.turn
	u.gone = true
	a := w.newAttempt(p, t.resources, w.newToken())
	a.form = &form{kind: fair, turn: u, granted: true}
	a.over, a.ended = true, w.now
	k.tell(a, leaseTime, receipt{sent: all(p.size)})
}

// giveUp ends a wish that was not fulfilled.
func (k *worker) giveUp(t *wish) {
	if t.form.is(fair) && t.form.turn != nil {
		k.leave(t)
	}
	k.rest()
}

// formGranted takes in that an attempt was granted.
func (k *worker) formGranted(t *wish, a *attempt) {
	f, name := a.form, ""
	if f == nil {
		return
	}
	f.granted = true
	switch f.kind {
	case reading:
		name = "reads"
		if f.other != nil {
			name = "downgrades"
		}
	case writing:
		name = "writes"
		if f.other != nil {
			name = "upgrades"
		}
	case permit:
		name = "permits"
		k.process.lastPermit[t.resources[0]] = f.number
	case fair:
		name = "fair grants"
		if f.turn != nil {
			f.turn.gone = true
		}
	}
	k.world().report.Count(name, 1)
}

// exchange may make a reader the writer, or a writer a reader.
func (k *worker) exchange(l *lock) bool {
	f := l.attempt.form
	if !f.is(reading) && !f.is(writing) || l.under != nil || l.left() <= 0 || k.world().oneIn(2) {
		return false
	}
	if k.letGo = nil; f.is(reading) {
		k.upgrade(l)
	} else {
		k.downgrade(l)
	}
	return true
}

func (k *worker) upgrade(read *lock) {
	k.become(writing, read, func(l *lock) {
		if l == nil {
			k.use(read)
			return
		}
		l.under = read
		k.use(l)
	})
}

// downgrade ends the writer's validity before anything is queued.
func (k *worker) downgrade(write *lock) {
	w, a := k.world(), write.attempt
	if !w.broken.is(WriterKept) {
		w.referee.gaveUp(a)
	}
	a.over, a.kept, a.ended = true, true, w.now // the reader's release deletes its key where it is left
	if w.broken.is(DowngradeInTwo) {
		k.tell(a, write.ttl, write.receipt)
		k.process.after(w.span(20*ms), func() { k.becomeReader(write) })
		return
	}
	k.becomeReader(write)
}

func (k *worker) becomeReader(write *lock) {
	w, a := k.world(), write.attempt
	k.become(reading, write, func(read *lock) {
		w.referee.gaveUp(a)
		if read == nil {
			a.kept, a.ended = false, w.now
			k.tell(a, write.ttl, write.receipt)
			w.referee.ended(a)
			k.rest()
			return
		}
		read.receipt.sent |= write.receipt.sent
		read.receipt.pos = write.receipt.pos
		k.use(read)
	})
}

// become makes one attempt of a holder to become the other kind.
func (k *worker) become(kind formKind, from *lock, done func(*lock)) {
	p := k.process
	k.send(&wish{
		resources: from.attempt.resources, ttl: from.ttl, triesMax: 1, ends: pure.Never, slept: p.slept,
		form: &form{kind: kind, other: from.attempt}, done: done,
	}, p.clocks())
}

// formReleased takes in that a lock was released.
func (k *worker) formReleased(l *lock) {
	if a := l.attempt.form.was(); a != nil {
		a.kept, a.ended = false, k.world().now
		k.world().referee.ended(a)
	}
}
