package redlock

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// Fair locks. A caller that waits has one ticket, the same on all nodes, which
// are the time in microseconds by its own clock. A node lets a caller into its
// queue only with a higher ticket than any before; so a caller that a quorum
// has let in stands before all that come later, whatever the clocks show. Each
// attempt keeps its place, and a node grants the lock only to the lowest ticket
// of those that have asked a while ago.

// Fair returns the Locker of a lock whose callers are served in the order in
// which they came, in all processes: a caller that a quorum of nodes has let
// into the queue gets the lock before each that asks later. A caller leaves the
// queue when its context ends; one that has died loses its place when its lease
// ends (Config.FairLease), half a second later, and stops the others until
// then. So does one that reaches no quorum for that time: others overtake it,
// though its place was confirmed. One that has always been too far from a
// quorum for its TTL goes to the end of the queue each time. TryAcquire and
// TryHold get the lock only if no caller waits, and take no place.
//
// While it waits, each caller asks the nodes several times a second, and when
// the one before it has gone. HeldError.Place says where it stands: the last
// attempt's error is a part of the CancelledError, and Tracer.AttemptDone gets
// each. Order costs throughput: use it where waiting for too long is worse.
//
// The resource must be locked by Fair only: a plain lock on it excludes the
// others, but does not queue. Fair locks have no fencing number: the ticket is
// none.
func (c *Client) Fair(name string) Locker {
	f := &form{kind: fair, key: queueKey{kind: fair, name: name}, names: []string{name}, text: name}
	return Locker{client: c, name: name, try: f, wait: f}
}

const (
	// leaseTime is Config.FairLease if it is not set: how long a waiter keeps its
	// place without an attempt that renews its lease. Attempts in the first
	// quarter do not: see ask_fair.lua.
	leaseTime = 500 * time.Millisecond
	// leastLease and mostLease bound Config.FairLease.
	leastLease, mostLease = leaseTime, time.Minute
	// askTime is the time from the beginning of one attempt to that of the next
	// at the latest, unless the attempt itself takes longer. So a node that
	// misses one question gets the next with a fifth of the lease left. Where a
	// quorum takes longer than askTime to answer, and up to 450 ms, a waiter
	// keeps its place if no question is lost.
	askTime = leaseTime / 4

	queueSuffix  = reserved + "queue"
	ticketSuffix = reserved + "ticket"
	turnSuffix   = reserved + "turn"
	leaseSuffix  = queueSuffix + ":"
)

// A turn is the place of one call in a queue. The call's goroutine owns it.
type turn struct {
	nodes  int           // of the client
	waiter Token         // names the caller
	ticket int64         // 0 before the first attempt
	asked  multiplex.Set // nodes that may have it in their queues
	let    multiplex.Set // those that have said so, with this ticket
	kept   bool          // that was a quorum
	over   bool          // the call has got the lock
	lead   time.Duration // of the next ticket: see redraw
}

// waiting reports whether the caller keeps its place when an attempt fails.
func (t *turn) waiting() bool { return t != nil && !t.over }

// queueUp returns the form of a call that waits.
func (c *Client) queueUp(f *form) *form {
	own := *f
	own.turn = &turn{nodes: len(c.config.Nodes), waiter: c.tokens.next()}
	return &own
}

// leaveQueue gives up the place of a call that gets no lock. Its last attempt
// has been undone.
func (c *Client) leaveQueue(r *request) {
	if r.form.turn.asked == 0 {
		return
	}
	lock := Lock{client: c, resource: r.resource, form: r.form}
	var room [largeRoom]byte
	c.group.Tell(releaseLockerKind, &multiplex.Command{
		Encoded: c.appendReleaseFair(room[:0], &lock, true),
		TTL:     c.config.FairLease,
		Receipt: multiplex.Receipt{Sent: r.form.turn.asked},
	})
}

// fairRounds bounds how often a caller draws another ticket at once.
const fairRounds = 3

