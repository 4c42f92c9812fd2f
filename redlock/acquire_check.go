package redlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
)

// check truncates the TTL to whole milliseconds, and refuses a resource or a
// TTL that cannot be used.
func (c *Client) check(resource string, ttl time.Duration) (time.Duration, error) {
	if err := checkLockable(resource); err != nil {
		return 0, err
	}
	if err := c.checkFenced(resource); err != nil {
		return 0, err
	}
	return c.checkTTL(ttl)
}

// checkFenced refuses the names of the keys of fencing numbers.
func (c *Client) checkFenced(resource string) error {
	if c.config.Fenced && strings.HasSuffix(resource, fenceSuffix) {
		return errtext.Wrap("redlock: a resource must not end in "+fenceSuffix+": fencing numbers are kept there", ErrResource)
	}
	return nil
}

// checkAttempt is check for any form. The names of several resources were
// checked before.
func (c *Client) checkAttempt(resource string, f *form, ttl time.Duration) (time.Duration, error) {
	if f.is(several) {
		for _, name := range f.names {
			if err := c.checkFenced(name); err != nil {
				return 0, named(name, err)
			}
		}
		return c.checkTTL(ttl)
	}
	if f.is(permit) {
		if err := f.checkPermits(); err != nil {
			return 0, err
		}
	}
	return c.check(resource, ttl)
}

// reserved is in the name of every key that a lock has beside those of its
// resources, its permits and its fencing number, and in no resource. So no key
// of one lock is that of another, whatever their kinds are.
const reserved = ":redlock:"

// checkLockable refuses what cannot be locked.
func checkLockable(resource string) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if resource == sealName || resource == openingName || resource == recordName {
		return errtext.Wrap("redlock: the name is not for use as a resource: clients keep their seal there", ErrResource)
	}
	if strings.Contains(resource, reserved) {
		return errtext.Wrap(`redlock: a resource must not contain "`+reserved+`": readers, writers, permits and queues have keys with it`, ErrResource)
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

// checkTTL also refuses a TTL that would outlast the quarantine of a node that
// forgot the lock (R23).
func (c *Client) checkTTL(given time.Duration) (time.Duration, error) {
	ttl := pure.WholeMilliseconds(given)
	switch {
	case ttl < time.Millisecond:
		return 0, ttlError(given, "it must be at least 1ms")
	case ttl > pure.LongestTTL:
		return 0, ttlError(given, fmt.Sprint("it must be at most ", pure.LongestTTL))
	case c.config.MaxTTL > 0 && ttl > c.config.MaxTTL:
		return 0, ttlError(given, fmt.Sprint("Config.MaxTTL is ", c.config.MaxTTL, "; a longer one must be set on all clients"))
	}
	return ttl, nil
}

// tooShort returns the error for a TTL that leaves too little after the drift.
func (c *Client) tooShort(ttl time.Duration) error {
	return ttlError(ttl, fmt.Sprintf("%v of it are for the drift of clocks, and Config.MinValidity is %v",
		pure.Drift(ttl, c.config.DriftFactor), c.config.MinValidity))
}

func ttlError(ttl time.Duration, why string) error {
	return errtext.Wrap(fmt.Sprintf("redlock: a TTL of %v cannot be used: %s", ttl, why), ErrTTL)
}
