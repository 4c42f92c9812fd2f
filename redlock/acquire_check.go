package redlock

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// checkLock truncates the TTL to whole milliseconds, and refuses an unusable
// lock or TTL.
func (config *Config) checkLock(k kind.Kind, name string, ttl time.Duration) (time.Duration, error) {
	if resource, problem := k.Check(name); problem != "" {
		return 0, named(cmp.Or(resource, name), errtext.Wrap("redlock: "+problem, ErrResource))
	}
	if several := k.Several(); several != nil {
		for _, resource := range several {
			if err := config.checkLockable(resource); err != nil {
				return 0, named(resource, err)
			}
		}
		return config.checkTTL(ttl)
	}
	if err := config.checkLockable(name); err != nil {
		return 0, err
	}
	return config.checkTTL(ttl)
}

// checkLockable refuses what cannot be locked, for a client with fencing
// numbers also the names of their keys.
func (config *Config) checkLockable(resource string) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if resource == wire.SealName || resource == wire.OpeningName || resource == wire.RecordName {
		return errtext.Wrap("redlock: the name is not for use as a resource: clients keep their seal there", ErrResource)
	}
	if strings.Contains(resource, wire.Reserved) {
		return errtext.Wrap(`redlock: a resource must not contain "`+wire.Reserved+`": readers, writers, permits and queues have keys with it`, ErrResource)
	}
	if config.Fenced && strings.HasSuffix(resource, wire.FenceSuffix) {
		return errtext.Wrap("redlock: a resource must not end in "+wire.FenceSuffix+": fencing numbers are kept there", ErrResource)
	}
	return nil
}

func checkResource(resource string) error {
	if n := len(resource); n < 1 || n > maxResource {
		return errtext.Wrap(fmt.Sprintf("redlock: a resource of %d bytes: it must have 1 to %d", n, maxResource), ErrResource)
	}
	return nil
}

const maxResource = 1024

// checkTTL also refuses a TTL longer than the quarantine of a node that forgot
// the lock (R23).
func (config *Config) checkTTL(given time.Duration) (time.Duration, error) {
	ttl := pure.WholeMilliseconds(given)
	switch {
	case ttl < time.Millisecond:
		return 0, ttlError(given, "it must be at least 1ms")
	case ttl > pure.LongestTTL:
		return 0, ttlError(given, fmt.Sprint("it must be at most ", pure.LongestTTL))
	case config.MaxTTL > 0 && ttl > config.MaxTTL:
		return 0, ttlError(given, fmt.Sprint("Config.MaxTTL is ", config.MaxTTL, "; a longer one must be set on all clients"))
	}
	return ttl, nil
}

// tooShort returns the error for a TTL that leaves too little after the drift.
func (config *Config) tooShort(ttl time.Duration) error {
	return ttlError(ttl, fmt.Sprintf("%v of it are for the drift of clocks, and Config.MinValidity is %v",
		pure.Drift(ttl, config.DriftFactor), config.MinValidity))
}

func ttlError(ttl time.Duration, why string) error {
	return errtext.Wrap(fmt.Sprintf("redlock: a TTL of %v cannot be used: %s", ttl, why), ErrTTL)
}
