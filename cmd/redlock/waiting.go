package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// waiting has the flags that say how long to wait for a lock.
type waiting struct {
	NoWait bool           `short:"n" name:"nonblock" xor:"wait" help:"Wait neither for a lock that another client holds nor for masters that cannot be reached or do not count yet."`
	Wait   *time.Duration `short:"w" xor:"wait" placeholder:"DURATION" help:"Wait at most this long, connecting included. Without -n and -w, wait without a limit for a lock that another client holds and for masters that do not count yet, and for --timeout for a quorum to be reached."`
}

// Validate is called by package kong.
func (w *waiting) Validate() error {
	if w.Wait != nil && *w.Wait < 0 {
		return errtext.Negative("--wait", *w.Wait)
	}
	return nil
}

// without reports whether not to wait for a lock that another client holds.
func (w *waiting) without() bool { return w.NoWait || w.Wait != nil && *w.Wait == 0 }

// bound is how long to wait for a quorum of nodes: --wait if that is shorter
// than --timeout. Without a wait, nodes that hang have only a moment.
func (w *waiting) bound(d *deployment) time.Duration {
	switch {
	case w.without():
		return min(mostGlance, d.Timeout)
	case w.Wait != nil:
		return min(*w.Wait, d.Timeout)
	}
	return d.Timeout
}

// named adds to the error of a wait for nodes which flag has ended it.
func (w *waiting) named(d *deployment, err error) error {
	bound := w.bound(d)
	if exitCode(err) != exitNoQuorum || time.Since(d.begun()) < bound-bound/4 {
		return err // the nodes have ended it
	}
	switch {
	case w.Wait != nil && *w.Wait > 0 && *w.Wait < d.Timeout:
		return fmt.Errorf("%w; --wait is %v", err, bound)
	case w.without() && d.Timeout > mostGlance:
		return fmt.Errorf("%w; without a wait, %v is the most", err, bound)
	}
	return fmt.Errorf("%w; --timeout is %v", err, bound)
}

// mostGlance is long for a connection, even with TLS over a wide area, and short
// for a job that would rather not run than wait.
const mostGlance = 2 * time.Second

// wait tries once as soon as a quorum of nodes is connected, and then waits as
// long as the flags allow. --wait bounds the time since the nodes were first
// asked. A signal ends the wait; then there may be a lock despite the error,
// which the caller must release.
func (w *waiting) wait(p *process, d *deployment, c *contest, get func(context.Context) error) error {
	ctx, stop := p.interruptible(context.Background())
	err := w.tries(ctx, p, d, c, get)
	stop()
	if interrupted := interrupted(ctx); interrupted != nil {
		return interrupted // even if it came too late to end the wait: otherwise it would be lost
	}
	return err
}

func (w *waiting) tries(ctx context.Context, p *process, d *deployment, c *contest, get func(context.Context) error) error {
	if w.without() {
		if err := d.readyNow(ctx, c.client); err != nil {
			return w.named(d, err)
		}
		return c.run(ctx)
	}
	if w.Wait != nil {
		limited, cancel := context.WithDeadline(ctx, d.begun().Add(*w.Wait))
		defer cancel()
		ctx = limited
	}
	// Without a quorum, an unbounded wait would never end. Later, masters may
	// come and go.
	if err := d.readyLater(ctx, c.client); err != nil {
		return w.named(d, err)
	}
	err := c.try(ctx)
	if !isOneOf(err, redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrOverloaded) || ctx.Err() != nil {
		return err
	}
	if errors.As(err, new(*unseenError)) {
		return err // there is a lock, and it was waited for long enough
	}
	looking, enough := context.WithCancel(ctx)
	var look sync.WaitGroup
	look.Go(func() { c.lookWhileWaiting(looking, p, d.Verbose) })
	later := get(ctx)
	if !errors.Is(later, context.DeadlineExceeded) {
		enough() // the holder is only reported after a wait that timed out
	}
	look.Wait()
	enough()
	if cancelled := (*redlock.CancelledError)(nil); errors.As(later, &cancelled) && cancelled.Last == nil &&
		errors.Is(cancelled.Err, context.DeadlineExceeded) {
		return err // there was only time for the first try
	}
	return later
}

