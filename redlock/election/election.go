package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/inside"
)

// An Election chooses a leader among several processes, and is a candidate. It
// is a lock with renewal, and a function under it: at most one candidate leads
// within validity, and the context of its function ends, by the local clocks,
// before another can be elected (R13). The number of the lock is the term: see
// Run.
//
// All methods may be called from any goroutine. An Election has no goroutine of
// its own, and need not be closed; Run returns before the client is closed.
type Election struct {
	client  *redlock.Client
	inner   inside.Client
	name    string
	options Options     // with their defaults
	running atomic.Bool // Run has not returned
	term    atomic.Pointer[term]
}

// Format prints a constant, whatever the verb: the fields are secret (R27).
func (*Election) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(election)") }

// Options configure an Election. The zero value works.
type Options struct {
	// TTL is how long the others wait for a crashed leader. It is
	// HoldOptions.TTL: the leadership is renewed at a third of it, and a leader
	// without a quorum leads for no longer. If zero, the lesser of ten seconds
	// and Config.MaxTTL.
	TTL time.Duration
	// Label is HoldOptions.Label. If zero, there is none.
	Label string
	// Rest is how long the candidate waits after StepDown before it campaigns
	// again, for another one to win. If zero, the TTL.
	Rest time.Duration
	// Overstay is called for a function that runs for longer than Grace after
	// its context has ended: that of Run, or one inside its hold
	// (HoldOptions.Reentrant). After a loss, another process may lead by then;
	// otherwise this one keeps the others waiting. A process unable to stop
	// such a function should end itself here. Run does not return before
	// Overstay does. TermInfo.Until and what follows it is not known yet,
	// except for Cause. If nil, nothing is called.
	Overstay func(TermInfo)
	// Grace is the time before Overstay. If zero, one second.
	Grace time.Duration
	// TermDone is called by Run after each term and the release of its lock,
	// but not after a panic. Run waits for it. If nil, nothing is called.
	TermDone func(TermInfo)
}

// TermInfo describes one term of an elected candidate.
type TermInfo struct {
	Term  uint64    // as the function got it
	Since time.Time // when the function was called
	Until time.Time // when it returned
	// Cause is why the function's context ended before the function returned:
	// ErrLost, ErrSteppedDown, ErrClosed, or the cause of the context of Run.
	// It is nil if the function returned by itself.
	Cause error
	// Err is what the function returned.
	Err error
	// Released is the error of the release: see Hold.Release.
	Released error
}

var (
	// ErrCandidate is returned by New for a client or options unfit for an
	// election, and by Run during another call of Run; the error says why.
	// Nothing was sent.
	ErrCandidate = errors.New("redlock: cannot stand for election")
	// ErrSteppedDown is the cause of the function's context after StepDown.
	ErrSteppedDown = errors.New("redlock: the leader steps down")
	// ErrNotLeader is returned by StepDown without leadership.
	ErrNotLeader = errors.New("redlock: not the leader")
)

// New returns an election. Its name is the resource of its lock: "redlock
// status NAME" shows it, and other locks on it exclude it. New sends nothing.
// The client must have Config.Fenced, for the term, and Config.Owner, for this
// candidate's identity: otherwise the error is ErrCandidate.
// redlock.ErrResource and redlock.ErrTTL are returned as by Client.TryAcquire.
func New(client *redlock.Client, name string, options Options) (*Election, error) {
	inner := inside.Of(client)
	config := inner.Config().(redlock.Config)
	options, err := options.check(&config)
	if err == nil {
		err = inner.CheckLock(name, options.TTL)
	}
	if err != nil {
		return nil, inside.Named(name, err)
	}
	return &Election{client: client, inner: inner, name: name, options: options}, nil
}

const (
	defaultTTL   = 10 * time.Second
	defaultGrace = time.Second
	// campaignPause is the usual time between two campaigns. It varies by half:
	// candidates must not split the votes again.
	campaignPause = 200 * time.Millisecond
)

