package canned

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
)

// ttl is long, since what peers wait for a vote follows from it, and a busy machine shall cost none.
const ttl = time.Minute

// everyone lets so many callers acquire and release at once, so that batches and merged releases occur, too.
func everyone[L bench.Lease](t *testing.T, locker bench.Locker[L]) {
	t.Helper()
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, locker.Close(closing))
	})
	var working sync.WaitGroup
	for i := range 64 {
		working.Go(func() {
			for range 20 {
				lease, err := locker.TryAcquire(t.Context(), fmt.Sprint("r", i), ttl)
				if err == nil {
					err = lease.Release(t.Context())
				}
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	working.Wait()
}

func TestRedlock(t *testing.T) {
	for _, network := range networks {
		for _, n := range []int{1, 5} {
			t.Run(fmt.Sprint(network, n), func(t *testing.T) {
				// A busy machine shall not cost votes: this is about replies, not about when they come.
				client, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(start(t, n, network).URLs()...), NodeTimeout: 5 * time.Second})
				require.NoError(t, err)
				lock, err := client.TryAcquire(t.Context(), "r", ttl)
				require.NoError(t, err)
				longer, err := lock.Extend(t.Context(), 2*ttl)
				require.NoError(t, err)
				require.NoError(t, longer.Release(t.Context()))
				everyone[redlock.Lock](t, client)
			})
		}
	}
}

func TestRueidis(t *testing.T) {
	for _, network := range networks {
		urls := start(t, 5, network).URLs()
		for _, name := range bench.Variants {
			t.Run(network+" "+name, func(t *testing.T) {
				cfg, err := bench.RueidisConfig{Nodes: urls}.Variant(name)
				require.NoError(t, err)
				l, err := bench.OpenRueidis(cfg)
				require.NoError(t, err)
				for _, node := range l.Nodes(t.Context()) {
					require.NoError(t, node.Err)
					require.Equal(t, "redis", node.Product)
				}
				everyone[bench.RueidisLease](t, l)
			})
		}
	}
}

// goRedis gives a client of an endpoint, in a version of the protocol.
func goRedis(t *testing.T, raw string, protocol int) *goredislib.Client {
	t.Helper()
	options, err := goredislib.ParseURL(raw)
	require.NoError(t, err)
	options.Protocol = protocol
	client := goredislib.NewClient(options)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestRedsync(t *testing.T) {
	for _, network := range networks {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprint(network, protocol), func(t *testing.T) {
				var pools []redsyncredis.Pool
				for _, raw := range start(t, 5, network).URLs() {
					pools = append(pools, goredis.NewPool(goRedis(t, raw, protocol)))
				}
				m := redsync.New(pools...).NewMutex("r", redsync.WithExpiry(ttl), redsync.WithTries(1))
				require.NoError(t, m.Lock())
				ok, err := m.Extend()
				require.NoError(t, err)
				require.True(t, ok)
				ok, err = m.Unlock()
				require.NoError(t, err)
				require.True(t, ok)
			})
		}
	}
}

func TestRedislock(t *testing.T) {
	client := redislock.New(goRedis(t, start(t, 1, "tcp").URLs()[0], 3))
	lock, err := client.Obtain(t.Context(), "r", ttl, nil)
	require.NoError(t, err)
	require.NoError(t, lock.Refresh(t.Context(), ttl, nil))
	require.NoError(t, lock.Release(t.Context()))
}
