package history

// Fencing numbers (docs/internals/fencing.md): if a lock was granted before
// another attempt for its resource began, that one's number is higher, and no two locks
// of a resource have the same.

// An order is what was seen of the numbers. Its memory is bounded by the number
// of resources that have numbers and of attempts under way.
type order struct {
	last    map[string]*numbers
	started map[attempt]Event // the grant with the highest number when it began
	sweepAt int
}

// numbers are those of one resource.
type numbers struct {
	highest Event // the grant with the highest one
	recent  map[uint64]Event
	ring    [rememberedNumbers]uint64
	next    int
}

// rememberedNumbers is how many numbers of a resource are compared with new
// ones, though they need not be lower.
const rememberedNumbers = 1 << 10

// begin records an attempt's beginning.
func (o *order) begin(e Event) {
	n := o.last[e.Resource]
	if n == nil {
		return // whatever its number will be
	}
	o.started[attemptOf(e)] = n.highest
	if len(o.started) > o.sweepAt {
		for id, was := range o.started { // the clients of old ones are gone
			if was.T+overdueFor < e.T {
				delete(o.started, id)
			}
		}
		o.sweepAt = max(2*len(o.started), 1024)
	}
}

// end records that an attempt ended without a lock.
func (o *order) end(e Event) { delete(o.started, attemptOf(e)) }

// grant returns what is wrong with the number of a lock, and the grant that
// shows it.
func (o *order) grant(e Event) (f Fault, by Event) {
	before := o.started[attemptOf(e)]
	delete(o.started, attemptOf(e))
	if e.Fence == 0 {
		return "", Event{}
	}
	n := o.last[e.Resource]
	if n == nil {
		if o.last == nil {
			o.last, o.started = make(map[string]*numbers), make(map[attempt]Event)
		}
		n = &numbers{recent: make(map[uint64]Event)}
		o.last[e.Resource] = n
	}
	switch twice, is := n.recent[e.Fence]; {
	case is:
		f, by = NumberTwice, twice
	case e.Fence <= before.Fence:
		f, by = NumberNotHigher, before
	}
	if e.Fence > n.highest.Fence {
		n.highest = e
	}
	delete(n.recent, n.ring[n.next])
	n.recent[e.Fence], n.ring[n.next] = e, e.Fence
	n.next = (n.next + 1) % rememberedNumbers
	return f, by
}
