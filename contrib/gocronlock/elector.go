package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/redlock"
)

// ErrNotLeader is returned by IsLeader when this process does not lead. The
// error contains the reason.
var ErrNotLeader = errors.New("gocronlock: not the leader")

// An Elector is a gocron.Elector: of the processes that create one with the
// same name, one leads. It leads for as long as it holds a lock that renews
// itself. When that lock ends, by its release, by the death of the process or
// for lack of nodes, another process can lead. An Elector is safe for
// concurrent use.
//
// It starts one goroutine, which waits for the lock. Close ends that goroutine,
// and must be called before the client is closed.
type Elector struct {
	client   *redlock.Client
	resource string
	options  redlock.HoldOptions

	term atomic.Pointer[term]

	cancel context.CancelFunc // ends the goroutine
	wg     sync.WaitGroup
	closed sync.Once
}

// leader separates elections from jobs: a job with the name of an election
// would never run.
const leader = "leader:"

// term is a period of leadership, or the reason why there is none.
type term struct {
	hold *redlock.Hold // nil without leadership
	err  error
}

// NewElector stands for election under a name, and remains a candidate until
// Close. It asks the nodes once, so the first of several processes leads when
// NewElector returns; ctx bounds only that request. NewElector returns an error
// if the options are invalid, the client is closed or ctx has ended. It returns
// none if another process leads or no quorum of nodes answers.
func NewElector(ctx context.Context, client *redlock.Client, name string, options Options) (*Elector, error) {
	hold, err := options.hold()
	if err != nil {
		return nil, err
	}
	hold.MinHold = 0
	e := &Elector{client: client, resource: resource.Name(options.Prefix, leader+name), options: hold}
	first, err := client.TryHold(ctx, e.resource, e.options)
	if err != nil && !passing(err) {
		return nil, err
	}
	e.term.Store(&term{first, err})
	run, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.wg.Go(func() { e.run(run, first) })
	return e, nil
}

// IsLeader returns nil while this process leads, and otherwise ErrNotLeader
// with the reason. It asks the local clocks and no node, and never waits. A
// process that was stopped for too long learns here that it no longer leads.
// Work that starts after IsLeader has only the rest of the lock's validity; see
// Context.
func (e *Elector) IsLeader(context.Context) error {
	t := e.term.Load()
	switch {
	case t.hold == nil:
		return fmt.Errorf("%w: %w", ErrNotLeader, t.err)
	case t.hold.Err() != nil:
		return fmt.Errorf("%w: %w", ErrNotLeader, t.hold.Err())
	}
	return nil
}

// Context returns a context that ends with the current leadership, as
// redlock.Hold.Context describes. Without leadership the context has already
// ended. Use it for work that must not continue after the leadership is lost.
func (e *Elector) Context() context.Context {
	t := e.term.Load()
	if t.hold != nil {
		return t.hold.Context()
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("%w: %w", ErrNotLeader, t.err))
	return ended
}

// Close ends the candidacy and, if this process leads, releases the leadership,
// so that another process can have it at once. Running jobs should be over by
// then. Close waits for the nodes' answers up to the vote timeout, or until ctx
// ends; either way the release is on its way. It returns the error of the
// release, or nil if there was nothing to release. Further calls do nothing.
func (e *Elector) Close(ctx context.Context) (err error) {
	e.closed.Do(func() {
		e.cancel()
		e.wg.Wait()
		t := e.term.Swap(&term{err: errClosed})
		if t.hold != nil && t.hold.Err() == nil {
			err = t.hold.Release(ctx)
		} else if t.hold != nil {
			_ = t.hold.Release(ctx) // it was lost before, as the caller knows
		}
	})
	return err
}

var errClosed = errors.New("the elector is closed")

// passing reports whether it is worth trying again after an error.
func passing(err error) bool {
	var cancelled *redlock.CancelledError
	if errors.As(err, &cancelled) {
		return false
	}
	for _, e := range []error{redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrOverloaded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause is the time between two attempts of a client that gives up early
// (Config.FailFast, Config.MaxTries). It varies by half, so that candidates do
// not split the votes again and again.
const pause = 200 * time.Millisecond

// run leads, or waits for the next leadership, until ctx ends. It leaves the
// current hold to Close.
func (e *Elector) run(ctx context.Context, hold *redlock.Hold) {
	for {
		if hold != nil {
			select {
			case <-ctx.Done():
				return
			case <-hold.Context().Done():
			}
			lost := hold.Err()
			e.term.Store(&term{err: lost})
			_ = hold.Release(ctx) // deletes what is left on the nodes; the loss is already known
		}
		var err error
		hold, err = e.client.Hold(ctx, e.resource, e.options)
		if err == nil {
			e.term.Store(&term{hold: hold})
			continue
		}
		e.term.Store(&term{err: err})
		if !passing(err) {
			return // ctx has ended, or the client is closed
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}
