package redlock_test

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/stretchr/testify/require"
)

// Complete error texts from real servers: one prefix, one line, the resource,
// each cause once, and what to change.
func TestTextsOfErrors_R12_R31(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTCP, redistest.Args("--user", "alice", "on", ">hunter2", "~lock:*", "&*", "+@all"))
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.TCPAddr())
	}
	urls := func(before string, hosts ...string) (all []string) {
		for _, host := range hosts {
			all = append(all, before+host)
		}
		return all
	}
	var refusing []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		refusing = append(refusing, l.Addr().String())
		require.NoError(t, l.Close())
	}
	healthy := redlock.Config{Nodes: redlock.Nodes(urls("redis://", addrs...)...), NodeTimeout: time.Second, Prefix: "lock:"}
	_, err := admin.Init(t.Context(), healthy)
	require.NoError(t, err)
	acquire := func(ctx context.Context, c *redlock.Client) error {
		_, err := c.Acquire(ctx, "invoice:7", 10*time.Second)
		return err
	}
	for name, c := range map[string]struct {
		config redlock.Config
		call   func(context.Context, *redlock.Client) error
		want   string
	}{
		"no listener": {redlock.Config{Nodes: redlock.Nodes(urls("redis://", refusing...)...)}, acquire,
			`redlock: "invoice:7": context deadline exceeded; no quorum of nodes answered: all 3 nodes (R, R, R): connection refused`},
		"wrong password": {redlock.Config{Nodes: redlock.Nodes(urls("redis://alice:wrong@", addrs...)...)}, acquire,
			`redlock: "invoice:7": no quorum of nodes answered: all 3 nodes (A, A, A): HELLO refused: ` +
				`WRONGPASS invalid username-password pair or user is disabled.; waiting cannot fix this`},
		"a wrong password for Ready": {redlock.Config{Nodes: redlock.Nodes(urls("redis://alice:wrong@", addrs...)...)},
			func(ctx context.Context, c *redlock.Client) error { return c.Ready(ctx) },
			`redlock: no quorum of nodes answered: all 3 nodes (A, A, A): HELLO refused: ` +
				`WRONGPASS invalid username-password pair or user is disabled.; waiting cannot fix this`},
		"TLS to a plain port": {redlock.Config{Nodes: redlock.Nodes(urls("rediss://", addrs...)...)}, acquire,
			`redlock: "invoice:7": no quorum of nodes answered: all 3 nodes (A, A, A): peer speaks no TLS ` +
				`(use redis://, or the port that has TLS): it answers plaintext; waiting cannot fix this`},
		"a database that does not exist": {redlock.Config{Nodes: redlock.Nodes("redis://"+addrs[0]+"/99", "redis://"+addrs[1]+"/99", "redis://"+addrs[2]+"/99")},
			acquire, `redlock: "invoice:7": no quorum of nodes answered: all 3 nodes (A, A, A): SELECT refused: ` +
				`ERR DB index is out of range; waiting cannot fix this`},
		"another prefix than the user may use": {redlock.Config{Nodes: redlock.Nodes(urls("redis://alice:hunter2@", addrs...)...), Prefix: "other:"}, acquire,
			`redlock: "invoice:7": no quorum of nodes answered: …: EVALSHA of a script with GET refused: ` +
				`what locks need is forbidden: the user may not run EVALSHA of a script with GET (grant what is missing: ` +
				`ACL SETUSER <user> … overrides this) (the node says: NOPERM …); waiting cannot fix this`},
		"TTL below a millisecond": {healthy, func(ctx context.Context, c *redlock.Client) error {
			_, err := c.TryAcquire(ctx, "invoice:7", 500*time.Microsecond)
			return err
		}, `redlock: "invoice:7": a TTL of 500µs cannot be used: it must be at least 1ms`},
		"TTL above MaxTTL": {healthy, func(ctx context.Context, c *redlock.Client) error {
			_, err := c.TryAcquire(ctx, "invoice:7", 31*time.Second)
			return err
		}, `redlock: "invoice:7": a TTL of 31s cannot be used: Config.MaxTTL is 30s; a longer one must be set on all clients`},
		"TTL within the drift": {healthy, func(ctx context.Context, c *redlock.Client) error {
			_, err := c.Acquire(ctx, "invoice:7", 2*time.Millisecond)
			return err
		}, `redlock: "invoice:7": a TTL of 2ms cannot be used: 2.02ms of it are for the drift of clocks, and Config.MinValidity is 0s`},
		"no name": {healthy, func(ctx context.Context, c *redlock.Client) error {
			_, err := c.TryAcquire(ctx, "", time.Second)
			return err
		}, `redlock: "": a resource of 0 bytes: it must have 1 to 1024`},
		"released twice": {healthy, func(ctx context.Context, c *redlock.Client) error {
			lock, err := c.TryAcquire(ctx, "twice", 10*time.Second)
			if err == nil {
				err = lock.Release(ctx)
			}
			if err != nil {
				return err
			}
			return lock.Release(ctx)
		}, `redlock: "twice": lock is not held`},
		"waited for in vain": {healthy, func(ctx context.Context, c *redlock.Client) error {
			lock, err := c.TryAcquire(ctx, "held", 10*time.Second)
			if err != nil {
				return err
			}
			defer lock.Release(context.WithoutCancel(ctx))
			_, err = c.Acquire(ctx, "held", 10*time.Second)
			return err
		}, `redlock: "held": context deadline exceeded; resource is held`},
		"nested": {healthy, func(ctx context.Context, c *redlock.Client) error {
			return c.Do(ctx, "twice in one", time.Second, func(ctx context.Context) error { return acquireNamed(ctx, c, "twice in one") })
		}, `redlock: "twice in one": the context of this call holds the lock already: the call would wait for itself`},
		"lost under fn": {healthy, func(ctx context.Context, c *redlock.Client) error {
			return c.Do(ctx, "lost", 2*time.Second, func(ctx context.Context) error {
				for _, s := range servers {
					_, err := s.Do("DEL", "lock:lost")
					if err != nil {
						return err
					}
				}
				<-ctx.Done()
				return ctx.Err()
			})
		}, `redlock: "lost": lock was lost: it is not ours any more: …`},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := redlock.New(t.Context(), c.config)
			require.NoError(t, err)
			defer client.Close(context.Background())
			limited, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			err = c.call(limited, client)
			require.Error(t, err)
			text := err.Error()
			for _, addr := range addrs {
				text = strings.ReplaceAll(text, addr, "A")
			}
			for _, addr := range refusing {
				text = strings.ReplaceAll(text, addr, "R")
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(c.want), "…", ".*")
			require.Regexp(t, "^"+pattern+"$", text)
			require.NotContains(t, fmt.Sprintf("%+v", err), "hunter2", "R27")
		})
	}
}

func acquireNamed(ctx context.Context, c *redlock.Client, resource string) error {
	_, err := c.Acquire(ctx, resource, time.Second)
	return err
}
