package multiplex

import (
	"slices"
	"sync/atomic"
)

// broadcast is the log of all commands that go to every node: the same bytes in
// the same order for all of them, stored once. Its ring holds the rounds that
// some node has yet to answer:
//
//	tail ≤ oldest, tail ≤ each node's answered ≤ its sent ≤ head
//
//	 … freed | tail … oldest … answered … sent … head | free …
//
// A round is freed when every attached node's cursor has passed it. A node that
// joins begins at the head.
//
// The group's mutex guards all of it, with one exception: a node's reader looks
// up rounds between its answered and sent cursors without the mutex. Those
// slots belong to it until its answered cursor moves on.
type broadcast struct {
	buf    []byte // encoded commands of the next batch
	claims bool   // not all of them are releases
	spare  []byte // the buffer of the previous batch, for the next swap

	ring   atomic.Pointer[ring]
	head   uint64 // position of the next round
	tail   uint64 // position of the oldest round that is kept
	oldest uint64 // no round before it is undecided
	live   int    // rounds in use: in the ring, or held by a caller

	free     *round // rounds to use
	carriers *round // the same for those that carry merged commands
	// returned is the list of rounds given back without the mutex; see collect.
	returned atomic.Pointer[round]
}

// A ring is an array of rounds by position. A longer one replaces it when it is
// full, so a reader of the old one still finds everything it may look up.
type ring struct {
	slots []*round
}

func (s *ring) at(pos uint64) *round { return s.slots[pos&uint64(len(s.slots)-1)] }

func (s *ring) set(pos uint64, r *round) { s.slots[pos&uint64(len(s.slots)-1)] = r }

const (
	firstRing = 1024
	// leastMade and mostMade bound how many rounds are made at once.
	leastMade, mostMade = 8, 256
	// keepBatch bounds the buffers that are kept between batches (R26).
	keepBatch = 1 << 20
)

func (l *broadcast) init() { l.ring.Store(&ring{slots: make([]*round, firstRing)}) }

// waiting returns how many rounds some node has yet to answer.
func (l *broadcast) waiting() int { return int(l.head - l.tail) }

// take returns a round that nothing else holds.
func (l *broadcast) take(g *Group) *round {
	if l.free == nil {
		l.collect()
	}
	if l.free == nil {
		l.make(g)
	}
	l.live++
	r := l.free
	l.free, r.next = r.next, nil
	return r
}

// takeCarrier returns a round for others to travel in. Nothing else holds it.
func (l *broadcast) takeCarrier(g *Group) *round {
	if l.carriers == nil {
		l.makeCarriers(g)
	}
	l.live++
	r := l.carriers
	l.carriers, r.next = r.next, nil
	return r
}

// make makes rounds, about half as many as there are, with one allocation: a
// node that stops answering pins thousands in a moment (R26).
func (l *broadcast) make(g *Group) {
	made := make([]round, max(leastMade, min(l.live/2, mostMade)))
	for i := range made {
		r := &made[i]
		r.group, r.itself[0] = g, r
		r.command = r.room[:0]
		r.next, l.free = l.free, r
	}
}

// makeCarriers is make for carriers, with room for their parts.
func (l *broadcast) makeCarriers(g *Group) {
	made := make([]struct {
		round
		parts [maxMerged]*round
	}, max(leastMade, min(l.live/maxMerged, mostMade)))
	for i := range made {
		r := &made[i].round
		r.group, r.carrier = g, true
		r.parts = made[i].parts[:0]
		r.next, l.carriers = l.carriers, r
	}
}

// push puts a round at the head, and its bytes behind all bytes before.
func (l *broadcast) push(r *round, command []byte) {
	slots := l.ring.Load()
	if l.waiting() == len(slots.slots) {
		slots = l.grow(slots)
	}
	slots.set(l.head, r)
	l.buf = append(l.buf, command...)
	l.head++
}

// grow doubles the ring. Only releases make it grow far: new claims are refused
// long before, and each release belongs to a claim that was accepted (R26), so
// there is always room to undo what was done.
func (l *broadcast) grow(old *ring) *ring {
	bigger := &ring{slots: make([]*round, 2*len(old.slots))}
	for pos := l.tail; pos < l.head; pos++ {
		bigger.set(pos, old.at(pos))
	}
	l.ring.Store(bigger)
	return bigger
}

// swap hands the batch to the flusher and begins the next.
func (l *broadcast) swap() []byte {
	batch := l.buf
	l.buf, l.claims = l.spare[:0], false
	l.spare = nil
	return batch
}

// recycle takes back the buffer of a batch that was written, or copied
// elsewhere.
func (l *broadcast) recycle(batch []byte) {
	if poisoning {
		spoil(batch)
	}
	if cap(batch) <= keepBatch {
		l.spare = batch[:0]
	}
}

