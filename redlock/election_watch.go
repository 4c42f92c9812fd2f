package redlock

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A Leadership is what the nodes answered about an election. It proves nothing:
// it may be outdated when it is read. A leader proves its leadership to what it
// writes to by the term.
type Leadership struct {
	// State is StateHeld if there is a leader, StateFree if there is none, and
	// StateUnclear if a quorum says neither; see LockState.
	State LockState
	// Leader is the identity of the leader, its Config.Owner.
	Leader string
	// Holder tells apart the terms of one leader, and leaders with the same
	// identity: the fingerprint of the token, as in Inspection.
	Holder string
	// Term is the term of the leader, if the client has Config.Fenced;
	// otherwise 0.
	Term uint64
	// Err is why too few nodes answered, in StateUnclear; nil if enough did.
	Err error
}

// same reports whether two answers say the same of the leader.
func (l *Leadership) same(other *Leadership) bool {
	return l.State == other.State && l.Leader == other.Leader && l.Holder == other.Holder && l.Term == other.Term
}

// Leader asks the nodes who leads, as Client.Inspect does, with its errors. The
// client need not be a candidate, and needs neither Config.Fenced nor
// Config.Owner. With an error, the Leadership is unclear, and has the error.
func (e *Election) Leader(ctx context.Context) (Leadership, error) {
	e.made()
	found, err := e.client.inspect(ctx, e.name, false)
	if err != nil {
		return Leadership{State: StateUnclear, Err: err}, err
	}
	return Leadership{State: found.State, Leader: found.Owner, Holder: found.Holder, Term: found.Fence}, nil
}

// Watch returns the leadership as it is now, and then whenever it has changed,
// until ctx ends or the client is closed. That there is no leader, and that it
// is unclear who leads, is a change like any other. A loop body that takes long
// misses what came and went meanwhile, and gets the latest next; nothing is
// kept for it. If the name is no resource, there is one Leadership, with
// ErrResource.
//
// Watch asks the nodes again when they push that the lock's key has changed,
// which each renewal does, and otherwise every half to whole second, without a
// leader at first more often. It costs a lookout and a timer, and no goroutine.
// It adds about what Leader takes to the news, and at most that second.
func (e *Election) Watch(ctx context.Context) iter.Seq[Leadership] {
	e.made()
	e.client.called(ctx)
	return func(yield func(Leadership) bool) {
		w := watch{election: e, lookout: e.client.group.Lookout([]byte(e.client.config.Prefix + e.name))}
		defer w.stop()
		for last := (Leadership{}); ; {
			now, ok := w.look(ctx)
			if !ok {
				return
			}
			if !now.same(&last) {
				if w.quiet = 0; !yield(now) || errors.Is(now.Err, ErrResource) {
					return
				}
				last = now
			}
			if !w.wait(ctx, now.State) {
				return
			}
		}
	}
}

// A watch is what one loop over Election.Watch needs.
type watch struct {
	election *Election
	lookout  *multiplex.Lookout // nil if the client has too many
	asked    time.Time          // when the last look began
	quiet    int                // waits since the last change
}

func (w *watch) stop() {
	if w.lookout != nil {
		w.lookout.Stop()
	}
}

// look asks the nodes. It returns false if ctx has ended or the client is
// closed.
func (w *watch) look(ctx context.Context) (Leadership, bool) {
	w.asked = time.Now()
	if w.lookout != nil {
		w.lookout.Ask() // before the question, so that no change falls between
	}
	now, err := w.election.Leader(ctx)
	return now, ctx.Err() == nil && !errors.Is(err, ErrClosed)
}

// wait waits for a push or until it is time to look again. It returns false if
// ctx has ended or the client is closed.
func (w *watch) wait(ctx context.Context, state LockState) bool {
	var pushed <-chan struct{}
	limit := fallback()
	if state != StateHeld {
		// The lookout tells when a key goes, and not when one comes.
		limit = min(limit, pushedPauseMost<<min(w.quiet, 6)+rand.N(pushedPauseMost))
	} else if w.lookout != nil {
		pushed = w.lookout.Signal()
	}
	w.quiet++
	timer := time.NewTimer(max(pure.Soon, limit))
	defer timer.Stop()
	select {
	case <-pushed:
		// Pushes must not make it ask without a pause.
		return sleep(ctx, time.Until(w.asked.Add(pushedPauseMost)), w.election.client.group.Done()) == nil
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-w.election.client.group.Done():
		return false
	}
}
