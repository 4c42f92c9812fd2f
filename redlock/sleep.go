package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// sleep waits, or returns the context's error, or ErrClosed when done is closed.
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