// Run makes this process a candidate, and calls lead whenever it is elected. It
// blocks until ctx ends, lead returns by itself, or there is an error beyond
// help by further campaigns. It waits as Acquire does.
//
// The context of lead ends with the leadership: by its loss (see Hold.Context),
// by StepDown, by Client.Close, or with ctx; context.Cause returns ErrLost,
// ErrSteppedDown, ErrClosed or the cause of ctx. lead must then return. The
// lock is renewed until it does, and is released only afterwards, whatever has
// become of ctx: another candidate can then lead at once. A lead that ignores
// its context therefore leads on, except after a loss: see Options.Overstay.
// With FromContext lead finds the Hold. Run releases it, and waits for
// functions inside it (HoldOptions.Reentrant) as for lead.
//
// term is the fencing number of the lock, higher than that of every leader
// before (Lock.Fence). Pass it along with what the leader writes.
//
// After a loss, and after StepDown, Run campaigns again, whatever lead has
// returned; its error then goes to Options.TermDone. It also campaigns again
// after an attempt without a quorum (Config.Retry.FailFast, Config.Retry.Tries,
// Config.MaxWait). To end Run from within lead, return before the leadership
// ends, or end ctx. Client.Drain waits for a leader, so end ctx before it.
// Client.Close does not: it ends the renewal and, with Config.ReleaseOnClose,
// releases the lock under a running lead.
//
// During another call of Run, the error is ErrCandidate. If lead returned by
// itself, Run returns its error, joined as by Do with those of the hold and its
// release. After the end of ctx, the error is a CancelledError, joined with any
// other error of lead. Further errors end Hold too: ErrClosed, also after
// Drain; ErrNested; and ErrNoQuorum if waiting cannot help (see Acquire).
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term uint64) error) error {
	e.called(ctx)
	must(lead != nil, "the function is nil")
	if !e.running.CompareAndSwap(false, true) {
		return inside.Named(e.name, fmt.Errorf("%w: this Election is a candidate already", ErrCandidate))
	}
	defer e.running.Store(false)
	patience := e.inner.Patience()
	for {
		again, err := e.campaign(ctx, &patience, lead)
		if again == never {
			return err
		}
		if err := e.inner.Sleep(ctx, again); err != nil {
			return inside.Named(e.name, err)
		}
	}
}

// Name returns the name, for Leader and Watch.
func (e *Election) Name() string {
	e.made()
	return e.name
}

// never stands for no next campaign.
const never time.Duration = -1

// check returns the options with their defaults.
func (o Options) check(client *redlock.Config) (Options, error) {
	if o.TTL == 0 {
		o.TTL = min(defaultTTL, client.MaxTTL)
	}
	o.Rest = cmp.Or(o.Rest, o.TTL)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	wrong := cmp.Or(pure.CheckLabel("the Label", o.Label), errtext.Negative("Rest", o.Rest), errtext.Negative("Grace", o.Grace))
	switch {
	case !client.Fenced:
		return o, fmt.Errorf("%w: Config.Fenced is not set, so there would be no term", ErrCandidate)
	case client.Owner == "":
		return o, fmt.Errorf("%w: Config.Owner is not set, so the candidate would have no name", ErrCandidate)
	case wrong != nil:
		return o, fmt.Errorf("%w: %w", ErrCandidate, wrong)
	}
	return o, nil
}

