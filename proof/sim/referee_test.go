package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
)

// A referee knows who holds which lock, on the simulated clock, which all
// clients share.
type referee struct {
	world *world

	mu      sync.Mutex           // guards the following
	held    map[string][]*tenure // by resource
	numbers map[string][]numbered
}

// A tenure is a held lock, from the return of the call until the lock is given
// up. A lock that was dropped, or whose process crashed, is held until its
// validity ends.
type tenure struct {
	of       *worker
	resource string
	since    time.Time // not after the start of the granted attempt
	at       time.Time // when the call returned
	lock     redlock.Lock
	ttl      time.Duration   // of the lock, or of its last extension; 0 if it is not known
	hold     *redlock.Hold   // of a lock that renews itself
	context  context.Context // of a lock whose holder has only the context (Do)

	// Of locks of a Locker.
	room    int     // how many holders there may be with this one; 0 for other locks
	unkeyed bool    // it has no key with its token
	under   *tenure // of an upgrade: the reader
}

// isHeld asks what the holder would ask.
func (t *tenure) isHeld(now time.Time) bool {
	switch {
	case t.context != nil:
		return t.context.Err() == nil
	case t.hold != nil:
		return t.hold.Err() == nil
	default:
		return t.lock.Until().After(now)
	}
}

// until returns the end of the validity, as far as it is known now.
func (t *tenure) until() time.Time {
	if t.hold != nil {
		return t.hold.Until()
	}
	return t.lock.Until()
}

// granted starts a tenure.
func (r *referee) granted(k *worker, resource string, start time.Time, ttl time.Duration, lock redlock.Lock, h *redlock.Hold) *tenure {
	r.world.count("grants", 1)
	if !k.process.handsOver {
		r.world.tokens.granted(lock.Token())
	}
	t := &tenure{of: k, resource: resource, since: start, ttl: ttl, lock: lock, hold: h}
	if k.process.handsOver {
		t.ttl = 0 // it may be that of the lock's former holder
	}
	r.ordered(k, resource, start, lock.Fence())
	r.begin(t)
	return t
}

// began is granted for a lock of which only the context is known.
func (r *referee) began(k *worker, resource string, ctx context.Context) *tenure {
	r.world.count("grants", 1)
	t := &tenure{of: k, resource: resource, since: time.Now(), context: ctx}
	r.begin(t)
	return t
}

func (r *referee) begin(t *tenure) {
	r.world.counted(t.of.process)
	r.mu.Lock()
	defer r.mu.Unlock()
	t.at = time.Now()
	r.held[t.resource] = append(r.held[t.resource], t)
	r.judge(t.resource)
}

// extended replaces the lock of a tenure by the longer one.
func (r *referee) extended(t *tenure, ttl time.Duration, longer redlock.Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.ttl > 0 && longer.Until().After(t.lock.Until()) {
		t.ttl = ttl
	}
	t.lock = longer
	r.judge(t.resource)
}

// gaveUp is called before the release: from then on others may hold the lock.
func (r *referee) gaveUp(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.held[t.resource]
	for i, other := range all {
		if other == t {
			r.held[t.resource] = append(all[:i:i], all[i+1:]...)
			return
		}
	}
}

// look checks all resources. It must run repeatedly, since holds renew
// themselves silently.
func (r *referee) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for resource := range r.held {
		r.judge(resource)
	}
}

// judge checks the one property that matters: one holder at a time within
// validity. The caller must hold the lock.
func (r *referee) judge(resource string) {
	now := time.Now()
	var holders []*tenure
	for _, b := range r.held[resource] {
		if !b.isHeld(now) {
			continue
		}
		r.judgeKeys(b, now)
		for _, a := range holders {
			if b.room == 0 && r.world.excludes(a, b) {
				r.world.violate("exclusion", "%s: held by %s, until %v from now, and by %s, until %v from now", resource,
					a.of.process.name, a.left(now), b.of.process.name, b.left(now))
			}
		}
		holders = append(holders, b)
		if b.room > 0 && crowded(holders) {
			r.world.violate("exclusion", "%s: %s is one of %d holders", resource, b.of.process.name, len(holders))
		}
	}
	// A lost lock is not held again.
	r.held[resource] = holders
}

// judgeKeys checks what a validity is based on: a quorum of masters has the key
// for at least as long, except those that have forgotten it since (R4). A
// hold's end must not be in the past.
func (r *referee) judgeKeys(t *tenure, now time.Time) {
	if t.context != nil {
		return
	}
	w, until := r.world, t.until()
	if t.hold != nil && !until.After(now) && t.hold.Err() == nil {
		w.violate("R13", "%s: a hold of %s goes on %v after its validity", t.resource, t.of.process.name, now.Sub(until))
	}
	if t.of.process.handsOver || t.unkeyed {
		return
	}
	token := t.lock.Token()
	key, covered := w.draw.prefix+t.resource, 0
	for _, m := range t.of.process.masters {
		end, ok := m.holdsUntil(key, string(token[:]))
		if ok && !end.Before(until) || m.forgotSince(t.since) {
			covered++
		}
	}
	if covered < w.draw.quorum() {
		w.violate("R4", "%s: %s holds it for another %v, and only %d of %d masters have the key for so long",
			t.resource, t.of.process.name, until.Sub(now), covered, w.draw.nodes)
	}
}

// left is for messages only.
func (t *tenure) left(now time.Time) any {
	if t.context != nil {
		return "its context ends"
	}
	return t.until().Sub(now)
}

// watchEnd checks how a hold's context ends: by the local clock, no later than
// the validity, with a known cause (R13).
func (t *tenure) watchEnd(h *redlock.Hold, o redlock.HoldOptions, granted time.Time) {
	w := t.of.process.world
	context.AfterFunc(h.Context(), func() {
		now, cause := time.Now(), context.Cause(h.Context())
		var lost *redlock.LostError
		switch {
		case now.After(h.Until()):
			w.violate("R13", "%s: a hold's context ended %v after its validity: %v", t.resource, now.Sub(h.Until()), cause)
		case o.MaxHold > 0 && now.After(granted.Add(o.MaxHold)):
			w.violate("R13", "%s: a hold's context ended %v after MaxHold: %v", t.resource, now.Sub(granted.Add(o.MaxHold)), cause)
		case errors.As(cause, &lost) && lost.NotHeld && h.Until().After(now) && !w.draw.forgets():
			w.violate("R13", "%s: a hold is lost %v before its validity ends: %v", t.resource, h.Until().Sub(now), cause)
		case !isOneOf(cause, []error{redlock.ErrReleased, redlock.ErrMaxHold, redlock.ErrClosed, redlock.ErrLost}):
			w.violate("R13", "%s: a hold's context ended, without a cause: %v", t.resource, cause)
		}
	})
}
