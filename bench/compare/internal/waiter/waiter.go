// Package waiter opens implementations whose callers wait for a lock that
// another one holds.
package waiter

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// A Waiter is a client of one implementation. Its methods can be called
// concurrently.
type Waiter struct {
	// Acquire waits for a lock until it has it or ctx ends, and returns how to
	// release it, whatever became of ctx.
	Acquire func(ctx context.Context, resource string, ttl time.Duration) (release func() error, err error)
	// Do locks a resource while it calls held.
	Do    func(ctx context.Context, resource string, ttl time.Duration, held func()) error
	Close func()
}

// Open opens one of
//
//	do         ours; Do is that of its client
//	acquire    ours; Do acquires and releases
//	off        the same without handing locks over within the client
//	poll       the same without being told by the masters (Config.Poll)
//	rueidis    the Redlock of package bench, which asks again and again
//	redsync    redsync on go-redis with its default delays, 50 to 250 ms, for as
//	           long as it takes
func Open(name string, urls []string) (Waiter, error) {
	switch name {
	case "do", "acquire", "off", "poll":
		return openOurs(name, urls)
	case "rueidis":
		c, err := bench.OpenRueidis(bench.RueidisConfig{Nodes: urls})
		if err != nil {
			return Waiter{}, err
		}
		return ofLocker[bench.RueidisLease](c), nil
	case "redsync":
		return openRedsync(urls)
	}
	return Waiter{}, fmt.Errorf("no implementation is called %q", name)
}

func openOurs(name string, urls []string) (Waiter, error) {
	config := redlock.Config{Nodes: redlock.Nodes(urls...)}
	if name == "poll" {
		config.MaxTries, config.RetryDelayMin = 1_000_000, time.Millisecond
	}
	if name == "off" {
		config.HandOver = -1
	}
	if _, err := admin.Init(context.Background(), config); err != nil {
		return Waiter{}, err
	}
	c, err := redlock.New(context.Background(), config)
	if err != nil {
		return Waiter{}, err
	}
	w := ofLocker[redlock.Lock](c)
	if name == "do" {
		w.Do = func(ctx context.Context, resource string, ttl time.Duration, held func()) error {
			return c.Do(ctx, resource, ttl, func(context.Context) error { held(); return nil })
		}
	}
	return w, nil
}

// ofLocker uses what package bench and this module have in common.
func ofLocker[L bench.Lease](l bench.Locker[L]) Waiter {
	return withDo(Waiter{
		Acquire: func(ctx context.Context, resource string, ttl time.Duration) (func() error, error) {
			lease, err := l.Acquire(ctx, resource, ttl)
			return func() error { return lease.Release(context.Background()) }, err
		},
		Close: func() { _ = l.Close(context.Background()) },
	})
}

func openRedsync(urls []string) (Waiter, error) {
	rs, closeClients, err := compare.NewRedsync(urls, goredislib.Options{})
	return withDo(Waiter{
		Acquire: func(ctx context.Context, resource string, ttl time.Duration) (func() error, error) {
			m := rs.NewMutex(resource, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt32))
			err := m.LockContext(ctx)
			return func() error { _, err := m.UnlockContext(context.Background()); return err }, err
		},
		Close: closeClients,
	}), err
}

func withDo(w Waiter) Waiter {
	w.Do = func(ctx context.Context, resource string, ttl time.Duration, held func()) error {
		release, err := w.Acquire(ctx, resource, ttl)
		if err != nil {
			return err
		}
		held()
		return release()
	}
	return w
}
