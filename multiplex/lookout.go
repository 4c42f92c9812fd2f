package multiplex

import (
	"fmt"
	"slices"
	"time"

	"github.com/redmux/redmux/resp"
)

// A Lookout watches one key of other clients, until it is gone on a quorum of
// nodes, or pushes say so (lookout_track.go). It asks each node once and then
// receives pushes, instead of asking again and again. Its signal is a hint, and
// may be wrong either way. A changed key may only have been extended, and a
// push can be lost with its connection. So a client must still claim the key
// after the signal, and try now and then without one.
//
// A Lookout's methods must not be called concurrently.
type Lookout struct {
	group *Group
	*subject
	signal chan struct{} // holds one signal
	asks   []inquiry     // one for each node, reused

	// The following are guarded by the tracker's mutex. A node about which
	// nothing is known is in none of the sets.
	pending Set // nodes that have yet to answer
	held    Set // nodes that have the key, and push when it changes
	free    Set // nodes that do not have it, or pushed since they were asked
	mute    Set // nodes that will not push, though they answer
	// expires says when the key expires on each node in held, on the group's
	// clock, or noExpiry.
	expires [MaxNodes]time.Duration
	// listening is set from Ask until the signal. Some goroutine reads the
	// sockets meanwhile.
	listening bool
	stopped   bool
	next      *Lookout // of the same key
}

// A subject is what a Lookout is about. It is a pointer, behind which package
// fmt does not look (R27).
type subject struct {
	key      string
	question []byte // PTTL of the key, encoded
}

const (
	// maxLookouts bounds the lookouts of a group (R26).
	maxLookouts = 65536
	// noExpiry stands for a key without a TTL.
	noExpiry time.Duration = 1<<63 - 1
)

// Lookout returns a Lookout for a key, and copies the key. It returns nil if
// there are too many. It sends nothing until Ask. Call Stop when it is no
// longer needed.
func (g *Group) Lookout(key []byte) *Lookout {
	g.made()
	l := &Lookout{
		group:   g,
		subject: &subject{string(key), resp.AppendCommand(nil, "PTTL", string(key))},
		signal:  make(chan struct{}, 1),
		asks:    make([]inquiry, g.size),
	}
	for i, n := range g.nodes {
		l.asks[i] = inquiry{
			answer:    func(turn int, v resp.Value) error { return l.answered(n, turn, v) },
			abandoned: func(*fault) { l.abandoned(n) },
		}
	}
	if !g.tracker.add(l) {
		return nil
	}
	return l
}

// Ask forgets what was known and asks every node that is up again. It does not
// wait for answers. If it returns false, fewer than a quorum of nodes can be
// asked and will push, and no signal comes. Nodes that are down, speak RESP2,
// do not know or allow CLIENT TRACKING or CLIENT CACHING, or have no room in
// their lanes cannot be asked or do not push.
func (l *Lookout) Ask() bool {
	l.made()
	g, t := l.group, l.group.tracker
	g.mu.Lock()
	t.mu.Lock()
	if l.stopped {
		t.mu.Unlock()
		g.mu.Unlock()
		return false
	}
	l.listenLocked(false)
	select {
	case <-l.signal:
	default:
	}
	l.held, l.free, l.mute = 0, 0, l.mute&l.pending
	for i, n := range g.nodes {
		// A node that has yet to answer is not asked again. So a
		// stalled node's lane does not fill up. Its answer, and what it
		// pushes after that, serve as well as new ones.
		switch {
		case g.life.closing(), !g.live.Has(i), l.pending.Has(i), !n.canTrackLocked():
		case n.askForLocked(l):
			l.pending |= setOf(i)
		}
	}
	l.listenLocked(l.reachLocked() >= g.quorum)
	listening := l.listening
	t.mu.Unlock()
	g.mu.Unlock()
	if listening && g.poller != nil && g.poller.role.Load() == roleFree {
		// A goroutine with the role finds the lookout on leaving it.
		g.poller.callServer()
	}
	return listening
}

// Signal returns a channel that receives once after each successful Ask: for a
// key gone or changed on a quorum of nodes, or with too many nodes dead for
// that.
func (l *Lookout) Signal() <-chan struct{} {
	l.made()
	return l.signal
}

