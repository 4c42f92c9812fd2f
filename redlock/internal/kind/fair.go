package kind

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// Fair locks. A waiting caller has one ticket, the same on all nodes: the time
// in microseconds by its own clock. A node lets a caller into its queue only
// with a higher ticket than any before; so a caller let in by a quorum stands
// before all later ones, whatever the clocks show. Each attempt keeps its
// place, and a node grants the lock only to the lowest ticket with a live
// lease.

// fair is the kind of one waiting call, or of all that do not wait.
type fair struct {
	single
	kinds *Kinds
	place *Place // nil without one
}

// A Place is that of one call in a queue. The call's goroutine owns it.
type Place struct {
	Waiter     wire.Characters // names the caller
	Ticket     int64           // 0 before the first attempt
	AdmittedBy multiplex.Set   // nodes that say they have it, with this ticket
	Kept       bool            // that was a quorum

	sentTo multiplex.Set // nodes that may have it in their queues
	done   bool          // the call has got the lock
	lead   time.Duration // of the next ticket: see redraw
}

// PlaceOf returns the place of a waiting call; nil of other kinds.
func PlaceOf(k Kind) *Place {
	if f, ok := k.(*fair); ok {
		return f.place
	}
	return nil
}

const (
	// LeaseTime is the default Config.FairLease: how long a waiter keeps its
	// place without renewal by an attempt. Attempts in the first quarter do not
	// renew it: see ask_fair.lua.
	LeaseTime = 500 * time.Millisecond
	// AskTime is the longest time between the beginnings of two attempts, but
	// no attempt is cut short. So a node that misses one question gets the next
	// with a fifth of the lease left. Where a quorum takes longer than AskTime
	// to answer, and up to 450 ms, a waiter keeps its place if no question is
	// lost.
	AskTime = LeaseTime / 4

	// fairPlaces is how many callers of one client have places in the nodes'
	// queues at one time. Those behind them wait in the client's own queue.
	fairPlaces = 8
)

var fairTraits = Traits{Serves: InOrder, Needs: InOrder, Seats: fairPlaces, MostSeats: fairPlaces, KeepsPlace: true}

// Fair returns the kind of locks granted in order.
func (k *Kinds) Fair() Kind { return k.fair }

func (*fair) Traits() *Traits     { return &fairTraits }
func (*fair) Key(name string) Key { return Key{use: InOrder, name: name} }

func (f *fair) waiting() Kind {
	return &fair{kinds: f.kinds, place: &Place{Waiter: f.kinds.Tokens.Next()}}
}

// tooFar sends a caller that never had a place to the end of the queue.
func (f *fair) tooFar(r Rounds, name string, spent time.Duration) Kind {
	if !f.place.Kept {
		f.moveBack(r, name, spent, 0)
	}
	return f
}

func (f *fair) leave(r Rounds, name string) {
	if f.place.sentTo == 0 {
		return
	}
	var room [448]byte
	g := Grant{Name: name}
	r.Tell(releaseLockerKind, &multiplex.Command{
		Encoded: f.release(&g, room[:0], true),
		TTL:     f.kinds.FairLease,
		Receipt: multiplex.Receipt{Sent: f.place.sentTo},
	})
}

// fairRounds bounds how often a caller draws another ticket at once.
const fairRounds = 3

// Attempt is an attempt to get the lock and keep the caller's place. Before a
// quorum has let it in, each node compares its ticket: a silent one may have
// refused it. After a later ticket was let in first, the caller leaves the
// queue, and enters it anew with a higher ticket under another name: under the
// old name, some nodes would grant the old place to the new ticket.
func (f *fair) Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error) {
	t := f.place
	if t == nil {
		return r.Round(ctx, g)
	}
	if t.Ticket == 0 {
		t.Ticket = f.kinds.Tickets.Next(time.Now())
	}
	for round := 1; ; round++ {
		begun := time.Now()
		refusal, err := r.Round(ctx, g)
		t.sentTo |= g.Receipt.Sent
		if refusal == nil {
			t.done = err == nil
			return nil, err
		}
		t.AdmittedBy = t.AdmittedBy&^refusal.passed | refusal.admitted
		t.Kept = t.Kept || t.AdmittedBy.Len() >= multiplex.Quorum(f.kinds.Nodes)
		if t.Kept || refusal.late == 0 || round == fairRounds {
			return refusal, err
		}
		f.moveBack(r, g.Name, time.Since(begun), refusal.late)
	}
}