// trim frees the rounds before the given position, which every attached node
// has passed.
func (l *broadcast) trim(to uint64) {
	slots := l.ring.Load()
	for ; l.tail < to; l.tail++ {
		r := slots.at(l.tail)
		slots.set(l.tail, nil)
		if r.holders.Add(-1) == 0 {
			l.reuse(r)
		}
	}
	l.oldest = max(l.oldest, l.tail)
}

func (l *broadcast) reuse(r *round) {
	if r.carrier {
		for _, p := range r.parts {
			if p.holders.Add(-1) == 0 {
				l.reuse(p)
			}
		}
	}
	r.clear()
	l.live--
	if r.carrier {
		r.next, l.carriers = l.carriers, r
		return
	}
	r.next, l.free = l.free, r
}

// giveBack takes a round from its last holder, without the mutex.
func (l *broadcast) giveBack(r *round) {
	for {
		top := l.returned.Load()
		r.next = top
		if l.returned.CompareAndSwap(top, r) {
			return
		}
	}
}

// collect frees what was given back without the mutex. It takes all at once, so
// there is no ABA problem.
func (l *broadcast) collect() {
	for r := l.returned.Swap(nil); r != nil; {
		next := r.next
		l.reuse(r)
		r = next
	}
}

// Merging: releases before the same flush travel as one command. Its reply
// holds one result for each key. So do extensions. Starting a script costs a
// server more than one more key within it, so with many concurrent callers
// merging raises the throughput by a quarter.
//
// Only commands with a waiting caller, or posted ones, are merged. The release
// of a failed attempt goes into the log at once, or the SET of the next attempt
// would overtake it and be refused because of the old key (R8, R11).

// packLocked gives the commands gathered since the last flush their places in
// the log: a single one as it is, several merged. A native form is not merged:
// it costs a server less than its part of a script (R25). That also fixes their
// nodes (docs/internals/design.md, "Voters are fixed with the place").
func (g *Group) packLocked() {
	for rest := g.gathering.rounds; len(rest) > 0; {
		n := g.alikeLocked(rest)
		if n == 1 {
			g.placeLocked(rest[0], rest[0].command)
		} else {
			g.placeMergedLocked(rest[:n])
		}
		rest = rest[n:]
	}
	g.gathering.empty()
}

// alikeLocked returns how many rounds, from the first on, may be merged: those
// with the same merger and no native form, with up to maxMerged keys.
func (g *Group) alikeLocked(rounds []*round) int {
	first := rounds[0]
	if g.forms.of(first) != nil {
		return 1
	}
	n, keys := 1, first.key.count()
	for ; n < len(rounds) && rounds[n].verb.merger == first.verb.merger; n++ {
		r := rounds[n]
		if r.verb != first.verb && g.forms.of(r) != nil {
			break
		}
		if keys += r.key.count(); keys > maxMerged {
			break
		}
	}
	return n
}

// placeMergedLocked puts several rounds into the log as one carrier. It takes
// over the log's hold on each.
func (g *Group) placeMergedLocked(parts []*round) {
	if missing := All(g.size) &^ g.live; missing|g.members.Doubted|g.members.FailOver != 0 {
		for _, p := range parts {
			g.failMissingLocked(p, missing)
		}
	}
	if g.live == 0 {
		for _, p := range parts {
			p.drop()
		}
		return
	}
	g.log.claims = g.log.claims || !parts[0].verb.releases
	merger := parts[0].verb.merger
	c := g.log.takeCarrier(g)
	// The first was queued first, so the carrier is as old as the oldest of
	// them.
	c.begin(merger.verb(), parts[0].at, parts[0].ttl, Receipt{}, 1)
	c.word.Store(decided) // no caller waits for the carrier itself
	c.parts = append(c.parts, parts...)
	g.log.push(c, nil)
	g.log.buf = c.appendCommand(g.log.buf)
}

// appendCommand appends the round's command as given. That of a carrier is made
// of its parts.
func (r *round) appendCommand(dst []byte) []byte {
	if !r.carrier {
		return append(dst, r.command...)
	}
	dst = r.parts[0].verb.merger.AppendHead(dst, keysOf(r.parts))
	for _, p := range r.parts {
		dst = append(dst, p.command[p.key.From:p.key.To]...)
	}
	for _, p := range r.parts {
		for range p.key.count() {
			dst = append(dst, p.command[p.key.To:]...)
		}
	}
	return dst
}

// keysOf returns how many keys the commands of some rounds have.
func keysOf(parts []*round) (n int) {
	for _, p := range parts {
		n += p.key.count()
	}
	return n
}