// Expiry returns when the key will have expired on a quorum of nodes, by their
// last answers. ok is false if too few have answered, or the key does not
// expire.
func (l *Lookout) Expiry() (at time.Time, ok bool) {
	l.made()
	g := l.group
	g.tracker.mu.Lock()
	defer g.tracker.mu.Unlock()
	var ends []time.Duration
	for i := range g.size {
		switch {
		case l.free.Has(i):
			ends = append(ends, 0)
		case l.held.Has(i) && l.expires[i] != noExpiry:
			ends = append(ends, l.expires[i])
		}
	}
	if len(ends) < g.quorum {
		return time.Time{}, false
	}
	slices.Sort(ends)
	return g.epoch.Add(ends[g.quorum-1]), true
}

// Rest stops listening until the next Ask. No signal comes meanwhile.
func (l *Lookout) Rest() {
	l.made()
	t := l.group.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	l.listenLocked(false)
}

// Stop ends the lookout; Ask returns false from then on.
func (l *Lookout) Stop() {
	l.made()
	t := l.group.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	l.listenLocked(false)
	l.stopped = true
	t.removeLocked(l)
}

// The commands of one question, in their order.
const (
	turnCaching = iota
	turnQuestion
)

// answered handles one node's reply. PTTL replies -2 for a missing key, and -1
// for one without expiry. In either case the node has registered the question,
// and pushes once when the answer changes.
func (l *Lookout) answered(n *node, turn int, v resp.Value) error {
	g := l.group
	t := g.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.IsError() {
		t.refusedLocked(n, v)
		l.mute |= setOf(n.index)
	}
	if turn == turnCaching {
		if !v.IsError() && !v.IsOK() {
			return fmt.Errorf("%w: type %q to CLIENT CACHING", ErrUnexpected, v.Type())
		}
		return nil
	}
	mute := l.mute.Has(n.index)
	l.forgetLocked(n)
	defer l.settleLocked()
	ttl, ok := v.Int64()
	switch {
	case v.IsError():
	case !ok || ttl < -2:
		return fmt.Errorf("%w: type %q to PTTL", ErrUnexpected, v.Type())
	case mute:
	case ttl == -2:
		l.free |= setOf(n.index)
	default:
		l.held |= setOf(n.index)
		t.nodes[n.index].nothing = false
		l.expires[n.index] = g.endOf(ttl)
	}
	return nil
}

// endOf returns when a key with this many milliseconds left expires.
func (g *Group) endOf(ttl int64) time.Duration {
	if ttl < 0 || ttl > int64(noExpiry/2/time.Millisecond) {
		return noExpiry
	}
	return g.now() + time.Duration(ttl)*time.Millisecond
}

// abandoned records that a node's answer will not come.
func (l *Lookout) abandoned(n *node) {
	t := l.group.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	l.forgetLocked(n)
	l.settleLocked()
}

// changedLocked records a push from a node. An answer on its way decides.
func (l *Lookout) changedLocked(n *node) {
	if l.held.Has(n.index) {
		l.held &^= setOf(n.index)
		l.free |= setOf(n.index)
		l.settleLocked()
	}
}

// forgetLocked drops what is known of a node.
func (l *Lookout) forgetLocked(n *node) {
	for _, s := range [...]*Set{&l.pending, &l.held, &l.free, &l.mute} {
		*s &^= setOf(n.index)
	}
}

// reachLocked returns on how many nodes the key is free or may become free.
func (l *Lookout) reachLocked() int { return (l.pending | l.held | l.free).Len() }

// settleLocked sends the signal if it is due.
func (l *Lookout) settleLocked() {
	quorum := l.group.quorum
	switch {
	case !l.listening:
	case l.free.Len() >= quorum, l.reachLocked() < quorum:
		l.listenLocked(false)
		l.signal <- struct{}{} // Ask has emptied it
	}
}

func (l *Lookout) listenLocked(on bool) {
	if on == l.listening {
		return
	}
	l.listening = on
	change := int64(1)
	if !on {
		change = -1
	}
	l.group.tracker.listening.Add(change)
}

// askForLocked queues the question to a node in its lane. CLIENT CACHING YES
// applies to the very next command, so nothing may come between the two. The
// caller must hold the group's mutex and the tracker's.
func (n *node) askForLocked(l *Lookout) bool {
	if !n.startTrackingLocked() || n.lane.room() < maxLane/2 {
		return false // the other half is for debts and cures
	}
	l.asks[n.index].ended = false
	if !n.inquireLocked(&l.asks[n.index], cachingYes, l.question) {
		return false
	}
	n.group.tracker.nodes[n.index].allowLocked()
	return true
}

var (
	cachingYes = resp.AppendCommand(nil, "CLIENT", "CACHING", "YES")
	trackingOn = resp.AppendCommand(nil, "CLIENT", "TRACKING", "ON", "OPTIN")
)
