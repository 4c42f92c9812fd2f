package fencing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redmux/redmux/contrib/internal/door"
	"github.com/redmux/redmux/redlock"
)

// Last is the highest number, 2^53 - 1: Lua, JSON and SQL all hold it exactly.
const Last = 1<<53 - 1

var (
	// ErrStale is returned when what is written to has seen a higher number:
	// another holder has the lock, or had it since. Nothing was written.
	// Repeating the write with the same number is useless.
	ErrStale = errors.New("fencing: the number is lower than one that was seen")

	// ErrNoNumber is returned when there is no fencing number, or something
	// that is none. Nothing was written.
	ErrNoNumber = errors.New("fencing: there is no fencing number")
)

// Refused reports whether err, or an error that it wraps, says that a number
// was lower than one that was seen: ErrStale, or the error by which RedisScript
// refuses, whichever client returned it.
func Refused(err error) bool {
	if err == nil {
		return false
	}
	if err == ErrStale || strings.HasPrefix(err.Error(), redisRefusal) {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return Refused(err.Unwrap())
	case interface{ Unwrap() []error }: // as Do returns, if the release failed too
		return slices.ContainsFunc(err.Unwrap(), Refused)
	}
	return false
}

// FromContext returns the number of the hold that ctx comes from: that of the
// innermost Do, DoWith or Hold.Context. It returns ErrNoNumber if ctx comes
// from none, if its client has no Config.Fenced, and for a lock of a kind that
// has no number: see redlock.Lock.Fence. A number stays what it is when the hold
// is lost: the protected resource is what decides.
func FromContext(ctx context.Context) (uint64, error) {
	door.Must(ctx != nil, "fencing: the context is nil")
	hold, ok := redlock.FromContext(ctx)
	if !ok {
		return 0, fmt.Errorf("%w: the context is not that of a hold", ErrNoNumber)
	}
	number := hold.Current().Fence()
	if number == 0 {
		return 0, fmt.Errorf("%w: the lock has none, see redlock.Config.Fenced", ErrNoNumber)
	}
	return number, nil
}

// Parse reads a number that came as text, such as REDLOCK_FENCE of redlock run:
// from 1 to Last, in digits only, without leading zeros. It returns ErrNoNumber
// for anything else, such as 0, which a client without Config.Fenced sends.
func Parse(text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 53)
	if err != nil || text[0] == '0' {
		return 0, fmt.Errorf("%w: %.20q is not one", ErrNoNumber, text)
	}
	return number, nil
}
