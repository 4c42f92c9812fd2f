package election

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/internal/inside"
)

// A Leadership is what the nodes answered about an election. It proves nothing,
// and may be outdated. A leader proves its leadership to what it writes to by
// the term.
type Leadership struct {
	// State is admin.StateHeld with a leader, StateFree without one, and
	// StateUnclear without the word of a quorum; see admin.LockState.
	State admin.LockState
	// Leader is the identity of the leader, its redlock.Config.Owner.
	Leader string
	// Holder tells apart the terms of one leader, and leaders with the same
	// identity: the fingerprint of the token, as in Inspection.
	Holder string
	// Term is the term of the leader, for a client with Config.Fenced;
	// otherwise 0.
	Term uint64
	// Err is why too few nodes answered, in StateUnclear; otherwise nil.
	Err error
}

// same reports whether two answers say the same of the leader.
func (l *Leadership) same(other *Leadership) bool {
	return l.State == other.State && l.Leader == other.Leader && l.Holder == other.Holder && l.Term == other.Term
}

// Leader asks the nodes who leads the election with a name, as
// admin.InspectHolder does, with its errors. The client need not be a
// candidate, and needs neither Config.Fenced nor Config.Owner. With an error,
// the Leadership is unclear, and has the error.
func Leader(ctx context.Context, client *redlock.Client, name string) (Leadership, error) {
	found, err := admin.InspectHolder(ctx, client, name)
	if err != nil {
		return Leadership{State: admin.StateUnclear, Err: err}, err
	}
	return Leadership{State: found.State, Leader: found.Owner, Holder: found.Holder, Term: found.Fence}, nil
}

// Watch returns the leadership now, and after each change, until ctx ends or
// the client is closed. The loss of a leader, and doubt about it, is a change
// like any other. A long loop body misses what came and went meanwhile, and
// gets the latest next; nothing is kept for it. For a name that is no resource,
// there is one Leadership, with redlock.ErrResource.
//
// Watch asks the nodes again after each push about the lock's key, and so after
// each renewal. Otherwise it asks every half to whole second, without a leader
// at first more often. It costs a lookout and a timer, and no goroutine. It
// adds about what Leader takes to the news, and at most that second.
func Watch(ctx context.Context, client *redlock.Client, name string) iter.Seq[Leadership] {
	inner := inside.Of(client)
	inner.Called(ctx)
	return func(yield func(Leadership) bool) {
		group := inner.Group()
		w := watch{client: client, name: name, done: group.Done(), lookout: group.Lookout([]byte(inner.Config().(redlock.Config).Prefix + name))}
		defer w.stop()
		for last := (Leadership{}); ; {
			now, ok := w.look(ctx)
			if !ok {
				return
			}
			if !now.same(&last) {
				if w.quiet = 0; !yield(now) || errors.Is(now.Err, redlock.ErrResource) {
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

const (
	// most bounds the time between two looks without a push; half of it is
	// random.
	most = time.Second
	// least is the pause after a look. So pushes without a reason cause at most
	// fifty questions a second.
	least = 20 * time.Millisecond
)

// A watch is what one loop over Watch needs.
type watch struct {
	client  *redlock.Client
	name    string
	done    <-chan struct{}    // of the client
	lookout *multiplex.Lookout // nil if the client has too many
	asked   time.Time          // when the last look began
	quiet   int                // waits since the last change
}

func (w *watch) stop() {
	if w.lookout != nil {
		w.lookout.Stop()
	}
}

// look asks the nodes. It returns false after the end of ctx or of the client.
func (w *watch) look(ctx context.Context) (Leadership, bool) {
	w.asked = time.Now()
	if w.lookout != nil {
		w.lookout.Ask() // before the question, so that no change falls between
	}
	now, err := Leader(ctx, w.client, w.name)
	return now, ctx.Err() == nil && !errors.Is(err, redlock.ErrClosed)
}

// wait waits for a push or the time of the next look. It returns false after
// the end of ctx or of the client.
func (w *watch) wait(ctx context.Context, state admin.LockState) bool {
	var pushed <-chan struct{}
	limit := most/2 + rand.N(most/2)
	if state != admin.StateHeld {
		// The lookout tells of a key that goes, not of one that comes.
		limit = min(limit, least<<min(w.quiet, 6)+rand.N(least))
	} else if w.lookout != nil {
		pushed = w.lookout.Signal()
	}
	w.quiet++
	early, ok := w.pause(ctx, limit, pushed)
	if early {
		// Pushes must not make it ask without a pause.
		_, ok = w.pause(ctx, time.Until(w.asked.Add(least)), nil)
	}
	return ok
}

// pause waits for a time or a push, and reports a push as early. ok is false
// after the end of ctx or of the client.
func (w *watch) pause(ctx context.Context, d time.Duration, pushed <-chan struct{}) (early, ok bool) {
	timer := time.NewTimer(max(pure.Soon, d))
	defer timer.Stop()
	select {
	case <-pushed:
		return true, true
	case <-timer.C:
		return false, true
	case <-ctx.Done():
		return false, false
	case <-w.done:
		return false, false
	}
}
