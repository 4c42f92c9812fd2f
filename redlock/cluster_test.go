package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/election"
	"github.com/stretchr/testify/require"
)

// In a cluster, a command or a script has keys of one slot only. With a whole
// hash tag in the prefix, all that the library does has: each kind of lock, an
// election and what operators do, whatever names there are. One server has all
// slots here, since a key of another one would be on another server.
func TestAllKeysInOneSlotOfACluster_R24(t *testing.T) {
	f := newFleet(t, 1, redistest.OverUnix, redistest.Args("--cluster-enabled", "yes"))
	if _, err := f.servers[0].Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); err != nil {
		t.Skip("a server before Redis 7.0: ", err)
	}
	eventually(t, inTheEnd, func() error {
		if _, err := f.servers[0].Do("SET", "x", "1", "PX", "1"); err != nil {
			return fmt.Errorf("the cluster is not up: %w", err)
		}
		return nil
	})
	config := f.reach(redlock.Config{
		MaxTTL: time.Minute, NodeTimeout: patience, Prefix: "{locks}:", Owner: "web-1", Fenced: true,
		Allow: redlock.Allow{Cluster: true},
	})
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
	fenced := clusterClient(t, config)
	config.Fenced = false
	plain := clusterClient(t, config)
	for i, name := range []string{"r", "a{b}c", "}{", "{}", "{locks", strings.Repeat("k", 1024)} {
		inOneSlot(t, plain, name, i == 0)
		inOneSlot(t, fenced, name, false)
	}
	leadOnce(t, fenced)
	_, err = plain.TryAcquire(t.Context(), "listed", time.Minute)
	require.NoError(t, err)
	f.must(0, "SET", "another slot's", strings.Repeat("x", 27), "PX", "60000")
	listing, err := admin.List(t.Context(), plain, admin.ListOptions{})
	require.NoError(t, err)
	require.Len(t, listing.Locks, 1)
	require.Equal(t, "listed", listing.Locks[0].Resource)
	f.must(0, "DEL", "another slot's")
	config.Fenced = true
	_, err = admin.ResetFence(t.Context(), config, 1)
	require.NoError(t, err)

	slot, ok := pure.PrefixSlot(config.Prefix)
	require.True(t, ok)
	all := f.must(0, "DBSIZE").(int64)
	require.Positive(t, all)
	require.Equal(t, all, f.must(0, "CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(slot)))

	config.Prefix = "locks:"
	_, err = admin.Init(t.Context(), config)
	require.ErrorContains(t, err, "CROSSSLOT", "without a tag there is no deployment")
}

func clusterClient(t *testing.T, config redlock.Config) *redlock.Client {
	t.Helper()
	c, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	require.NoError(t, c.Ready(t.Context()))
	return c
}

// inOneSlot takes locks of all kinds with a name through their lives. With
// holds, it also waits for renewals.
func inOneSlot(t *testing.T, c *redlock.Client, name string, holds bool) {
	t.Helper()
	rw, semaphore := c.RW(name), c.Semaphore(name, 2)
	for kind, l := range map[string]redlock.Locker{
		"plain": c.Lock(name), "several": c.All(name, "another"), "reader": rw.Read(), "writer": rw.Write(), "permit": semaphore, "fair": c.Fair(name),
	} {
		lock, err := l.Acquire(t.Context(), 10*time.Second)
		require.NoError(t, err, kind)
		lock, err = lock.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err, kind)
		var other redlock.Lock
		if kind == "permit" { // the last one
			other, err = semaphore.TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
		}
		_, err = admin.Inspect(t.Context(), c, name)
		require.NoError(t, err, kind)
		waiter := l
		if kind == "reader" {
			waiter = rw.Write()
		}
		waited := make(chan error, 1)
		go func() {
			next, err := waiter.Acquire(t.Context(), 10*time.Second)
			if err == nil {
				err = next.Release(t.Context())
			}
			waited <- err
		}()
		time.Sleep(20 * time.Millisecond) // whether it waits by now or not
		require.NoError(t, lock.Release(t.Context()), kind)
		require.NoError(t, <-waited, kind)
		if kind == "permit" {
			require.NoError(t, other.Release(t.Context()))
		}
		if holds {
			held, err := waiter.Hold(t.Context(), redlock.HoldOptions{TTL: 3 * time.Second})
			require.NoError(t, err, kind)
			first := held.Until()
			require.Eventually(t, func() bool { return held.Until().After(first) }, inTheEnd, 10*time.Millisecond, kind)
			require.NoError(t, held.Release(t.Context()), kind)
		}
	}
	read, err := rw.Read().Acquire(t.Context(), time.Minute)
	require.NoError(t, err)
	write, err := rw.Upgrade(t.Context(), read, time.Minute)
	require.NoError(t, err)
	require.NoError(t, read.Release(t.Context()))
	read, err = rw.Downgrade(t.Context(), write, time.Minute)
	require.NoError(t, err)
	require.NoError(t, read.Release(t.Context()))

	var wg sync.WaitGroup // their releases are merged
	for i := range 20 {
		wg.Go(func() {
			lock, err := c.Acquire(t.Context(), fmt.Sprint("{", i, "}"), time.Second)
			if err = errors.Join(err, lock.Release(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// leadOnce takes an election through a term.
func leadOnce(t *testing.T, c *redlock.Client) {
	t.Helper()
	e, err := election.New(c, "leader", election.Options{TTL: 10 * time.Second})
	require.NoError(t, err)
	done := errors.New("done")
	err = e.Run(t.Context(), func(ctx context.Context, term uint64) error {
		led, err := election.Leader(ctx, c, "leader")
		if err == nil && led.Term != term {
			err = fmt.Errorf("term %d: %+v", term, led)
		}
		return errors.Join(err, done)
	})
	require.Equal(t, done.Error(), err.Error())
}