// campaign waits for this candidate's election, and lets it lead. It returns
// the time before the next campaign, or never and the error of Run.
func (e *Election) campaign(
	ctx context.Context, patience *func(error) error, lead func(context.Context, uint64) error,
) (again time.Duration, err error) {
	o := &e.options
	h, err := e.client.Hold(ctx, e.name, redlock.HoldOptions{TTL: o.TTL, Label: o.Label})
	if err != nil {
		if isLasting(err) {
			return never, err
		}
		if ctx.Err() != nil {
			return never, inside.Named(e.name, cancelledAfter(ctx, err))
		}
		// Where Hold makes few attempts, the campaigns are what waits (R31).
		if err := (*patience)(err); err != nil {
			return never, inside.Named(e.name, err)
		}
		return pauseOfCampaigns(), nil
	}
	if left := h.Validity(); left <= 0 || left < e.inner.Config().(redlock.Config).MinValidity {
		_ = h.Release(context.WithoutCancel(ctx)) // this goroutine was not scheduled
		return pauseOfCampaigns(), nil
	}
	t := newTerm(ctx, h, o)
	e.inner.Elected()
	e.term.Store(t)
	defer e.finish(ctx, t) // if lead panics
	t.info.Err = lead(t.run, t.info.Term)
	e.finish(ctx, t)
	*patience = e.inner.Patience()
	if o.TermDone != nil {
		o.TermDone(t.info)
	}
	return t.outcome(ctx, o)
}

// finish ends a term after the return of its function: it notes the cause, ends
// the context, waits for the functions inside the hold, and then releases the
// lock. A second call does nothing.
func (e *Election) finish(ctx context.Context, t *term) {
	if t.finished {
		return
	}
	t.finished = true
	t.info.Until, t.info.Cause = time.Now(), context.Cause(t.run)
	t.escort.returns(t.info.Cause == nil)
	t.end()
	inside.Close(t.hold)
	t.ended = t.hold.Err()
	t.escort.dismiss()
	t.info.Released = t.hold.Release(context.WithoutCancel(ctx))
	e.term.Store(nil)
	if errors.Is(t.ended, redlock.ErrLost) {
		e.inner.Deposed()
	}
	close(t.done)
	t.escort.wait()
}