// placeLocked fails the votes of nodes that are not up or do not count, and
// puts the round into the log. It returns false if no node is up.
func (g *Group) placeLocked(r *round, command []byte) bool {
	if missing := All(g.size) &^ g.live; missing|g.members.Doubted|g.members.Floorless|g.members.FailOver != 0 {
		g.failMissingLocked(r, missing)
	}
	if g.live == 0 {
		r.drop() // the hold that the ring would have
		return false
	}
	g.log.claims = g.log.claims || !r.verb.releases
	r.form = g.forms.of(r)
	if r.verb.telling(r.form) && r.texts == nil {
		r.texts = new(texts)
	}
	if r.form != nil {
		g.log.push(r, nil)
		g.log.buf = r.form.Append(g.log.buf, Encoded{r.command, r.key})
		return true
	}
	g.log.push(r, command)
	return true
}

// failMissingLocked fails the votes of nodes that are not up at the moment of a
// round's place (docs/internals/design.md, "Voters are fixed with the place").
// It does so at once for all, so that the error names each of them (R12). A
// release that such a node may have to execute becomes its debt (R8). Votes of
// quarantined nodes on a claim fail with them (R23), and those of nodes without
// a floor, but without a debt: those nodes get the command and its release. So
// do the debts of processes that a node led to before (node_process.go).
func (g *Group) failMissingLocked(r *round, missing Set) {
	g.oweFormerLocked(r)
	for i, n := range g.nodes {
		if missing.Has(i) {
			if r.owedBy(i) {
				n.oweLocked(r, n.group.now())
			}
			r.causes[i].Store(n.fault)
			r.blamed.Store(true)
		}
	}
	doubted := g.discountLocked(r)
	given := r.giveUp(missing | doubted)
	g.countMissedLocked(given&missing, absent)
	g.countMissedLocked(given&doubted, quarantined)
}

// discountLocked records the round's quarantined nodes. It returns those whose
// vote on it fails for that reason. It stores their causes in the round.
func (g *Group) discountLocked(r *round) Set {
	r.discounted = g.members.Doubted & g.live
	if g.members.FailOver != 0 {
		r.receipt.Doubted |= g.members.MetSince(r.at)
	}
	void := r.void()
	if r.verb.numbered {
		void |= g.members.Floorless & g.live
	}
	if void == 0 {
		return 0
	}
	for i, n := range g.nodes {
		if void.Has(i) {
			r.causes[i].Store(n.reporter.causeLocked())
			r.blamed.Store(true)
		}
	}
	return void
}

// Native forms (R25): newer servers have a command that deletes a key with a
// given token, at less than half of the script's cost, and a SET that returns
// the value in its way.
//
// A round's command always keeps the form as given, which every node
// understands: debts, cures and repetitions use it. Only the bytes in the log
// may have a native form, and only replies to these are read by the judge of
// that form. The form is chosen under the mutex, together with the round's
// place, by what all live nodes support at that moment. A later join cannot
// make it wrong. The node begins at the head of the log, behind every round and
// byte queued before, so its first command comes after agree has dropped a
// missing form. A later loss of the command, or of the right to it, shows in an
// error reply; see errorToNative.

// NativeForm returns the name of the native form of a kind's commands to the
// nodes now up, or "" for none. It may change with every node that joins or
// leaves, and with every reply.
func (g *Group) NativeForm(kind *ReleaseKind) string {
	g.made()
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.forms.first(kind.Native); f != nil {
		return f.Name
	}
	return ""
}

// agree computes which steps of the handshake all live nodes accepted, and so
// their common forms. It must be called after each change of live, before the
// mutex is released, so that a form is dropped before a node without it gets
// its first command (R25).
func (a *agreed) agree(nodes []*node, live Set) {
	a.accepted = nil
	for i, n := range nodes {
		switch {
		case !live.Has(i):
		case a.accepted == nil:
			a.accepted = append([]string{}, n.server.Accepted...)
		default:
			a.accepted = slices.DeleteFunc(a.accepted, func(step string) bool {
				return !slices.Contains(n.server.Accepted, step)
			})
		}
	}
}

// first returns the first of several forms that all live nodes support, or nil.
func (a *agreed) first(native []Form) *Form {
	for i := range native {
		if f := &native[i]; slices.Contains(a.accepted, f.Name) && !slices.Contains(a.banned, f.Name) {
			return f
		}
	}
	return nil
}

// of returns the form in which a round goes into the log. A round whose key is
// not known goes as it is.
func (a *agreed) of(r *round) *Form {
	if r.key.To == 0 {
		return nil
	}
	return a.first(r.verb.native)
}
