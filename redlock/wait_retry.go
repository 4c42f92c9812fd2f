package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// acquireByPolling is Acquire with Config.MaxTries or Config.Poll: the caller
// retries on its own, after random delays. It counts the attempts.
func (c *Client) acquireByPolling(ctx context.Context, resource string, ttl time.Duration, tries *int) (Lock, error) {
	var last error
	p := patience{begun: time.Now()}
	for try := 1; ; try++ {
		*tries = try
		lock := Lock{client: c, resource: resource, ttl: ttl}
		err := c.try(ctx, try, &lock)
		if err == nil {
			return lock, nil
		}
		if cancelled, ok := err.(*CancelledError); ok {
			cancelled.Last = last
			return Lock{}, err
		}
		if !c.triesAgain(err) || try == c.config.MaxTries {
			return Lock{}, err
		}
		if err := c.impatient(&p, err); err != nil {
			return Lock{}, err
		}
		last = err
		if err := sleep(ctx, c.retryDelay(try, time.Duration(c.quorumTime.Load()), rand.Float64()), c.over(ctx)); err != nil {
			return Lock{}, c.failed(ctx, err, last)
		}
	}
}

// retryDelay returns the delay after the given number of failed attempts (R11).
// random is uniform in [0, 1).
func (c *Client) retryDelay(failed int, usual time.Duration, random float64) time.Duration {
	return pure.RetryDelay(failed, usual, c.config.RetryDelayMin, c.config.RetryDelayMax, random)
}

// triesAgain reports whether Acquire retries after an error.
func (c *Client) triesAgain(err error) bool {
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrExpired), errors.Is(err, ErrOverloaded):
		return true
	case errors.Is(err, ErrNoQuorum):
		return !c.config.FailFast
	default:
		return false
	}
}

// sleep waits. It returns the context's error if ctx ends, or ErrClosed if done
// is closed.
func sleep(ctx context.Context, d time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(max(pure.Soon, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return ErrClosed
	}
}