// attemptFair is an attempt that keeps the caller's place. Until a quorum has
// let it in, each node compares its ticket: one that has not answered yet may
// have refused it. If a later ticket was let in before its own, the caller
// leaves the queue, and enters it anew with a higher ticket under another name:
// nodes that have let in the old one would otherwise grant its place to the new
// one.
func (c *Client) attemptFair(ctx context.Context, lock *Lock) error {
	var set [largeRoom]byte
	t := lock.form.turn
	if t != nil && t.ticket == 0 {
		t.ticket = c.tickets.Next(time.Now())
	}
	for round := 1; ; round++ {
		begun := time.Now()
		err := c.claim(ctx, lock, set[:0])
		if t == nil {
			return err
		}
		t.asked |= lock.receipt.Sent
		held, ok := err.(*HeldError)
		switch {
		case err == nil:
			t.over = true
			return nil
		case !ok:
			return err
		}
		t.let = t.let&^held.hint.passed | held.hint.admitted
		t.kept = t.kept || t.let.Len() >= multiplex.Quorum(len(c.config.Nodes))
		if t.kept || held.hint.late == 0 || round == fairRounds {
			return err
		}
		c.moveBack(&request{resource: lock.resource, form: lock.form}, time.Since(begun), held.hint.late)
	}
}

// moveBack makes a caller leave the queue and enter it anew with its next
// attempt: see redraw.
func (c *Client) moveBack(r *request, spent time.Duration, late int64) {
	c.leaveQueue(r)
	c.redraw(r.form.turn, late, spent)
}

// leadMost bounds the lead of a ticket.
const leadMost = time.Second

// redraw gives a caller another name and a ticket behind a later one that nodes
// have let in. spent is what it took to learn of that one. If it was only one
// of a stream of callers that are nearer to the nodes, there are further ones
// when this ticket arrives. So each ticket but the first has a lead, of at
// least the time spent, which doubles.
func (c *Client) redraw(t *turn, late int64, spent time.Duration) {
	t.waiter, t.asked, t.let = c.tokens.next(), 0, 0
	// What nodes say of one queue changes no ticket for another.
	next := max(c.tickets.Next(time.Now()), late+1)
	t.ticket = min(next+t.lead.Microseconds(), pure.LastNumber)
	t.lead = min(max(2*t.lead, spent), leadMost)
}

// queuePlaces are what the nodes said of a caller's place.
type queuePlaces struct {
	standings [multiplex.MaxNodes]standing // by node
	lates     [multiplex.MaxNodes]int64    // later tickets that it let in
	admitted  multiplex.Set
}

// A standing is a caller's place, 0 if it is not known, and the waiter before
// it if that is not the first.
type standing struct {
	place int
	ahead Token
}

// The codes with which ask_fair.lua begins its texts.
const (
	fairNext   = 1 // the caller is next; the value of the holder follows
	fairQueued = 2 // its place follows, and the waiter before it
	fairLate   = 3 // a later ticket, which follows, was let in
	fairCodes  = 3
)

// hear takes what one node said with a code. It reports whether the text is the
// value that is in the way.
func (p *queuePlaces) hear(node, code int, text []byte) bool {
	if code == fairLate {
		p.lates[node], _ = readTicket(text)
		return false
	}
	p.admitted = p.admitted.Add(node)
	switch code {
	case fairNext:
		p.standings[node].place = 1
		return true
	case fairQueued:
		p.standings[node] = readStanding(text)
	}
	return false
}

// readTicket reads the ticket behind fairLate.
func readTicket(text []byte) (ticket int64, ok bool) {
	ticket, err := strconv.ParseInt(string(text), 10, 64)
	return ticket, err == nil && 0 < ticket && ticket <= pure.MostNumber
}

// judgeFair is judgeAll for ask_fair.lua. A ticket that is none, or above which
// there are too few, was let in by no honest node (R33).
func judgeFair(v resp.Value) multiplex.Vote {
	if blocks(v) {
		if code, text := readBlocker(v.Bytes()); code == fairLate {
			if _, ok := readTicket(text); !ok {
				return multiplex.Beyond
			}
		}
	}
	return judgeAll(v)
}

