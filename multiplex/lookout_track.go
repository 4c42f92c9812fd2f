package multiplex

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// A tracker gives what servers push to the lookouts that it concerns. Pushes come by CLIENT TRACKING over RESP3, on the
// connection that carries everything else; a connection has it turned on when the first lookout needs it, so that most
// never do.
//
// OPTIN, because otherwise the scripts that release and extend would register every key that they read. No NOLOOP: the
// release of a lock by this very client is what its own waiters wait for.
//
// Its mutex may be taken while the group's is held, never the other way round. Nothing waits under it.
type tracker struct {
	mu       sync.Mutex          // guards the following, and what Lookout says
	lookouts map[string]*Lookout // by key; those of one key are a list
	count    int
	nodes    [MaxNodes]tracking
	// listening counts the lookouts that wait for a signal. It changes under the mutex, and is also read without it.
	listening atomic.Int64
}

// tracking is what is known of one connection.
type tracking struct {
	asked bool // CLIENT TRACKING was queued
	on    bool // it was answered by OK: pushes are in order from then on
	never bool // tracking was refused, and will be again
	// pushes is how many keys the node may name yet in invalidations (R32).
	pushes int
	// flushed is when the nulls that came, which stand for FLUSHALL, would be over at the rate that is allowed.
	flushed time.Duration
	// nothing says that since the last null no node's answer made a lookout expect a push from this connection.
	nothing bool
}

const (
	// pushesPerQuestion is how many invalidations one question allows. A server sends one, when the key changes, expires, or is
	// forgotten for want of room in its table; the other is for a server that tells twice.
	pushesPerQuestion = 2
	// pushesMost bounds what was not used: a server tracks a million keys by default.
	pushesMost = 1 << 20
	// flushesPerSecond and as many at once are the nulls that a connection may bring: each FLUSHALL and FLUSHDB by any client, in
	// any database of the server, brings one to every client that tracks.
	flushesPerSecond = 1000
)

// allow notes one question, before the server can answer it. The caller must hold the tracker's mutex.
func (s *tracking) allow() { s.pushes = min(s.pushes+pushesPerQuestion, pushesMost) }

// flush notes a null at the given time, and reports whether there were too many. The caller must hold the tracker's mutex.
func (s *tracking) flush(now time.Duration) (tooMany bool) {
	s.flushed = max(s.flushed, now) + time.Second/flushesPerSecond
	return s.flushed > now+time.Second
}

func (t *tracker) add(l *Lookout) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= maxLookouts {
		return false
	}
	if t.lookouts == nil {
		t.lookouts = make(map[string]*Lookout)
	}
	l.next = t.lookouts[l.key]
	t.lookouts[l.key] = l
	t.count++
	return true
}

// remove takes a lookout off the list. The caller holds the mutex.
func (t *tracker) removeLocked(l *Lookout) {
	first := t.lookouts[l.key]
	at := &first
	for *at != nil && *at != l {
		at = &(*at).next
	}
	if *at == nil {
		return // stopped twice
	}
	*at = l.next
	t.count--
	if first == nil {
		delete(t.lookouts, l.key)
	} else {
		t.lookouts[l.key] = first
	}
}

// canTrack reports that tracking is there or may be asked for. The caller holds the group's mutex and the tracker's.
func (n *node) canTrackLocked() bool {
	return n.server.Protocol == 3 && !n.group.tracker.nodes[n.index].never
}

// startTracking asks for tracking, once for a connection. The caller holds the group's mutex and the tracker's.
func (n *node) startTrackingLocked() bool {
	t := &n.group.tracker
	if t.nodes[n.index].asked {
		return true
	}
	q := &inquiry{
		answer:    func(_ int, v resp.Value) error { return t.started(n, v) },
		abandoned: func(*fault) {}, // lost forgets what was asked
	}
	t.nodes[n.index].asked = n.inquireLocked(q, trackingOn)
	return t.nodes[n.index].asked
}

// started takes the answer to CLIENT TRACKING.
func (t *tracker) started(n *node, v resp.Value) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.nodes[n.index]
	switch {
	case v.IsOK():
		s.on = true
	case v.IsError():
		s.asked, s.never = false, !conn.ClassOf(v).Passing()
	default:
		return fmt.Errorf("%w: type %q to CLIENT TRACKING", ErrUnexpected, v.Type())
	}
	return nil
}

// refused notes an error in answer to a question. Where tracking is not on, it says nothing new. The caller holds the mutex.
func (t *tracker) refusedLocked(n *node, v resp.Value) {
	if s := &t.nodes[n.index]; s.on && !conn.ClassOf(v).Passing() {
		s.never = true
	}
}

// lost forgets a connection that ended; no pushes will come over it. The caller owns the node.
func (t *tracker) lost(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes[n.index] = tracking{}
	t.eachLocked(func(l *Lookout) {
		if !l.pending.Has(n.index) { // else it is abandoned with the lane
			l.forgetLocked(n)
			l.settleLocked()
		}
	})
}

// each calls f for every lookout. The caller holds the mutex.
func (t *tracker) eachLocked(f func(*Lookout)) {
	for _, l := range t.lookouts {
		for ; l != nil; l = l.next {
			f(l)
		}
	}
}

// pushed takes a push: that keys changed, or all of them, where null stands for FLUSHALL. Any other push, and any on a
// connection that has not answered OK to CLIENT TRACKING, ends it (R16), as do more keys than questions can have caused, and
// nulls without end (R32). A key that no lookout is kept for any more is fine.
func (t *tracker) pushed(n *node, v resp.Value) error {
	keys, ok := invalidated(v)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.nodes[n.index]
	switch {
	case !ok || !s.on:
		return fmt.Errorf("%w: a push", ErrUnexpected)
	case keys.IsNull():
		return t.flushedLocked(n)
	}
	if s.pushes -= keys.Len(); s.pushes < 0 {
		return fmt.Errorf("%w: more invalidations than were asked for", ErrUnexpected)
	}
	for key := range keys.Elements() {
		for l := t.lookouts[string(key.Bytes())]; l != nil; l = l.next {
			l.changedLocked(n)
		}
	}
	return nil
}

// flushed takes the null that stands for FLUSHALL. The caller must hold the mutex.
func (t *tracker) flushedLocked(n *node) error {
	s := &t.nodes[n.index]
	if s.flush(n.group.now()) {
		return fmt.Errorf("%w: more than %d flushes in a second", ErrUnexpected, flushesPerSecond)
	}
	if !s.nothing {
		s.nothing = true
		t.eachLocked(func(l *Lookout) { l.changedLocked(n) })
	}
	return nil
}

// invalidated gives the keys of a push that says that they changed: an array of bulk strings, or null.
func invalidated(v resp.Value) (keys resp.Value, ok bool) {
	elements, ok := 0, plain(v)
	for e := range v.Elements() {
		elements++
		ok = ok && plain(e) && (elements > 1 || e.Type() == resp.BulkString && string(e.Bytes()) == "invalidate")
		keys = e
	}
	ok = ok && elements == 2 && (keys.Type() == resp.Array || keys.IsNull())
	for key := range keys.Elements() {
		ok = ok && plain(key) && key.Type() == resp.BulkString && !key.IsNull()
	}
	return keys, ok
}

// plain reports that no attributes come with a value; none were asked for (R16).
func plain(v resp.Value) bool {
	_, has := v.Attributes()
	return !has
}
