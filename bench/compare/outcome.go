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

// Unwrap has errors.Is find what the peer returned.
func (e *acquireError) Unwrap() error { return e.error }

// Unwrap has errors.Is find what the peer returned.
func (e *releaseError) Unwrap() error { return e.error }

// Kind is a short name for what went wrong, the same for all peers where they mean the same, so that errors can be
// counted. It shows no address and no key.
func Kind(err error) string {
	half := "acquire"
	if released := (*releaseError)(nil); errors.As(err, &released) {
		half = "release"
	}
	return half + ": " + cause(err)
}

// cause asks for the particular before the general: an error of redsync joins what each master said, so that one that is
// held may also have timed out somewhere.
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
	case is(redsync.ErrFailed, errUnlock) || errors.As(err, &master):
		return "no quorum"
	}
	return fmt.Sprintf("%T", innermost(err))
}

// innermost is the error that began it; its type is all that may be shown of what nobody knows.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
