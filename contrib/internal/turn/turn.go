// Package turn decides which of several schedulers runs a job: the one that is
// first to hold a lock, which it keeps for a least time.
package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// The defaults of the adapters' options.
const (
	defaultTTL     = 30 * time.Second
	defaultMinHold = 500 * time.Millisecond
)

// Options returns how to hold the locks of an adapter's jobs, with defaults for
// what is zero. A negative minHold is none. Errors begin with the adapter's
// name.
func Options(adapter, prefix string, ttl, minHold time.Duration) (redlock.HoldOptions, error) {
	ttl = cmp.Or(ttl, defaultTTL)
	minHold = cmp.Or(minHold, min(defaultMinHold, ttl))
	if err := errtext.Negative("TTL", ttl); err != nil {
		return redlock.HoldOptions{}, fmt.Errorf("%s: %w", adapter, err)
	}
	if minHold > ttl {
		return redlock.HoldOptions{}, fmt.Errorf("%s: MinHold is %v, more than the TTL, which is %v", adapter, minHold, ttl)
	}
	if err := resource.CheckPrefix(adapter, prefix); err != nil {
		return redlock.HoldOptions{}, err
	}
	return redlock.HoldOptions{TTL: ttl, MinHold: max(minHold, 0)}, nil
}

// patienceMost is the longest time for which schedulers contend for a free
// lock.
const patienceMost = time.Second

// Take repeats TryHold until there is a holder. The pauses are random and grow,
// so that one of several schedulers comes first. No attempt begins after half of
// MinHold, so a later one also falls into that time.
func Take(ctx context.Context, client *redlock.Client, resource string, o redlock.HoldOptions) (*redlock.Hold, error) {
	begun := time.Now()
	most := max(1, min(cmp.Or(o.MinHold, defaultMinHold)/2, patienceMost))
	for spread := time.Duration(2); ; spread *= 2 {
		asked := time.Now()
		hold, err := client.Lock(resource).TryHold(ctx, o)
		if !errors.Is(err, redlock.ErrHeld) || ctx.Err() != nil {
			return hold, err
		}
		pause := rand.N(min(spread*max(time.Since(asked), time.Millisecond/4), most))
		left := most - time.Since(begun)
		if left <= pause || held(ctx, client, resource, left-pause) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// held reports whether a quorum of nodes names one holder. It does not wait
// longer than patience for the answers.
func held(ctx context.Context, client *redlock.Client, resource string, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, _ := admin.Inspect(ctx, client, resource)
	return found.State == admin.StateHeld
}
