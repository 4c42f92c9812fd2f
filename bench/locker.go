package bench

import (
	"context"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Lease is a granted lock. Both redlock.Lock and [RueidisLease] are plain
// values with these methods.
type Lease interface {
	// Release releases the lock on every node. It returns nil,
	// redlock.ErrNotHeld or redlock.ErrNoQuorum (R9).
	Release(ctx context.Context) error
	// Until returns the end of the validity.
	Until() time.Time
	// Token returns the token that identifies this grant on the nodes.
	Token() redlock.Token
}

// Locker acquires locks of one kind. Its errors satisfy errors.Is for the
// sentinels of package redlock (R12).
type Locker[L Lease] interface {
	// TryAcquire makes one attempt.
	TryAcquire(ctx context.Context, resource string, ttl time.Duration) (L, error)
	// Acquire retries until the context ends.
	Acquire(ctx context.Context, resource string, ttl time.Duration) (L, error)
	// Close waits for releases in flight, until the context ends.
	Close(ctx context.Context) error
}

var (
	_ Locker[redlock.Lock] = (*redlock.Client)(nil)
	_ Locker[RueidisLease] = (*Rueidis)(nil)
)
