package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
)

// waiting are the flags that say how long a lock is waited for.
type waiting struct {
	NoWait bool           `short:"n" name:"nonblock" xor:"wait" help:"Do not wait for a lock that another client holds, nor for masters that cannot be reached."`
	Wait   *time.Duration `short:"w" xor:"wait" placeholder:"DURATION" help:"Wait for that long at most, connecting included. Without -n and -w there is no end to it."`
}

// Validate refuses what cannot be meant.
func (w *waiting) Validate() error {
	if w.Wait != nil && *w.Wait < 0 {
		return errors.New("--wait is negative")
	}
	return nil
}

// without reports that a lock that another client holds is not waited for.
func (w *waiting) without() bool { return w.NoWait || w.Wait != nil && *w.Wait == 0 }

// bound is for how long a quorum of nodes is waited for: --wait where that is shorter than --timeout.
func (w *waiting) bound(d *deployment) time.Duration {
	if w.Wait != nil && *w.Wait > 0 {
		return min(*w.Wait, d.Timeout)
	}
	return d.Timeout
}

// wait tries once as soon as a quorum of nodes is there, and then waits for as long as it may. --wait bounds the whole time since
// the nodes were first asked. A signal ends it; with that error there may be a lock nevertheless, which the caller then releases.
func (w *waiting) wait(p *process, d *deployment, c *contest, get func(context.Context) error) error {
	ctx, stop := p.interruptible(context.Background())
	err := w.tries(ctx, p, d, c, get)
	stop()
	if interrupted := interrupted(ctx); interrupted != nil {
		return interrupted // also where it came too late to end the wait: it would be lost
	}
	return err
}

func (w *waiting) tries(ctx context.Context, p *process, d *deployment, c *contest, get func(context.Context) error) error {
	if w.without() {
		if err := d.readyNow(ctx, c.client); err != nil {
			return err
		}
		return c.run(ctx)
	}
	if w.Wait != nil {
		begun := d.opened
		if begun.IsZero() {
			begun = time.Now()
		}
		limited, cancel := context.WithDeadline(ctx, begun.Add(*w.Wait))
		defer cancel()
		ctx = limited
	}
	// Without a quorum that is there a wait without a bound would never tell. Later it may come and go, as masters do.
	if err := d.ready(ctx, c.client); err != nil {
		return err
	}
	err := c.try(ctx)
	if !isOneOf(err, redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrOverloaded) || ctx.Err() != nil {
		return err
	}
	looking, enough := context.WithCancel(ctx)
	var look sync.WaitGroup
	look.Go(func() { c.lookWhileWaiting(looking, p, d.Verbose) })
	later := get(ctx)
	if !errors.Is(later, context.DeadlineExceeded) {
		enough() // who holds the lock is told after a wait that has come to its end
	}
	look.Wait()
	enough()
	if cancelled := (*redlock.CancelledError)(nil); errors.As(later, &cancelled) && cancelled.Last == nil &&
		errors.Is(cancelled.Err, context.DeadlineExceeded) {
		return err // there was time for the first try only
	}
	return later
}

// A contest is for a lock that is not waited for. Several who ask at one instant, as cron has machines do, can split the votes, so
// that all of them are refused and the job runs nowhere.
type contest struct {
	client   *redlock.Client
	resource string
	try      func(context.Context) error
	// most is how long it may take, zero for contestMost: well below the time for which the first to come keeps the lock, or
	// another would have it after that.
	most time.Duration

	// found is what the nodes last said of the resource, nil if they were not
	// asked or have not answered. It is for messages, and decides nothing.
	found *redlock.Inspection
}

const contestMost = time.Second

// run tries until there is a lock or a holder. The pauses are random and grow, so that of several one comes first.
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

// decided says that a quorum of nodes names one holder, or that keys of another kind are in the way. What the nodes do not answer in time is not waited for.
func (c *contest) decided(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !c.look(ctx) {
		return false
	}
	v := judge(*c.found, nil)
	return v == verdictHeld || v == verdictForeign
}

// look asks the nodes who holds the resource, and reports that a quorum has
// answered.
func (c *contest) look(ctx context.Context) bool {
	found, err := c.client.Inspect(ctx, c.resource)
	if err != nil {
		return false
	}
	c.found = &found
	return true
}

const (
	// firstLookTakes bounds the look that --verbose reports on.
	firstLookTakes = 500 * time.Millisecond
	// lastLookMost and lastLookShare are how long before the end of a wait the
	// nodes are asked who holds the resource: the share of what is left at the
	// beginning, and not more than the most.
	lastLookMost  = 250 * time.Millisecond
	lastLookShare = 4
)

// lookWhileWaiting asks the nodes who holds the resource: for --verbose at the
// beginning of a wait, and for the message about a wait in vain shortly before
// its end. It returns when ctx ends, at the latest.
func (c *contest) lookWhileWaiting(ctx context.Context, p *process, verbose bool) {
	begun := time.Now()
	if verbose {
		limited, cancel := context.WithTimeout(ctx, firstLookTakes)
		c.look(limited)
		cancel()
		if ctx.Err() == nil {
			fmt.Fprintf(p.stderr, "redlock: waiting: %s\n", c.describe())
		}
		c.found = nil // it gets old
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

// describe says which resource it is and, if that is known, who holds it and for
// how long.
func (c *contest) describe() string {
	name := "resource " + quoted(c.resource)
	if c.found == nil {
		return name
	}
	v := judge(*c.found, nil)
	switch text := verdictText(v, *c.found, nil); v {
	case verdictHeld:
		return name + " is " + text
	case verdictFree: // released in between
		return name + " is held by another client"
	case verdictForeign:
		return name + " is held: " + text + " (see redlock status)"
	default:
		return name + " is held: " + text
	}
}

// held gives the error of a lock that was not had the exit code of who asked for it, and says which lock and how it is held. That
// is ordinary, so that --quiet leaves it out.
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
