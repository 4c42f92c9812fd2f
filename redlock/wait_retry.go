package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// retryDelay returns the delay after the given number of failed attempts (R11).
// random is uniform in [0, 1).
func (config *Config) retryDelay(failed int, usual time.Duration, random float64) time.Duration {
	return pure.RetryDelay(failed, usual, config.Retry.MinDelay, config.Retry.MaxDelay, random)
}

// triesAgain reports whether Acquire retries after an error.
func (config *Config) triesAgain(err error) bool {
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrExpired), errors.Is(err, ErrOverloaded):
		return true
	case errors.Is(err, ErrNoQuorum):
		return !config.Retry.FailFast
	default:
		return false
	}
}

// sleep waits. It returns the context's error at the end of ctx, and ErrClosed
// once done is closed.
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
