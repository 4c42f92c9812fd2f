package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
)

// waiting are the flags that say how long a lock is waited for.
type waiting struct {
	NoWait bool           `short:"n" name:"nonblock" xor:"wait" help:"Do not wait for a lock that somebody else holds."`
	Wait   *time.Duration `short:"w" xor:"wait" placeholder:"DURATION" help:"Wait for that long at most. Without -n and -w there is no end to it."`
}

// Validate refuses what cannot be meant.
func (w *waiting) Validate() error {
	if w.Wait != nil && *w.Wait < 0 {
		return errors.New("--wait is negative")
	}
	return nil
}

// wait tries once as soon as a quorum of nodes is there, and then waits for as long as it may. The time that may be waited
// counts from the first whole try, so that a short one is told that somebody holds the lock, and not that there was no time
// to ask. A signal ends it; with that error there may be a lock nevertheless, which the caller then releases.
func (w *waiting) wait(p *process, d *deployment, c *contest, get func(context.Context) error) error {
	ctx, stop := p.interruptible(context.Background())
	err := w.tries(ctx, d, c, get)
	stop()
	if interrupted := (*errInterrupted)(nil); err == nil && errors.As(context.Cause(ctx), &interrupted) {
		return interrupted // it came too late to end the wait, and would be lost
	}
	return err
}

func (w *waiting) tries(ctx context.Context, d *deployment, c *contest, get func(context.Context) error) error {
	// Without a quorum that is there a wait without a bound would never tell. Later it may come and go, as masters do.
	if err := d.ready(ctx, c.client); err != nil {
		return err
	}
	if w.NoWait || w.Wait != nil && *w.Wait == 0 {
		return c.run(ctx)
	}
	err := c.try(ctx)
	if !isOneOf(err, redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrOverloaded) {
		return err
	}
	if w.Wait != nil {
		limited, cancel := context.WithTimeout(ctx, *w.Wait)
		defer cancel()
		ctx = limited
	}
	later := get(ctx)
	if cancelled := (*redlock.CancelledError)(nil); errors.As(later, &cancelled) && cancelled.Last == nil &&
		errors.Is(cancelled.Context, context.DeadlineExceeded) {
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

// decided says that a quorum of nodes names one holder. What the nodes do not answer in time is not waited for.
func (c *contest) decided(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, _ := c.client.Inspect(ctx, c.resource)
	return found.State == redlock.StateHeld
}

// held gives the error of a lock that was not had the exit code of who asked for it, and takes its word if that is wanted: that
// somebody else holds a lock is ordinary.
func held(err error, code int, quiet bool) error {
	switch {
	case exitCode(err) != exitHeld:
		return err
	case quiet:
		return &exitError{code: code}
	default:
		return &exitError{code, redlock.ErrHeld}
	}
}
