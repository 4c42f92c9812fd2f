package multiplex

import "sync/atomic"

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
	spoil(batch)
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
