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

// ErrNotLeader is what IsLeader says where another process leads, or none. The error says why.
var ErrNotLeader = errors.New("gocronlock: not the leader")

// An Elector is a gocron.Elector: of the processes that make one with the same name, one leads. It leads for as long as it
// holds a lock that renews itself, and as soon as that ends, by its own release, by its death or by a lack of nodes, another
// may. Its methods may be called from any goroutine.
//
// One goroutine belongs to it, which waits for the lock. Close ends it, and must be called before the client is closed.
type Elector struct {
	client   *redlock.Client
	resource string
	options  redlock.HoldOptions

	term atomic.Pointer[term]

	cancel context.CancelFunc // ends the goroutine
	wg     sync.WaitGroup
	closed sync.Once
}

// leader keeps elections apart from jobs: a job of the same name would never run.
const leader = "leader:"

// term is a leadership, or the lack of one and why.
type term struct {
	hold *redlock.Hold // nil for none
	err  error
}

// NewElector stands for election under a name, and goes on to do so until Close. It asks the nodes once, so that the first of
// several processes leads when NewElector returns; ctx bounds that only. The error is about the options, or that the client is
// closed or ctx has ended. That another leads, or that no quorum of nodes answers, is none.
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

// IsLeader is nil while this process leads, and else ErrNotLeader with the reason. It asks the local clocks and no node, and
// waits for nothing; a process that was stopped for too long learns of it here. What is begun after that has the rest of the
// lock's validity by itself: see Context.
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

// Context ends when the leadership of this moment does, as redlock.Hold.Context says; where there is none, it has ended
// already. Work that must not go on after that is done under it.
func (e *Elector) Context() context.Context {
	t := e.term.Load()
	if t.hold != nil {
		return t.hold.Context()
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("%w: %w", ErrNotLeader, t.err))
	return ended
}

// Close ends the candidacy and, if this process leads, the leadership, so that another can have it at once; jobs that run should
// be over. It waits for the nodes' answers up to the vote timeout, or until ctx ends; either way the release is on its way.
// The error is that of the release, nil where there was nothing to release. Calling it again does nothing.
func (e *Elector) Close(ctx context.Context) (err error) {
	e.closed.Do(func() {
		e.cancel()
		e.wg.Wait()
		t := e.term.Swap(&term{err: errClosed})
		if t.hold != nil && t.hold.Err() == nil {
			err = t.hold.Release(ctx)
		} else if t.hold != nil {
			_ = t.hold.Release(ctx) // it was lost before, and the caller knows
		}
	})
	return err
}

var errClosed = errors.New("the elector is closed")

// passing errors are those after which it is worth trying again.
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

// pause is between two candidacies where the client gives up early (Config.FailFast, Config.MaxTries), give or take a half, so
// that candidates do not go on splitting the votes.
const pause = 200 * time.Millisecond

// run leads, and waits for the next leadership, until ctx ends. It leaves the hold of the moment to Close.
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
			_ = hold.Release(ctx) // what is left of it on the nodes; that it is lost is known
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