// ticketBelief is how far ahead of this client's clock a ticket may be that one
// node alone says to have let in: as far as clients' clocks may be apart.
const ticketBelief = 24 * time.Hour

// passed returns the nodes that say that they have let in a later ticket, and
// the latest one. What one node says, and neither the clock nor so many others
// that one of them is in each quorum, is passed over: the node has not answered
// (R33).
func (p *queuePlaces) passed(nodes int, now time.Time) (by multiplex.Set, late int64) {
	said := slices.Clone(p.lates[:nodes])
	slices.Sort(said)
	believed := max(now.Add(ticketBelief).UnixMicro(), said[multiplex.Quorum(nodes)-1])
	for node, ticket := range p.lates[:nodes] {
		if ticket > 0 && ticket <= believed {
			by, late = by.Add(node), max(late, ticket)
		}
	}
	return by, late
}

// readStanding reads the text behind fairQueued.
func readStanding(text []byte) (s standing) {
	place, ahead, _ := bytes.Cut(text, blank)
	if n, err := strconv.Atoi(string(place)); err == nil && n > 1 && len(ahead) == len(Token{}) {
		s = standing{n, Token(ahead)}
	}
	return s
}

// tell completes the error of an attempt.
func (p *queuePlaces) tell(held *HeldError, f *form) {
	if f.turn == nil {
		return // it has no place
	}
	held.hint.passed, held.hint.late = p.passed(f.turn.nodes, time.Now())
	held.hint.admitted = p.admitted
	most := mostOf(p.standings[:])
	held.Admitted, held.Place = p.admitted.Len(), most.place
	if most.place > 1 {
		held.hint.key = f.names[0] + leaseSuffix + string(most.ahead[:])
	}
}

func (l *Lock) claimFair(dst []byte) multiplex.Encoded {
	c, t, mode := l.client, l.form.turn, "keep"
	switch {
	case t == nil:
		t, mode = &turn{}, "try"
	case !t.kept:
		mode = "new"
	}
	dst = appendScriptHead(dst, &askFairScript, 5, 3+5+7)
	dst = c.appendKey(dst, l.resource)
	dst = c.appendKeyWith(dst, l.resource, queueSuffix)
	dst = c.appendKeyWith(dst, l.resource, ticketSuffix)
	dst = c.appendKeyWith(dst, l.resource, turnSuffix)
	dst = c.appendLease(dst, l.resource, t)
	dst = c.appendValue(dst, &l.token)
	dst = appendMilliseconds(dst, l.ttl)
	dst = resp.AppendBulkString(dst, string(t.waiter[:]))
	dst = appendInteger(dst, t.ticket)
	dst = resp.AppendBulkString(dst, mode)
	dst = appendMilliseconds(dst, c.config.FairLease)
	return multiplex.Encoded{Bytes: c.appendKeyWith(dst, l.resource, leaseSuffix)}
}

// appendLease appends the key of a waiter's lease.
func (c *Client) appendLease(dst []byte, resource string, t *turn) []byte {
	return c.appendKeyWith(dst, resource, leaseSuffix+string(t.waiter[:]))
}

// appendReleaseFair appends the release of a lock, and of the caller's place if
// it leaves the queue.
func (c *Client) appendReleaseFair(dst []byte, l *Lock, leaves bool) multiplex.Encoded {
	t, left := l.form.turn, int64(0)
	if t == nil {
		t = &turn{}
	}
	if leaves {
		left = 1
	}
	dst = appendScriptHead(dst, &releaseFairScript, 4, 3+4+3)
	dst = c.appendKey(dst, l.resource)
	dst = c.appendKeyWith(dst, l.resource, queueSuffix)
	dst = c.appendKeyWith(dst, l.resource, turnSuffix)
	dst = c.appendLease(dst, l.resource, t)
	dst = c.appendValue(dst, &l.token)
	dst = resp.AppendBulkString(dst, string(t.waiter[:]))
	return multiplex.Encoded{Bytes: appendInteger(dst, left)}
}