// moveBack makes a caller leave the queue and enter it anew with its next
// attempt: see redraw.
func (f *fair) moveBack(r Rounds, name string, spent time.Duration, late int64) {
	f.leave(r, name)
	f.redraw(late, spent)
}

// leadMost bounds the lead of a ticket.
const leadMost = time.Second

// redraw gives a caller another name and a ticket behind a later one let in by
// nodes. spent is the time to learn of it. Of a stream of callers nearer to the
// nodes, there are further ones by the arrival of this ticket. So each ticket
// but the first has a lead, of at least the time spent, and the lead doubles.
func (f *fair) redraw(late int64, spent time.Duration) {
	t := f.place
	t.Waiter, t.sentTo, t.AdmittedBy = f.kinds.Tokens.Next(), 0, 0
	// What nodes say of one queue changes no ticket for another.
	next := max(f.kinds.Tickets.Next(time.Now()), late+1)
	t.Ticket = min(next+t.lead.Microseconds(), pure.LastNumber)
	t.lead = min(max(2*t.lead, spent), leadMost)
}

var fairKind = &multiplex.ClaimKind{
	Kind: multiplex.Kind{Judge: judgeFair, Script: true}, Undo: releaseLockerKind, Telling: true, Placing: true,
}

func (f *fair) Claim(g *Grant, dst []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	t, mode := f.place, "keep"
	switch {
	case t == nil:
		t, mode = &Place{}, "try"
	case !t.Kept:
		mode = "new"
	}
	dst = f.call(dst, &wire.AskFair, g, 6, 6)
	dst = f.kinds.KeyWith(dst, g.Name, wire.TicketSuffix)
	dst = f.turn(dst, g, t)
	dst = wire.Milliseconds(dst, g.TTL)
	dst = wire.Text(dst, string(t.Waiter[:]))
	dst = wire.Integer(dst, t.Ticket)
	dst = wire.Text(dst, mode)
	return fairKind, multiplex.Encoded{Bytes: wire.Milliseconds(dst, f.kinds.FairLease)}
}

// call appends the head of a script with the first keys of a fair lock.
func (f *fair) call(dst []byte, s *wire.Script, g *Grant, keys, arguments int) []byte {
	dst = s.Call(dst, keys, 3+keys+arguments)
	dst = f.kinds.Encoder.Key(dst, g.Name)
	dst = f.kinds.KeyWith(dst, g.Name, wire.QueueSuffix)
	return f.kinds.KeyWith(dst, g.Name, wire.LeasesSuffix)
}

// turn appends the last keys, and the value, which is the first argument.
func (f *fair) turn(dst []byte, g *Grant, t *Place) []byte {
	dst = f.kinds.KeyWith(dst, g.Name, wire.TurnSuffix)
	dst = f.kinds.KeyWith(dst, g.Name, wire.WaiterSuffix+string(t.Waiter[:]))
	return f.kinds.Value(dst, &g.Value)
}

func (f *fair) Extend(g *Grant, room []byte, ttl, promised time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	return extendKind, f.kinds.Encoder.Extend(room, g.Name, &g.Value, ttl, promised)
}

// Release keeps the place of a waiting caller: it undoes an attempt.
func (f *fair) Release(g *Grant, room []byte) (*multiplex.ReleaseKind, multiplex.Encoded) {
	return releaseLockerKind, f.release(g, room, f.place == nil || f.place.done)
}

