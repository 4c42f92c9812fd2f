package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"github.com/redmux/redmux/redlock"
)

// acquireError and releaseError say which half of a pair failed.
type (
	acquireError struct{ error }
	releaseError struct{ error }
)

// Unwrap returns the peer's error.
func (e *acquireError) Unwrap() error { return e.error }

// Unwrap returns the peer's error.
func (e *releaseError) Unwrap() error { return e.error }

// Kind returns a short name of what went wrong, so that errors can be counted.
// It is the same for all peers that mean the same, and shows no address and no
// key.
func Kind(err error) string {
	half := "acquire"
	if released := (*releaseError)(nil); errors.As(err, &released) {
		half = "release"
	}
	return half + ": " + cause(err)
}

// cause asks for the particular before the general: an error of redsync joins
// those of all masters, so that "held" may come with a timeout.
func cause(err error) string {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	var taken *redsync.ErrTaken
	var network net.Error
	var master *redsync.RedisError
	switch {
	case is(redlock.ErrHeld, redislock.ErrNotObtained) || errors.As(err, &taken):
		return "held"
	case is(redlock.ErrNotHeld, redislock.ErrLockNotHeld, redsync.ErrLockAlreadyExpired):
		return "not held"
	case is(redlock.ErrExpired):
		return "expired"
	case is(redlock.ErrOverloaded):
		return "overloaded"
	case is(redlock.ErrNoQuorum):
		return "no quorum"
	case is(context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout():
		return "timeout"
	case is(io.EOF) || errors.As(err, &network):
		return "network"
	case is(redsync.ErrFailed, errRefused) || errors.As(err, &master):
		return "no quorum"
	}
	return fmt.Sprintf("%T", innermost(err))
}

// innermost returns the first cause of an error. Of an unknown one, only its
// type may be shown.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
