// Package lost releases the holds of adapters that pass their jobs no context:
// so that a lock that was lost does not look like a request that was cancelled,
// or like a lock that was never held.
package lost

import (
	"context"
	"errors"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// Release releases a hold, even if ctx has ended. If the lock was lost before,
// the error is redlock.ErrLost and says why; the release's error, which would
// name the same nodes again, is in its chain only.
func Release(ctx context.Context, hold *redlock.Hold) error {
	cause := hold.Err()
	err := hold.Release(context.WithoutCancel(ctx))
	switch {
	case !errors.Is(cause, redlock.ErrLost):
		return err
	case err == nil:
		return cause
	}
	return errtext.Wrap(cause.Error(), cause, err)
}
