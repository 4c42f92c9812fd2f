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

const ttl = 30 * time.Second

// A client waits for a lock until it has it, and returns how to release it.
type client struct {
	acquire func(ctx context.Context, resource string) (release func() error, err error)
	close   func()
}

// A pair is two clients of one implementation: one that holds, and one that
// waits.
type pair struct {
	name             string
	holder, waiter   client
	first, next      []time.Duration
	rounds, resource int
	unsure           int // releases of the holder that no quorum confirmed
}

func openPair(name string, urls []string) (*pair, error) {
	p := &pair{name: name}
	for _, c := range []*client{&p.holder, &p.waiter} {
		var err error
		if *c, err = open(name, urls); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pair) close() {
	p.holder.close()
	p.waiter.close()
}

func open(name string, urls []string) (client, error) {
	switch name {
	case "push", "poll":
		config := redlock.Config{Nodes: redlock.Nodes(urls...), Poll: name == "poll"}
		if _, err := redlock.Init(context.Background(), config); err != nil {
			return client{}, err
		}
		c, err := redlock.New(context.Background(), config)
		if err != nil {
			return client{}, err
		}
		return lockerClient[redlock.Lock](c), nil
	case "rueidis":
		c, err := bench.OpenRueidis(bench.RueidisConfig{Nodes: urls})
		if err != nil {
			return client{}, err
		}
		return lockerClient[bench.RueidisLease](c), nil
	case "redsync":
		return openRedsync(urls)
	}
	return client{}, fmt.Errorf("no implementation is called %q", name)
}

// lockerClient uses what package bench and this module have in common.
func lockerClient[L bench.Lease](l bench.Locker[L]) client {
	return client{
		acquire: func(ctx context.Context, resource string) (func() error, error) {
			lease, err := l.Acquire(ctx, resource, ttl)
			return func() error { return lease.Release(context.Background()) }, err
		},
		close: func() { _ = l.Close(context.Background()) },
	}
}

// openRedsync opens redsync on go-redis. It waits with its default delays, 50
// to 250 ms, for as long as it takes.
func openRedsync(urls []string) (client, error) {
	rs, closeClients, err := compare.NewRedsync(urls, goredislib.Options{})
	return client{
		acquire: func(ctx context.Context, resource string) (func() error, error) {
			m := rs.NewMutex(resource, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt32))
			err := m.LockContext(ctx)
			return func() error { _, err := m.UnlockContext(context.Background()); return err }, err
		},
		close: closeClients,
	}, err
}
