package multiplex

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// A tracker passes each push of a server to the lookouts that it concerns.
// Pushes come by CLIENT TRACKING over RESP3, on the connection that carries
// everything else. With MaxTTL it is turned on before the node joins: a server
// tells the loss of all its keys (see node.pushed). Otherwise it is turned on
// for the first lookout.
//
// OPTIN is used since otherwise the scripts for releases and extensions would
// register every key they read. NOLOOP is not used: callers of this client also
// wait for its own releases.
//
// The tracker's mutex may be taken while the group's is held, never the other
// way round. Nothing blocks while it is held.
type tracker struct {
	// mu guards the following, and the fields that Lookout lists.
	mu       sync.Mutex
	lookouts map[string]*Lookout // by key; those of one key are a list
	count    int
	nodes    [MaxNodes]tracking
	// listening counts the lookouts that wait for a signal. It changes under
	// the mutex and is also read without it.
	listening atomic.Int64
}

// tracking is what is known of tracking on one connection.
type tracking struct {
	asked bool // CLIENT TRACKING was queued
	on    bool // OK came: pushes are allowed from then on
	never bool // tracking was refused for good
	// denied means that the user may not track. It outlasts the connection, so
	// that not each one leaves a denial in the server's ACL LOG.
	denied bool
	// pushes is how many keys the node may still name in invalidations (R32).
	pushes int
	// flushed is the time of the last null received (each stands for
	// FLUSHALL), had they come at the allowed rate.
	flushed time.Duration
	// nothing means that since the last null, no answer of this node has made a
	// lookout expect a push.
	nothing bool
}

const (
	// pushesPerQuestion is how many invalidations one question allows. A
	// server sends one for a key that changes, expires, or leaves the
	// server's table for lack of room. The other is for a server that
	// repeats it.
	pushesPerQuestion = 2
	// maxPushes bounds tracking.pushes. By default a server tracks a million
	// keys.
	maxPushes = 1 << 20
	// flushesPerSecond is how many nulls may come on a connection per second,
	// and how many at once: each FLUSHALL and FLUSHDB by any client, in any
	// database of the server, sends one to every client that tracks.
	flushesPerSecond = 1000
)

// allowLocked records one question, before the server can answer it.
func (s *tracking) allowLocked() { s.pushes = min(s.pushes+pushesPerQuestion, maxPushes) }

// flushLocked records a null at the given time and reports whether there were
// too many.
func (s *tracking) flushLocked(now time.Duration) (tooMany bool) {
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

// removeLocked takes a lookout off the list.
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

// canTrackLocked reports whether tracking is on or may be asked for. The caller
// must hold the group's mutex and the tracker's.
func (n *node) canTrackLocked() bool {
	return n.server.Protocol == 3 && !n.group.tracker.nodes[n.index].never
}

// startTrackingLocked asks for tracking, once for each connection. The caller
// must hold the group's mutex and the tracker's.
func (n *node) startTrackingLocked() bool {
	t := n.group.tracker
	if t.nodes[n.index].asked {
		return true
	}
	q := &inquiry{
		answer:    func(_ int, v resp.Value) error { return t.started(n, v) },
		abandoned: func(*fault) {}, // lost resets asked
	}
	t.nodes[n.index].asked = n.inquireLocked(q, trackingOn)
	return t.nodes[n.index].asked
}

// started handles the answer to CLIENT TRACKING.
func (t *tracker) started(n *node, v resp.Value) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.nodes[n.index]
	switch {
	case v.IsOK():
		s.asked, s.on, s.denied = true, true, false
	case v.IsError():
		s.asked, s.never, s.denied = false, !conn.ClassOf(v).Passing(), conn.ClassOf(v) == conn.ClassNoPerm
	default:
		return fmt.Errorf("%w: type %q to CLIENT TRACKING", ErrUnexpected, v.Type())
	}
	return nil
}

// refusedLocked records an error reply to a question. If tracking is not on,
// the error says nothing new.
func (t *tracker) refusedLocked(n *node, v resp.Value) {
	if s := &t.nodes[n.index]; s.on && !conn.ClassOf(v).Passing() {
		s.never = true
	}
}

// lost forgets a connection that ended: no pushes will come over it. The caller
// must own the node.
func (t *tracker) lost(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes[n.index] = tracking{denied: t.nodes[n.index].denied}
	t.eachLocked(func(l *Lookout) {
		if !l.pending.Has(n.index) { // otherwise the lane abandons it
			l.forgetLocked(n)
			l.settleLocked()
		}
	})
}