// cancelledAfter returns the CancelledError for an ended context, after an
// attempt or a wait has failed with err.
func cancelledAfter(ctx context.Context, err error) error {
	if of := (*redlock.ResourceError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	// The end may be that of ctx, or of Config.MaxWait.
	if ended, ok := err.(*redlock.CancelledError); ok {
		err = ended.Last
	}
	return inside.Cancelled(ctx, err)
}

func pauseOfCampaigns() time.Duration { return campaignPause/2 + rand.N(campaignPause) }

// isLasting reports whether a further campaign would fail with this error
// again. For a missing quorum, redlock judges (R31).
func isLasting(err error) bool {
	for _, passing := range []error{redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrOverloaded, redlock.ErrMaxWait} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}

// IsLeader reports whether this Election leads: the function of Run has been
// called, and its context has not ended. It reads the local clocks, so a
// process stopped for too long learns here of the end of its leadership (R15);
// it asks no node and never waits. Work begun after it has only the rest of the
// validity: see Run for a context that ends in time.
func (e *Election) IsLeader() bool {
	e.made()
	t := e.term.Load()
	return t != nil && t.run.Err() == nil
}

// StepDown ends the leadership: the function's context ends with the cause
// ErrSteppedDown, and the lock is released after the function's return. The
// candidate campaigns again after Options.Rest; to retire it for good, end the
// context of Run.
//
// StepDown waits for the release of the lock, and returns its error: nil if
// another candidate can lead now, and otherwise as Hold.Release. If ctx ends
// first, the error is a CancelledError, and the leadership ends all the same.
// With the function's context, or one derived from it, StepDown does not wait,
// and returns nil. Without leadership the error is ErrNotLeader.
func (e *Election) StepDown(ctx context.Context) error {
	e.called(ctx)
	t := e.term.Load()
	if t == nil {
		return inside.Named(e.name, ErrNotLeader)
	}
	t.rests.Store(true)
	t.cancel(ErrSteppedDown)
	if e.inner.Under(ctx, t.hold) {
		return nil
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		select {
		case <-t.done: // the outcome is known, so it is returned
		default:
			return inside.Named(e.name, inside.Cancelled(ctx, nil))
		}
	}
	return t.info.Released
}

// made and called are the doors of methods: see client.go of package redlock.
func (e *Election) made() { must(e != nil && e.client != nil, "a nil or zero Election: New makes one") }

func (e *Election) called(ctx context.Context) {
	e.made()
	e.inner.Called(ctx)
}

// must panics with a text unless ok.
func must(ok bool, text string) {
	if !ok {
		panic("election: " + text)
	}
}

// A term is the leadership of an elected candidate, with the release at its
// end.
type term struct {
	hold   *redlock.Hold
	run    context.Context // of the function
	cancel context.CancelCauseFunc
	end    func() // of run
	escort *escort
	rests  atomic.Bool   // StepDown was called
	done   chan struct{} // closed when the lock is released

	// The following are owned by Run until done is closed.
	info     TermInfo
	ended    error // why the hold had ended before the release; nil if it had not
	finished bool
}

func newTerm(ctx context.Context, h *redlock.Hold, o *Options) *term {
	parent, cancel := context.WithCancelCause(ctx)
	run, end := inside.During(parent, h)
	info := TermInfo{Term: h.Current().Fence(), Since: time.Now()}
	return &term{
		hold: h, run: run, cancel: cancel, info: info, escort: newEscort(run, info, o), done: make(chan struct{}),
		end: func() {
			end()
			cancel(nil)
		},
	}
}

// An escort calls Overstay for a function that runs for longer than Grace after
// its context has ended. It has a goroutine from then on. A nil escort does
// nothing.
type escort struct {
	stop            func() bool
	byItself        atomic.Bool // the function returned before its context ended
	returned, ended chan struct{}
}

func newEscort(run context.Context, info TermInfo, o *Options) *escort {
	if o.Overstay == nil {
		return nil
	}
	e := &escort{returned: make(chan struct{}), ended: make(chan struct{})}
	e.stop = context.AfterFunc(run, func() {
		defer close(e.ended)
		timer := time.NewTimer(max(pure.Soon, o.Grace))
		defer timer.Stop()
		select {
		case <-e.returned:
		case <-timer.C:
			if !e.byItself.Load() {
				info.Cause = context.Cause(run)
			}
			o.Overstay(info)
		}
	})
	return e
}

// returns tells of the return of Run's function; others may still be inside its
// hold.
func (e *escort) returns(byItself bool) {
	if e != nil {
		e.byItself.Store(byItself)
	}
}

// dismiss tells of the return of all functions.
func (e *escort) dismiss() {
	if e == nil {
		return
	}
	close(e.returned)
	if e.stop() {
		close(e.ended)
	}
}

// wait blocks until no call of Overstay is under way. It follows dismiss.
func (e *escort) wait() {
	if e != nil {
		<-e.ended
	}
}

// outcome returns what campaign does after a term.
func (t *term) outcome(ctx context.Context, o *Options) (again time.Duration, err error) {
	own, cause, released := t.info.Err, t.info.Cause, t.info.Released
	if cause == nil {
		return never, inside.Joined(t.hold.Resource(), own, t.ended, released)
	}
	if own == t.run.Err() {
		own = nil // it says only that the context has ended
	}
	// The cause of ctx may be any error, also one of ours from elsewhere.
	if errors.Is(t.ended, redlock.ErrLost) {
		released = nil // it adds nothing
	}
	switch {
	case errors.Is(cause, redlock.ErrClosed) && errors.Is(t.ended, redlock.ErrClosed):
		return never, inside.Joined(t.hold.Resource(), own, cause, nil)
	case ctx.Err() != nil:
		cancelled := inside.Cancelled(ctx, nil)
		if errors.Is(cancelled, own) {
			own = nil
		}
		return never, inside.Joined(t.hold.Resource(), own, cancelled, released)
	case t.rests.Load():
		return o.Rest, nil
	}
	return pauseOfCampaigns(), nil
}