// release appends the release of a lock, and with leaves, of the caller's
// place.
func (f *fair) release(g *Grant, dst []byte, leaves bool) multiplex.Encoded {
	t, left := f.place, int64(0)
	if t == nil {
		t = &Place{}
	}
	if leaves {
		left = 1
	}
	dst = f.call(dst, &wire.ReleaseFair, g, 5, 3)
	dst = f.turn(dst, g, t)
	dst = wire.Text(dst, string(t.Waiter[:]))
	return multiplex.Encoded{Bytes: wire.Integer(dst, left)}
}

// queued is what the nodes said of a caller's place.
type queued struct {
	standings [multiplex.MaxNodes]standing // by node
	lates     [multiplex.MaxNodes]int64    // later tickets that it let in
	admitted  multiplex.Set
}

// A standing is a caller's place, 0 if unknown, and the waiter before it, other
// than the first.
type standing struct {
	place int
	ahead wire.Characters
}

// The codes at the beginning of ask_fair.lua's texts.
const (
	fairNext   = 1 // the caller is next; the value of the holder follows
	fairQueued = 2 // its place follows, and the waiter before it
	fairLate   = 3 // a later ticket, which follows, was let in
	fairCodes  = 3
)

func (*fair) Hear(s *Said, node, code int, text []byte) {
	q := &s.queued
	switch code {
	case fairLate:
		s.numbers[node] = uint8(code)
		q.lates[node], _ = readTicket(text)
		return
	case fairNext:
		q.standings[node].place = 1
		s.hold(node, code, fairCodes, text)
	case fairQueued:
		s.numbers[node] = uint8(code)
		q.standings[node] = readStanding(text)
	default:
		return
	}
	q.admitted = q.admitted.Add(node)
}

func (f *fair) Refusal(s *Said, name string, _ int) bool {
	s.Key, s.Soon = name, AskTime
	if f.place == nil {
		return true // it has no place
	}
	q := &s.queued
	s.passed, s.late = q.passed(f.kinds.Nodes, time.Now())
	s.admitted = q.admitted
	most := mostOf(q.standings[:])
	s.Admitted, s.Place = q.admitted.Len(), most.place
	if most.place > 1 {
		s.Key = name + wire.WaiterSuffix + string(most.ahead[:])
	}
	return true
}

// readTicket reads the ticket behind fairLate.
func readTicket(text []byte) (ticket int64, ok bool) {
	ticket, err := strconv.ParseInt(string(text), 10, 64)
	return ticket, err == nil && 0 < ticket && ticket <= pure.MostNumber
}

// judgeFair is wire.JudgeTelling for ask_fair.lua. An invalid ticket, or one
// with too few above it, was let in by no honest node (R33).
func judgeFair(v resp.Value) multiplex.Vote {
	if wire.Refuses(v) {
		if code, text := wire.ReadRefusal(v.Bytes()); code == fairLate {
			if _, ok := readTicket(text); !ok {
				return multiplex.Beyond
			}
		}
	}
	return wire.JudgeTelling(v)
}

// TicketBelief is how far ahead of this client's clock a ticket let in by one
// node alone may be: as far as clients' clocks may be apart.
const TicketBelief = 24 * time.Hour

// passed returns the nodes that claim to have let in a later ticket, and the
// latest one. The claim of one node needs the support of the clock, or of
// enough others to have one in each quorum. Otherwise it is passed over: the
// node has not answered (R33).
func (q *queued) passed(nodes int, now time.Time) (by multiplex.Set, late int64) {
	said := slices.Clone(q.lates[:nodes])
	slices.Sort(said)
	believed := max(now.Add(TicketBelief).UnixMicro(), said[multiplex.Quorum(nodes)-1])
	for node, ticket := range q.lates[:nodes] {
		if ticket > 0 && ticket <= believed {
			by, late = by.Add(node), max(late, ticket)
		}
	}
	return by, late
}

// readStanding reads the text behind fairQueued.
func readStanding(text []byte) (s standing) {
	place, ahead, _ := bytes.Cut(text, wire.Blank)
	if n, err := strconv.Atoi(string(place)); err == nil && n > 1 && len(ahead) == len(s.ahead) {
		s = standing{n, wire.Characters(ahead)}
	}
	return s
}