// eachLocked calls f for every lookout.
func (t *tracker) eachLocked(f func(*Lookout)) {
	for _, l := range t.lookouts {
		for ; l != nil; l = l.next {
			f(l)
		}
	}
}

// inspectFlushes asks for tracking before the node joins, and before its first
// look.
func (n *node) inspectFlushes(ask func(command []byte, judge func(v resp.Value) error)) {
	t := n.group.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.server.Protocol == 3 && !t.nodes[n.index].denied {
		ask(trackingOn, func(v resp.Value) error { return t.started(n, v) })
	}
}

// flushed is the cause of a vote that does not count since all keys went.
var flushed = &fault{err: fmt.Errorf("%w: the server lost all its keys a moment ago", ErrQuarantined)}

// pushed handles a push. A null means that all keys went, by FLUSHALL or since
// the server became a replica. It may be a master again before the next look,
// and grant what another client holds. So its later grants do not count at
// first. They do after a look, wholly after the null, that found its seal and
// its history as they were (R23).
func (n *reader) pushed(v resp.Value) error {
	all, err := n.group.tracker.pushed(n.node, v)
	if err != nil || !all || !n.group.config.sealed() {
		return err
	}
	n.voids = math.MaxUint64
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.group.members.Flushed(n.index)
	return nil
}

// explainLocked ends the doubt that a null began; see host.Looked.
func (n *reader) explainLocked() {
	switch {
	case n.voids < math.MaxUint64:
	case n.group.members.Doubted.Has(n.index):
		n.voids = n.group.log.head
	default:
		n.voids = 0
	}
}

// pushed handles a push: changed keys, or null for FLUSHALL, a change of all. A
// push ends the connection if it is of another sort or came before the OK to
// CLIENT TRACKING (R16). So do more keys than the questions can have caused,
// and too many nulls (R32). A key without a lookout is ignored. all reports a
// null.
func (t *tracker) pushed(n *node, v resp.Value) (all bool, err error) {
	keys, ok := invalidated(v)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.nodes[n.index]
	switch {
	case !ok || !s.on:
		return false, fmt.Errorf("%w: a push", ErrUnexpected)
	case keys.IsNull():
		return true, t.flushedLocked(n)
	}
	if s.pushes -= keys.Len(); s.pushes < 0 {
		return false, fmt.Errorf("%w: more invalidations than were asked for", ErrUnexpected)
	}
	for key := range keys.Elements() {
		for l := t.lookouts[string(key.Bytes())]; l != nil; l = l.next {
			l.changedLocked(n)
		}
	}
	return false, nil
}

// flushedLocked handles the null that stands for FLUSHALL.
func (t *tracker) flushedLocked(n *node) error {
	s := &t.nodes[n.index]
	if s.flushLocked(n.group.now()) {
		return fmt.Errorf("%w: more than %d flushes in a second", ErrUnexpected, flushesPerSecond)
	}
	if !s.nothing {
		s.nothing = true
		t.eachLocked(func(l *Lookout) { l.changedLocked(n) })
	}
	return nil
}

// invalidated returns the keys of an invalidation push: an array of bulk
// strings, or null.
func invalidated(v resp.Value) (keys resp.Value, ok bool) {
	if !plain(v) || v.Len() != 2 {
		return keys, false
	}
	word := true
	for e := range v.Elements() {
		if word && !isWord(e, "invalidate") {
			return keys, false
		}
		word, keys = false, e
	}
	return keys, areKeys(keys)
}

// areKeys reports whether a value is an array of bulk strings, or null.
func areKeys(v resp.Value) bool {
	switch {
	case !plain(v):
		return false
	case v.IsNull():
		return true
	case v.Type() != resp.Array:
		return false
	}
	for key := range v.Elements() {
		if key.IsNull() || !isBulk(key) {
			return false
		}
	}
	return true
}

func isWord(v resp.Value, word string) bool { return isBulk(v) && string(v.Bytes()) == word }

func isBulk(v resp.Value) bool { return v.Type() == resp.BulkString && plain(v) }

// plain reports whether a value has no attributes: none were requested (R16).
func plain(v resp.Value) bool {
	_, has := v.Attributes()
	return !has
}
