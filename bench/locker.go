package bench

import (
	"context"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Lease is a lock that was granted. Both redlock.Lock and [RueidisLease] are
// plain values with these methods.
type Lease interface {
	// Release gives the lock back on every node: nil, redlock.ErrNotHeld or
	// redlock.ErrNoQuorum (R9).
	Release(ctx context.Context) error
	// Until is the end of the validity.
	Until() time.Time
	// Token is what identifies this grant on the nodes.
	Token() redlock.Token
}

// Locker acquires locks of one kind. Its errors satisfy errors.Is for the
// sentinels of package redlock (R12).
type Locker[L Lease] interface {
	// TryAcquire makes one attempt.
	TryAcquire(ctx context.Context, resource string, ttl time.Duration) (L, error)
	// Acquire retries until the context ends.
	Acquire(ctx context.Context, resource string, ttl time.Duration) (L, error)
	// Close waits for releases that are on their way, until the context ends.
	Close(ctx context.Context) error
}

var (
	_ Locker[redlock.Lock] = (*redlock.Client)(nil)
	_ Locker[RueidisLease] = (*Rueidis)(nil)
)