// A contest is an attempt that does not wait for a holder. Clients that ask at
// the same instant, as cron makes machines do, can split the votes, so that all
// are refused and the job runs nowhere.
type contest struct {
	client   *redlock.Client
	resource string
	try      func(context.Context) error
	// most bounds the duration, if zero by contestMost. It must be well below
	// the time for which the winner keeps the lock, or a second client would
	// get it afterwards.
	most time.Duration
	// inTheWay reports whether others than a holder are in the way. If nil,
	// none can be.
	inTheWay func(admin.Inspection) bool

	// found is what the nodes last said of the resource, nil if they were not
	// asked or have not answered. It is for messages, and decides nothing.
	found *admin.Inspection
}

const contestMost = time.Second

// run tries until there is a lock or a holder. The pauses are random and grow,
// so that one of several clients wins.
func (c *contest) run(ctx context.Context) error {
	begun := time.Now()
	most := contestMost
	if c.most > 0 {
		most = min(most, c.most)
	}
	for spread := time.Duration(2); ; spread *= 2 {
		asked := time.Now()
		err := c.try(ctx)
		if !errors.Is(err, redlock.ErrHeld) || ctx.Err() != nil {
			return err
		}
		pause := rand.N(min(spread*max(time.Since(asked), time.Millisecond/4), most))
		left := most - time.Since(begun)
		if left <= pause || c.decided(ctx, left) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(pure.Soon, pause)):
		}
	}
}

// decided reports whether a quorum of nodes names one holder or others that are
// in the way, or keys of another kind are. It ignores nodes that do not answer
// in time.
func (c *contest) decided(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !c.look(ctx) {
		return false
	}
	v := judge(*c.found, nil)
	return v == verdictHeld || v == verdictForeign || c.inTheWay != nil && c.inTheWay(*c.found)
}

// look asks the nodes for the holder of the resource, and reports whether a
// quorum has answered.
func (c *contest) look(ctx context.Context) bool {
	found, err := admin.Inspect(ctx, c.client, c.resource)
	if err != nil {
		return false
	}
	c.found = &found
	return true
}

const (
	// firstLookTakes bounds the look for --verbose.
	firstLookTakes = 500 * time.Millisecond
	// lastLookMost and lastLookShare are how long before the end of a wait the
	// nodes are asked for the holder: that share of the time that was left at
	// the beginning, at most lastLookMost.
	lastLookMost  = 250 * time.Millisecond
	lastLookShare = 4
)

// lookWhileWaiting asks the nodes for the holder: at the beginning of a wait
// for --verbose, and shortly before its end for the message about a wait in
// vain. It returns when ctx ends, at the latest.
func (c *contest) lookWhileWaiting(ctx context.Context, p *process, verbose bool) {
	begun := time.Now()
	if verbose {
		limited, cancel := context.WithTimeout(ctx, firstLookTakes)
		c.look(limited)
		cancel()
		if ctx.Err() == nil {
			p.say("waiting: %s", c.describe())
		}
		c.found = nil // it will be outdated
	}
	end, bounded := ctx.Deadline()
	if !bounded {
		return
	}
	early := min(lastLookMost, end.Sub(begun)/lastLookShare)
	if pause(ctx, time.Until(end)-early); ctx.Err() == nil {
		c.look(ctx)
	}
}

// describe names the resource and, if known, its holder and the remaining time.
func (c *contest) describe() string {
	name := "resource " + quoted(c.resource)
	if c.found == nil {
		return name
	}
	v := judge(*c.found, nil)
	switch text := verdictText(v, *c.found, nil); v {
	case verdictHeld, verdictShared:
		return name + " is " + text
	case verdictFree: // released in between
		return name + " is held by another client"
	case verdictForeign:
		return name + " is held: " + text + " (see redlock status)"
	default:
		return name + " is held: " + text
	}
}

// held replaces the error of a lock that another client holds with one that has
// the given exit code and says how it is held. That is ordinary, so quiet omits
// the text.
func (c *contest) held(err error, code int, quiet bool) error {
	switch {
	case exitCode(err) != exitHeld:
		return err
	case quiet:
		return &exitError{code: code}
	case c.found == nil:
		return &exitError{code, errors.New(c.describe() + " is held by another client")}
	default:
		return &exitError{code, errors.New(c.describe())}
	}
}
