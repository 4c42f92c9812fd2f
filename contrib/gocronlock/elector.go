package gocronlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/contrib/internal/door"
	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/election"
)

// ErrNotLeader is returned by IsLeader when this process does not lead. The
// error contains the reason why the last leadership has ended, or why this
// process stands for election no more.
var ErrNotLeader = errors.New("gocronlock: not the leader")

// An Elector is a gocron.Elector: of the processes that create one with the
// same name, one leads. It stands in a election.Election until Close, so it
// campaigns again after every loss. An Elector is safe for concurrent use.
//
// Its leaderships are terms, so the masters must be able to grant fencing
// numbers. If so many have lost their memory at a time that no quorum knows the
// numbers, no process leads, and the error of IsLeader is redlock.ErrNoFloor,
// though a Locker whose client is not fenced still works. An operator then runs
// "redlock fence reset"; a process leads soon after that, and none has to be
// started again.
//
// It starts one goroutine, which campaigns. Close ends that goroutine, and must
// be called before the client is closed.
type Elector struct {
	client   *redlock.Client
	election *election.Election

	// leading is the context of the leadership, or one that has ended with the
	// reason why there is none.
	leading atomic.Pointer[context.Context]

	cancel context.CancelFunc // ends the candidacy
	ended  chan struct{}      // closed when the goroutine has ended
	err    error              // why it has; read it after ended is closed
}

// leader separates elections from jobs: a job with the name of an election
// would never run.
const leader = "leader:"

const (
	// settleMost is the longest time for which NewElector waits for a leader.
	settleMost = time.Second
	// settleLast is what it allows to the goroutine once there is an outcome.
	settleLast = 10 * time.Millisecond
	// pause is the time between two candidacies if no quorum can be had.
	pause = time.Second
)

var (
	errNoTerm = errors.New("it was not elected yet")
	errClosed = errors.New("the elector is closed")
)

// NewElector stands for election under a name, and remains a candidate until
// Close. The client must have Config.Fenced and Config.Owner, which is how
// Leader and "redlock status gocron:leader:NAME" call this process; otherwise
// the error is election.ErrCandidate.
//
// NewElector waits until there is a leader, this process or another, so that
// not all processes leave out what is due at the start. It waits for a second
// at most, and not if no quorum answers; then there is no error. ctx bounds
// only that. The other errors are those of the options, redlock.ErrClosed,
// redlock.ErrTTL, and that of ctx.
func NewElector(ctx context.Context, client *redlock.Client, name string, options Options) (*Elector, error) {
	door.Must(ctx != nil, noContext)
	door.Must(client != nil, noClient)
	hold, err := options.hold()
	if err != nil {
		return nil, err
	}
	candidate, err := election.New(client, resource.Name(options.Prefix, leader+name), election.Options{TTL: hold.TTL})
	if err != nil {
		return nil, err
	}
	e := &Elector{client: client, election: candidate, ended: make(chan struct{})}
	e.without(errNoTerm)
	run, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	begun, stop := context.WithTimeout(ctx, settleMost)
	defer stop()
	go func() {
		defer stop() // settle then finds whether it has ended
		defer close(e.ended)
		e.run(run, stop)
	}()
	e.settle(begun)
	select {
	case <-e.ended:
		err = e.err
	default:
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		<-e.ended
		return nil, err
	}
	return e, nil
}

// settle waits for a leader, until ctx ends.
func (e *Elector) settle(ctx context.Context) {
	for l := range election.Watch(ctx, e.client, e.election.Name()) {
		if l.State != admin.StateFree {
			break
		}
	}
	select { // if it is this process, its goroutine is about to learn it
	case <-ctx.Done():
	case <-time.After(settleLast):
	}
}

// run stands for election until ctx ends or there is an error that a further
// candidacy cannot change. It calls elected in each term.
func (e *Elector) run(ctx context.Context, elected func()) {
	for {
		e.err = e.election.Run(ctx, func(ctx context.Context, _ uint64) error {
			e.leading.Store(&ctx)
			elected()
			<-ctx.Done()
			return nil
		})
		e.without(e.err)
		if ctx.Err() != nil || !errors.Is(e.err, redlock.ErrNoQuorum) {
			return
		}
		// Run gives up where waiting does not help, such as with a password
		// that is wrong. gocron would not learn that, and the password may be
		// right again tomorrow.
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// without notes why there is no leadership.
func (e *Elector) without(reason error) {
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	e.leading.Store(&ended)
}

// IsLeader returns nil while this process leads, and otherwise ErrNotLeader
// with the reason. It asks the local clocks and no node, and never waits. A
// process that was stopped for too long learns here that it no longer leads
// (R15). Work that starts after IsLeader has only the rest of the lock's
// validity; see Context.
func (e *Elector) IsLeader(context.Context) error {
	if ctx := e.Context(); ctx.Err() != nil {
		why := context.Cause(ctx)
		return errtext.Wrap(ErrNotLeader.Error()+": "+errtext.Text(why), ErrNotLeader, why)
	}
	return nil
}

// Context returns the context of the current leadership, which ends as
// election.Election.Run describes; redlock.FromContext finds its Hold, and so
// the term. Without leadership the context has already ended. Use it for work
// that must not continue after the leadership is lost. The leadership does not
// wait for that work when it ends by Close or StepDown.
func (e *Elector) Context() context.Context {
	e.made()
	return *e.leading.Load()
}

func (e *Elector) made() {
	door.Must(e != nil && e.election != nil, "gocronlock: a nil or zero Elector: NewElector makes one")
}

// Election returns the election, to step down, and for its Name, with which
// election.Leader and election.Watch tell who leads. Its Run is the Elector's.
func (e *Elector) Election() *election.Election {
	e.made()
	return e.election
}

// Close ends the candidacy and, if this process leads, releases the leadership,
// so that another process can have it at once. Running jobs should be over by
// then. Close waits for the nodes' answers up to the vote timeout, or until ctx
// ends; either way the release is on its way. It returns the error of the
// release, or nil if there was nothing to release. Further calls do nothing.
func (e *Elector) Close(ctx context.Context) error {
	e.made()
	door.Must(ctx != nil, noContext)
	err := e.election.StepDown(ctx)
	e.cancel()
	select {
	case <-e.ended:
		e.without(errClosed)
	case <-ctx.Done():
	}
	if errors.Is(err, election.ErrNotLeader) {
		return nil
	}
	return err
}
