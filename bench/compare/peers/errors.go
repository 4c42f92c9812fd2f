package peers

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"github.com/redmux/redmux/redlock"
)

// errRefused is returned when redsync reports a failure without a reason.
var errRefused = errors.New("peers: redsync failed")

// classed wraps an error of another library so that it satisfies errors.Is for
// the sentinel of package redlock that means the same (R12). It asks for the
// particular before the general: an error of redsync joins those of all masters,
// so that a refusal may come with a timeout.
func classed(err error) error {
	var taken *redsync.ErrTaken
	var network net.Error
	var master *redsync.RedisError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redislock.ErrNotObtained) || errors.As(err, &taken):
		return fmt.Errorf("%w: %w", redlock.ErrHeld, err)
	case errors.Is(err, redislock.ErrLockNotHeld) || errors.Is(err, redsync.ErrLockAlreadyExpired):
		return fmt.Errorf("%w: %w", redlock.ErrNotHeld, err)
	case errors.Is(err, context.Canceled) || err == context.DeadlineExceeded:
		return err
	case errors.Is(err, redsync.ErrFailed) || errors.Is(err, errRefused) || errors.As(err, &master) || errors.As(err, &network):
		return fmt.Errorf("%w: %w", redlock.ErrNoQuorum, err)
	}
	return err
}
