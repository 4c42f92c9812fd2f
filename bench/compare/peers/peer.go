// Package peers is the libraries that this module is measured beside, each
// behind the few calls of bench.Locker, so that loadgen can name them and the
// trials of faults can use them.
//
// # What each peer gets
//
// The default options, or those that were the fastest in this work (see
// bench/README.md). What an implementation needs once (clients, connections,
// scripts) is made once, as its documentation advises, and not per lock.
// Acquire waits as the library does, for as long as it takes; where it has no
// such call, by asking again as the baseline of package bench does.
//
// # What is not here
//
// rueidislock, which comes with rueidis, does other work, and a number beside
// ours would mislead in both directions. It takes one client, for one server or
// one cluster, and asks it for a majority of several keys: it has no N
// independent masters, so its lock does not outlive a master. It asks for the
// keys one after the other until it has a majority; the rest follow in the
// background. A lock extends itself, watched by a goroutine per key over
// client-side caching, and its release waits until those goroutines have ended;
// an acquisition has no TTL. Timing that as a pair would charge it for renewal
// and notification, which no other peer offers, and credit it with asking one
// server. redislock, too, knows one server only, but does the same work there:
// it is measured with one.
package peers

import (
	"context"
	"time"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/conn"
)

// A Peer is one library with one set of options.
type Peer struct {
	load.Implementation
	// Client opens it for a program other than loadgen.
	Client func(load.Settings) (Client, error)
}

// A Client acquires locks. Its methods are safe for concurrent use.
type Client interface {
	TryAcquire(ctx context.Context, resource string, ttl time.Duration) (bench.Lease, error)
	Acquire(ctx context.Context, resource string, ttl time.Duration) (bench.Lease, error)
	Close(ctx context.Context) error
}

// An Extender is a lease that can be extended.
type Extender interface {
	bench.Lease
	// Extend asks for another TTL. It returns nil if the implementation says
	// that the lock is held for it.
	Extend(ctx context.Context, ttl time.Duration) error
}

// All are all peers, in the order in which they are shown.
var All = []Peer{
	peer("valkey", "rueidis-tuned on valkey-go", 0, on(dialValkey)),
	peer("go-redis", "a Redlock on its asynchronous automatic pipelining", 0, openGoredisAsync(false)),
	peer("go-redis-duplex", "with FullDuplex", 0, openGoredisAsync(true)),
	peer("go-redis-blocking", "on its blocking automatic pipelining", 0, on(dialGoredis)),
	peer("redsync", "on go-redis, both with default options", 0, openRedsync(false)),
	peer("redsync-tuned", "with WithFailFast and go-redis' ContextTimeoutEnabled", 0, openRedsync(true)),
	peer("redsync-rueidis", "on rueidis by its adapter", 0, openRedsyncRueidis),
	peer("redislock", "bsm/redislock on go-redis; one node", 1, openRedislock),
}

// Implementations are all peers, for loadgen.
func Implementations() (all []load.Implementation) {
	for _, p := range All {
		all = append(all, p.Implementation)
	}
	return all
}

// peer makes a Peer of an implementation. It is generic so that loadgen drives a
// lease that is a plain value as one.
func peer[L bench.Lease](name, about string, mostNodes int, open func(load.Settings) (bench.Locker[L], error)) Peer {
	return Peer{
		Implementation: load.Implementation{Name: name, About: about, MostNodes: mostNodes, Open: func(s load.Settings) (load.System, error) {
			l, err := open(s)
			if err != nil {
				return nil, err
			}
			return load.Drive(l), nil
		}},
		Client: func(s load.Settings) (Client, error) {
			l, err := open(s)
			if err != nil {
				return nil, err
			}
			return ClientOf(l), nil
		},
	}
}

// ClientOf makes a Client of a locker.
func ClientOf[L bench.Lease](l bench.Locker[L]) Client { return client[L]{l} }

type client[L bench.Lease] struct{ locker bench.Locker[L] }

// TryAcquire makes one try.
func (c client[L]) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (bench.Lease, error) {
	return c.locker.TryAcquire(ctx, resource, ttl)
}

// Acquire waits until ctx ends.
func (c client[L]) Acquire(ctx context.Context, resource string, ttl time.Duration) (bench.Lease, error) {
	return c.locker.Acquire(ctx, resource, ttl)
}

// Close closes the client.
func (c client[L]) Close(ctx context.Context) error { return c.locker.Close(ctx) }

// on opens the Redlock of package bench on another library than rueidis.
func on(dial func(conn.Endpoint) (bench.Node, error)) func(load.Settings) (bench.Locker[bench.RueidisLease], error) {
	return func(s load.Settings) (bench.Locker[bench.RueidisLease], error) {
		return bench.OpenRueidis(bench.RueidisConfig{
			Nodes: s.URLs, Username: s.Username, Password: s.Password, NodeTimeout: s.NodeTimeout, Dial: dial,
		})
	}
}

// endpoints reads the URLs as all implementations do.
func endpoints(s load.Settings) (all []conn.Endpoint, err error) {
	for _, url := range s.URLs {
		e, err := conn.ParseURL(url)
		if err != nil {
			return nil, err
		}
		if e.Password == "" {
			e.Username, e.Password = s.Username, s.Password
		}
		all = append(all, e)
	}
	return all, nil
}
