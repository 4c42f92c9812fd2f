package failover

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redmux/redmux/redlock"
)

// A Client acquires locks. Its methods are safe for concurrent use.
type Client interface {
	// Acquire tries until ctx ends.
	Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error)
	Close()
}

// A Holder is a Client whose locks can renew themselves.
type Holder interface {
	Hold(ctx context.Context, resource string, ttl time.Duration) (Renewed, error)
}

// A Lock is one that was granted.
type Lock interface {
	// Until returns the end of validity, as the implementation says it.
	Until() time.Time
	// Extend asks for another TTL. It returns nil if the implementation says
	// that the lock is held for it.
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// Renewed is a lock that renews itself until it is released or lost.
type Renewed interface {
	Lock
	Context() context.Context
}

// Prefix is that of all keys. In a cluster it is of one slot.
const Prefix = "{over}:"

// Ours opens clients of this module with URLs that have a parameter, such as
// failover=3s, or none. A third of their locks renew themselves. Those of a
// direct way read by the poller.
func Ours(maxTTL time.Duration, parameter string) func(*Way) (Client, error) {
	return func(w *Way) (Client, error) {
		config := redlock.Config{Prefix: Prefix, MaxTTL: maxTTL, Logger: slog.New(slog.DiscardHandler)}
		for _, n := range w.nodes {
			url := n.URL()
			switch {
			case parameter == "":
			case strings.Contains(url, "?"):
				url += "&" + parameter
			default:
				url += "?" + parameter
			}
			config.Nodes = append(config.Nodes, redlock.Node{URL: url})
		}
		if !w.Direct {
			config.Connect.NetDial = w.Dial
		}
		c, err := redlock.New(context.Background(), config)
		if err != nil {
			return nil, fmt.Errorf("failover: %w", err)
		}
		return client{c}, nil
	}
}

type client struct{ redlock *redlock.Client }

// Acquire returns a lock, or one that renews and heals itself.
func (c client) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	if rand.IntN(3) == 0 {
		return c.Hold(ctx, resource, ttl)
	}
	l, err := c.redlock.Acquire(ctx, resource, ttl)
	return &lock{l}, err
}

// Hold returns a lock that renews and heals itself.
func (c client) Hold(ctx context.Context, resource string, ttl time.Duration) (Renewed, error) {
	h, err := c.redlock.Hold(ctx, resource, redlock.HoldOptions{TTL: ttl, Heal: true})
	return kept{h}, err
}

// Close closes the client.
func (c client) Close() { _ = c.redlock.Close(context.Background()) }

// lock keeps what an extension returns.
type lock struct{ redlock.Lock }

// Extend asks for another TTL.
func (l *lock) Extend(ctx context.Context, ttl time.Duration) error {
	longer, err := l.Lock.Extend(ctx, ttl)
	if err == nil {
		l.Lock = longer
	}
	return err
}

// kept is a lock that renews itself.
type kept struct{ *redlock.Hold }

// Extend reports whether the lock is still held.
func (k kept) Extend(context.Context, time.Duration) error { return k.Context().Err() }
