package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/redlock"
)

// redislockLocker is bsm/redislock, both with default options.
type redislockLocker struct {
	locks  *redislock.Client
	client *goredislib.Client
}

// A redislockLease adds the end of validity, which redislock does not know. In
// its documentation the TTL counts from the call.
type redislockLease struct {
	*redislock.Lock
	until time.Time
}

// TryAcquire makes one try: without a retry strategy, which is the default.
func (l redislockLocker) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (*redislockLease, error) {
	return l.obtain(ctx, resource, ttl, nil)
}

// Acquire retries every 100 ms, as redislock's example does.
func (l redislockLocker) Acquire(ctx context.Context, resource string, ttl time.Duration) (*redislockLease, error) {
	return l.obtain(ctx, resource, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
}

func (l redislockLocker) obtain(ctx context.Context, resource string, ttl time.Duration, o *redislock.Options) (*redislockLease, error) {
	start := time.Now()
	lock, err := l.locks.Obtain(ctx, resource, ttl, o)
	return &redislockLease{lock, start.Add(ttl)}, classed(err)
}

// Close closes the client.
func (l redislockLocker) Close(context.Context) error { return l.client.Close() }

// Release implements bench.Lease.
func (l *redislockLease) Release(ctx context.Context) error { return classed(l.Lock.Release(ctx)) }

// Until implements bench.Lease.
func (l *redislockLease) Until() time.Time { return l.until }

// Token implements bench.Lease.
func (l *redislockLease) Token() redlock.Token { return tokenOf(l.Lock.Token()) }

// Extend implements Extender.
func (l *redislockLease) Extend(ctx context.Context, ttl time.Duration) error {
	start := time.Now()
	err := l.Refresh(ctx, ttl, nil)
	if err == nil {
		l.until = start.Add(ttl)
	}
	return classed(err)
}

// tokenOf returns a token of another library as one of ours, to tell it from
// others.
func tokenOf(text string) (t redlock.Token) {
	copy(t[:], text)
	return t
}

// openRedislock refuses more than one master.
func openRedislock(s load.Settings) (bench.Locker[*redislockLease], error) {
	if len(s.URLs) != 1 {
		return nil, fmt.Errorf("peers: redislock knows one master, not %d", len(s.URLs))
	}
	clients, err := goredisClients(s, goredislib.Options{})
	if err != nil {
		return nil, err
	}
	return redislockLocker{redislock.New(clients[0]), clients[0]}, nil
}
