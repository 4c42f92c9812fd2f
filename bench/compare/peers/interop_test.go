package peers_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// ttl is so long that no lock expires on a busy machine; redsync waits a
// twentieth of it for a vote.
const ttl = time.Minute

// patience is how long a test waits. It is shorter than the TTL, so that a key
// that expires is not taken for one that was released.
const patience = ttl / 2

// masters starts five servers and gives a client of each kind for them.
func masters(t *testing.T) (*redlock.Client, *redsync.Redsync, []*redistest.Server) {
	t.Helper()
	redistest.NoLeaks(t)
	servers := redistest.Servers(t, 5, redistest.OverTCP)
	// A busy machine must not cost votes: this test is about exclusion, not
	// about time.
	config := redlock.Config{Nodes: redlock.Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, MaxTTL: 2 * ttl}
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
	ours, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ours.Close(context.Background()) })
	require.NoError(t, ours.Ready(t.Context()))
	var pools []redsyncredis.Pool
	for _, s := range servers {
		client := goredislib.NewClient(&goredislib.Options{Addr: s.TCPAddr()})
		t.Cleanup(func() { _ = client.Close() })
		pools = append(pools, goredis.NewPool(client))
	}
	return ours, redsync.New(pools...), servers
}

// nothingLeft checks that no server holds a key but those of the deployment:
// its seal, and the record of fencing numbers.
func nothingLeft(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for i, s := range servers {
		assert.Eventually(t, func() bool {
			n, err := s.Do("DBSIZE")
			return err == nil && n == int64(2)
		}, patience, 5*time.Millisecond, "server %d still holds keys", i)
	}
}

// A lock of redsync is held for us, and ours for redsync (R1, R2); neither
// releases the other's (R9).
func TestInteropInTurn_R1_R2_R9(t *testing.T) {
	ours, other, servers := masters(t)
	ctx := context.Background()

	theirs := other.NewMutex("turn", redsync.WithExpiry(ttl), redsync.WithTries(1))
	require.NoError(t, theirs.Lock())
	_, err := ours.TryAcquire(ctx, "turn", ttl)
	require.ErrorIs(t, err, redlock.ErrHeld)
	ok, err := theirs.Extend()
	assert.True(t, ok, "our attempt took something from redsync: %v", err)
	ok, err = theirs.Unlock()
	assert.True(t, ok, "our attempt took something from redsync: %v", err)

	lock, err := ours.TryAcquire(ctx, "turn", ttl)
	require.NoError(t, err, "what redsync released is free")
	assert.Error(t, theirs.Lock(), "redsync got what we hold")
	longer, err := lock.Extend(ctx, 2*ttl)
	require.NoError(t, err, "redsync's attempt took something from us")
	assert.Error(t, other.NewMutex("turn", redsync.WithTries(1)).Lock(), "redsync got what we extended")
	require.NoError(t, longer.Release(ctx))

	require.NoError(t, theirs.Lock(), "what we released is free")
	require.ErrorIs(t, lock.Release(ctx), redlock.ErrNotHeld, "releasing twice does not touch redsync's lock")
	ok, err = theirs.Unlock()
	assert.True(t, ok, "our second release took something from redsync: %v", err)
	nothingLeft(t, servers)
}

// Both want one resource for a while. Each holder is alone, and both get it.
func TestInteropInTheRace_R1_R2(t *testing.T) {
	ours, other, servers := masters(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var inside, won, lost atomic.Int64
	time.AfterFunc(2*time.Second, func() {
		// So that the first keys have not expired while the last are waited for
		// below, for patience.
		for end := time.Now().Add(ttl / 4); (won.Load() == 0 || lost.Load() == 0) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	})
	alone := func(count *atomic.Int64) {
		if inside.Add(1) != 1 {
			t.Error("two holders at once")
		}
		count.Add(1)
		time.Sleep(200 * time.Microsecond)
		inside.Add(-1)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				lock, err := ours.Acquire(ctx, "race", ttl)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("Acquire: %v", err)
					}
					continue
				}
				alone(&won)
				assert.NoError(t, lock.Release(context.Background()))
				time.Sleep(2 * time.Millisecond) // we retry faster than redsync, which must have its turn
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				m := other.NewMutex("race", redsync.WithExpiry(ttl), redsync.WithTries(1))
				// Not with ctx: redsync releases a failed attempt with the
				// context that ended it, so one that is cancelled leaves its
				// keys until their TTL ends, and below they would pass for
				// ours.
				if m.Lock() != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				alone(&lost)
				ok, err := m.Unlock()
				assert.True(t, ok, "redsync lost its lock: %v", err)
			}
		})
	}
	wg.Wait()
	t.Logf("ours %d, redsync %d", won.Load(), lost.Load())
	assert.Positive(t, won.Load(), "we never got it")
	assert.Positive(t, lost.Load(), "redsync never got it")
	nothingLeft(t, servers)
}
