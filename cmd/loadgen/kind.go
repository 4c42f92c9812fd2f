package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
)

// kind is the kind of lock that callers take; zero is the plain one.
type kind struct {
	fenced  bool // with a number that only increases
	several int  // resources at once, 0 for one
	fair    bool // callers of all processes are served in order
}

// UnmarshalText reads "plain", "fenced", "fair" or "multi:3".
func (k *kind) UnmarshalText(text []byte) error {
	name, number, counted := strings.Cut(string(text), ":")
	n, err := strconv.Atoi(number)
	switch {
	case name == "plain" && !counted:
		*k = kind{}
	case name == "fenced" && !counted:
		*k = kind{fenced: true}
	case name == "fair" && !counted:
		*k = kind{fair: true}
	case name == "multi" && err == nil && n > 1 && n <= redlock.MaxResources:
		*k = kind{several: n}
	default:
		return fmt.Errorf(`want "plain", "fenced", "fair", or "multi:N" for locks on 2 to %d resources each`, redlock.MaxResources)
	}
	return nil
}

// String returns the form that UnmarshalText reads.
func (k kind) String() string {
	switch {
	case k.fenced:
		return "fenced"
	case k.fair:
		return "fair"
	case k.several > 0:
		return "multi:" + strconv.Itoa(k.several)
	}
	return "plain"
}

// validateKind refuses a kind that there are too few resources for, or that not
// every implementation has.
func (f *flags) validateKind() error {
	if f.Kind == (kind{}) {
		return nil
	}
	if f.Keys < f.Kind.several {
		return fmt.Errorf("--kind %s needs --keys of at least %d", f.Kind, f.Kind.several)
	}
	for _, name := range f.Impl {
		if !strings.HasPrefix(name, "redlock") {
			return fmt.Errorf("--kind %s: only --impl redlock has such locks", f.Kind)
		}
	}
	return nil
}

// An allLocker acquires locks on several resources.
type allLocker[L bench.Lease] interface {
	TryAcquireAll(ctx context.Context, resources []string, ttl time.Duration) (L, error)
	AcquireAll(ctx context.Context, resources []string, ttl time.Duration) (L, error)
}

var _ allLocker[redlock.Lock] = (*redlock.Client)(nil)

// pick chooses the resources of the next attempt.
func (c *caller[L]) pick() {
	c.picked = c.picked[:0]
	if c.choose == nil {
		c.picked = append(c.picked, c.id)
		return
	}
	for len(c.picked) < max(1, c.flags.Kind.several) {
		if i := c.choose(); !slices.Contains(c.picked, i) {
			c.picked = append(c.picked, i)
		}
	}
	c.names = c.names[:0]
	for _, i := range c.picked {
		c.names = append(c.names, c.resources[i])
	}
}

// once and again are TryAcquire and Acquire of what was picked.
func (c *caller[L]) once(ctx context.Context) (L, error) {
	if c.flags.Kind.several > 0 {
		return any(c.locker).(allLocker[L]).TryAcquireAll(ctx, c.names, c.flags.TTL)
	}
	if c.flags.Kind.fair {
		return leaseOf[L](c.fair().TryAcquire(ctx, c.flags.TTL))
	}
	return c.locker.TryAcquire(ctx, c.resources[c.picked[0]], c.flags.TTL)
}

func (c *caller[L]) again(ctx context.Context) (L, error) {
	if c.flags.Kind.several > 0 {
		return any(c.locker).(allLocker[L]).AcquireAll(ctx, c.names, c.flags.TTL)
	}
	if c.flags.Kind.fair {
		return leaseOf[L](c.fair().Acquire(ctx, c.flags.TTL))
	}
	return c.locker.Acquire(ctx, c.resources[c.picked[0]], c.flags.TTL)
}

// fair returns what acquires the lock that was picked in order.
func (c *caller[L]) fair() redlock.Locker {
	return any(c.locker).(interface {
		Fair(name string) redlock.Locker
	}).Fair(c.resources[c.picked[0]])
}

// leaseOf returns the lock as a caller's lease, which allocates: fair locks do
// in any case.
func leaseOf[L bench.Lease](lock redlock.Lock, err error) (L, error) {
	return any(lock).(L), err
}
