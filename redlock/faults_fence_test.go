package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/stretchr/testify/require"
)

// fencedConfig is that of patient clients whose quarantines are short.
var fencedConfig = redlock.Config{Fenced: true, MaxTTL: quarantineTTL, NodeTimeout: patience}

// fencedLock takes a lock, waiting until so many nodes count that there is one,
// gives it back, and returns its number.
func (f *fleet) fencedLock(c *redlock.Client) uint64 {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
	defer cancel()
	lock, err := c.Acquire(ctx, "r", quarantineTTL)
	require.NoError(f, err)
	require.NoError(f, lock.Release(ctx))
	return lock.Fence()
}

// floored waits until a server's record has the floor of its own process.
func (f *fleet) floored(server int) {
	f.Helper()
	eventually(f, inTheEnd, func() error {
		_, rest, _ := strings.Cut(f.must(server, "INFO", "server").(string), "run_id:")
		run, _, _ := strings.Cut(rest, "\r\n")
		text, _ := f.must(server, "GET", "redlock:fence").(string)
		if record, err := pure.ParseRecord(text); err != nil || !strings.HasPrefix(record.Run, run) || record.Floor <= 0 {
			return fmt.Errorf("server %d, which is %s, has %q", server, run, text)
		}
		return nil
	})
}

// Masters that restart empty, one after the other, and one that is flushed,
// learn from the others; meanwhile sixteen clients go on, and numbers only
// rise.
func TestFenceOnRealServers_F3(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	c := f.founded(fencedConfig)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex // guards the following
	var last uint64
	grants := 0
	for range 8 {
		other := f.client(fencedConfig)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
				lock, err := other.Acquire(ctx, "r", quarantineTTL)
				if err == nil {
					mu.Lock()
					if lock.Fence() <= last {
						t.Errorf("%d after %d", lock.Fence(), last)
					}
					last = lock.Fence()
					grants++
					mu.Unlock()
					err = lock.Release(ctx)
				}
				cancel()
				if err != nil && !errors.Is(err, redlock.ErrNotHeld) && !errors.Is(err, redlock.ErrNoQuorum) {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond) // grants are wanted, not as many as can be
			}
		})
	}
	for i := range 3 {
		before := f.fencedLock(c)
		require.NoError(t, f.servers[i].Restart())
		f.floored(i)
		require.Greater(t, f.fencedLock(c), before)
	}
	f.must(1, "FLUSHALL")
	f.floored(1)
	f.fencedLock(c)
	close(stop)
	wg.Wait()
	t.Log(grants, "grants")
	require.NotZero(t, grants)
}

// With one server nothing can be learned, and an operator goes on; also where
// nothing was lost, and with the number that a protected resource has seen.
func TestResetFenceOnARealServer(t *testing.T) {
	f := newFleet(t, 1, redistest.OverTCP)
	c := f.founded(fencedConfig)
	last := f.fencedLock(c)
	require.NoError(t, f.servers[0].Restart())
	eventually(t, inTheEnd, func() error {
		_, err := c.TryAcquire(context.Background(), "r", quarantineTTL)
		if errors.Is(err, redlock.ErrNoFloor) {
			return nil
		}
		return fmt.Errorf("not without a floor: %w", err)
	})
	reset, err := admin.ResetFence(t.Context(), f.reach(redlock.Config{MaxTTL: quarantineTTL}), last)
	require.NoError(t, err)
	require.Greater(t, reset.Floor, last)
	eventually(t, inTheEnd, func() error { return c.Ready(t.Context()) })
	require.Greater(t, f.fencedLock(c), reset.Floor)
	most := reset.Floor + uint64(time.Hour.Microseconds())
	reset, err = admin.ResetFence(t.Context(), f.reach(redlock.Config{MaxTTL: quarantineTTL}), most)
	require.NoError(t, err)
	require.Equal(t, most, reset.Floor)
	require.Greater(t, f.fencedLock(c), most)
}

// leastRights are those of docs/deploy.md, "Users and rights".
var leastRights = []string{
	"+set", "+get", "+mget", "+del", "+pexpire", "+pttl", "+evalsha", "+script|load", "+hello", "+auth", "+client|setname",
	"+client|id", "+client|info", "+client|kill", "+client|tracking", "+client|caching", "+ping", "+info", "+time", "+select",
}

