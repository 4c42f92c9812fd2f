package main

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
)

// A use locks the resource, calls held, and releases it.
type use struct {
	once  func(ctx context.Context, held func()) error
	close func()
}

func open(impl string, urls []string, resource string, ttl time.Duration) (use, error) {
	switch impl {
	case "do", "acquire", "off":
		config := redlock.Config{Nodes: redlock.Nodes(urls...), MaxTTL: max(ttl, redlock.DefaultMaxTTL)}
		if impl == "off" {
			config.HandOver = -1
		}
		return openOurs(impl, config, resource, ttl)
	case "rueidis":
		c, err := bench.OpenRueidis(bench.RueidisConfig{Nodes: urls})
		if err != nil {
			return use{}, err
		}
		return lockerUse[bench.RueidisLease](c, resource, ttl), nil
	case "redsync":
		return openRedsync(urls, resource, ttl)
	}
	return use{}, fmt.Errorf("no implementation is called %q", impl)
}

func openOurs(impl string, config redlock.Config, resource string, ttl time.Duration) (use, error) {
	if _, err := redlock.Init(context.Background(), config); err != nil {
		return use{}, err
	}
	c, err := redlock.New(context.Background(), config)
	if err != nil {
		return use{}, err
	}
	u := lockerUse[redlock.Lock](c, resource, ttl)
	if impl == "do" {
		u.once = func(ctx context.Context, held func()) error {
			return c.Do(ctx, resource, ttl, func(context.Context) error { held(); return nil })
		}
	}
	return u, nil
}

// lockerUse uses what package bench and this module have in common.
func lockerUse[L bench.Lease](l bench.Locker[L], resource string, ttl time.Duration) use {
	return use{
		once: func(ctx context.Context, held func()) error {
			lease, err := l.Acquire(ctx, resource, ttl)
			if err != nil {
				return err
			}
			held()
			return lease.Release(context.Background())
		},
		close: func() { _ = l.Close(context.Background()) },
	}
}

// openRedsync opens redsync on go-redis. It waits with its default delays, 50
// to 250 ms, for as long as it takes.
func openRedsync(urls []string, resource string, ttl time.Duration) (use, error) {
	rs, closeClients, err := compare.NewRedsync(urls, goredislib.Options{})
	return use{
		once: func(ctx context.Context, held func()) error {
			m := rs.NewMutex(resource, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt32))
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			held()
			_, err := m.UnlockContext(context.Background())
			return err
		},
		close: closeClients,
	}, err
}