// With a few rights more, those of docs/deploy.md suffice for read/write locks,
// semaphores and fair locks. Without these, the nodes answer with an error.
func TestAUserForLockers_R22(t *testing.T) {
	f := newFleet(t, 1, redistest.OverTCP)
	more := []string{"+exists", "+zadd", "+zrem", "+zscore", "+zrange", "+zrank", "+zcard", "+zremrangebyscore"}
	ofPermits := []string{"+zadd", "+zrange"}
	for i, rights := range [][]string{slices.Concat(leastRights, more), slices.Concat(leastRights, ofPermits), leastRights} {
		name := "u" + strconv.Itoa(i)
		f.must(0, slices.Concat([]string{"ACL", "SETUSER", name, "on", ">hunter2", "~lock:*"}, rights)...)
		config := f.reach(redlock.Config{Forgetful: true, NodeTimeout: patience})
		config.Username, config.Password, config.Prefix = name, "hunter2", "lock:"
		c, err := redlock.New(t.Context(), config)
		require.NoError(t, err)
		for kind, k := range map[string]redlock.Locker{
			"read": c.RW("r").Read(), "write": c.RW("w").Write(), "fair": c.Fair("f"), "a permit": c.Semaphore("s", 2),
		} {
			lock, err := k.TryAcquire(t.Context(), time.Second)
			if i > 1 || i > 0 && kind != "a permit" {
				require.ErrorIs(t, err, redlock.ErrNoQuorum, kind)
				require.Regexp(t, `answered with the error (NOPERM|ERR)`, err.Error(), kind) // not all servers have a class for it
				continue
			}
			require.NoError(t, err, kind)
			lock, err = lock.Extend(t.Context(), time.Second)
			require.NoError(t, err, kind)
			found, err := admin.Inspect(t.Context(), c, lock.Resource())
			require.NoError(t, err, kind)
			require.Contains(t, []admin.LockState{admin.StateHeld, admin.StateShared}, found.State, kind)
			require.NoError(t, lock.Release(t.Context()), kind)
		}
		rw := c.RW("x")
		if write, err := rw.Write().TryAcquire(t.Context(), time.Second); i == 0 {
			require.NoError(t, err)
			read, err := rw.Downgrade(t.Context(), write, time.Second)
			require.NoError(t, err)
			require.NoError(t, read.Release(t.Context()))
		}
		require.NotEqual(t, int64(-1), f.must(0, "PTTL", "lock:r:redlock:readers"), "a reader that may not be removed must end")
		_, err = admin.Inspect(t.Context(), c, "plain")
		require.NoError(t, err)
		f.must(0, "ZADD", "lock:readers:redlock:readers", "1", "x")
		if _, err := admin.Inspect(t.Context(), c, "readers"); i == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "it must not look free")
		}
		require.NoError(t, c.Close(context.Background()))
	}
}

// The rights of docs/deploy.md suffice for fenced locks, and a user without
// TIME is refused (R22).
func TestAUserForFencedLocks_R22(t *testing.T) {
	f := newFleet(t, 1, redistest.OverTCP)
	for i, without := range []string{"", "+time", "+mget"} {
		user := []string{"ACL", "SETUSER", "u" + strconv.Itoa(i), "on", ">hunter2", "~lock:*"}
		for _, right := range leastRights {
			if right != without {
				user = append(user, right)
			}
		}
		f.must(0, user...)
		config := f.reach(fencedConfig)
		config.Username, config.Password, config.Prefix = user[2], "hunter2", "lock:"
		if without == "" {
			_, err := redlock.Init(t.Context(), config)
			require.NoError(t, err)
		}
		c, err := redlock.New(t.Context(), config)
		require.NoError(t, err)
		if without == "" {
			require.NoError(t, c.Ready(t.Context()))
		}
		lock, err := c.TryAcquire(t.Context(), "r", time.Second)
		if without == "" {
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
		} else {
			require.ErrorIs(t, err, multiplex.ErrPermissions, "without %s", without)
		}
		require.NoError(t, c.Close(context.Background()))
	}
}
