package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/contrib/gocronlock"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// unlocker stands for gocron.Lock; contrib/adapters tests with the real one.
type unlocker interface {
	Unlock(ctx context.Context) error
}

func newLocker(t *testing.T, client *redlock.Client, o gocronlock.Options) *gocronlock.Locker[unlocker] {
	t.Helper()
	locker, err := gocronlock.NewLocker[unlocker](client, o)
	require.NoError(t, err)
	return locker
}

// A short job runs once even if another scheduler is late, and a long one is
// locked for as long as it runs.
func TestOneSchedulerRunsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		first, second := newLocker(t, d.Client(t), gocronlock.Options{}), newLocker(t, d.Client(t), gocronlock.Options{})
		lock, err := first.Lock(t.Context(), "job")
		require.NoError(t, err)
		other, err := first.Lock(t.Context(), "another job")
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"gocron:another job", "gocron:job"}, d.Node(0).Keys())

		require.NoError(t, lock.Unlock(t.Context()))
		time.Sleep(450 * ms)
		_, err = second.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrHeld, "MinHold")
		time.Sleep(100 * ms)
		lock, err = second.Lock(t.Context(), "job")
		require.NoError(t, err)

		time.Sleep(time.Hour)
		_, err = first.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrHeld, "the lock was not renewed")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, n := range d.Nodes() {
			n.Delay(40 * ms) // longer than the end of ctx goes unnoticed
		}
		require.NoError(t, lock.Unlock(ended), "a scheduler that is shut down")
		time.Sleep(40 * ms)
		require.Empty(t, d.Node(0).Keys())
	})
}

// Schedulers whose clocks agree split the votes. Still exactly one of them runs
// the job.
func TestSchedulersThatAskAtOneInstant(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			d := redlocktest.New(t, 5)
			var lockers []*gocronlock.Locker[unlocker]
			for range 5 {
				lockers = append(lockers, newLocker(t, d.Client(t), gocronlock.Options{}))
			}
			for _, n := range d.Nodes() {
				n.Delay(ms)
			}
			var wg sync.WaitGroup
			var locks atomic.Int32
			for _, l := range lockers {
				wg.Go(func() {
					lock, err := l.Lock(t.Context(), "job")
					if err == nil {
						locks.Add(1)
						err = lock.Unlock(t.Context())
					} else if errors.Is(err, redlock.ErrHeld) {
						err = nil
					}
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, locks.Load())
		})
	}
}

// Half of the nodes still have the key of a client that is gone: there is no
// holder, and the lock cannot be acquired. A scheduler soon stops asking.
func TestALockThatNobodyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 4)
		client := d.Client(t, func(c *redlock.Config) { c.Forgetful = true })
		_, err := client.Acquire(t.Context(), "gocron:job", time.Hour)
		require.NoError(t, err)
		synctest.Wait()
		d.Node(0).RestartEmpty()
		d.Node(1).RestartEmpty()
		time.Sleep(10 * time.Second) // until the nodes are up again
		locker := newLocker(t, client, gocronlock.Options{TTL: time.Hour, MinHold: time.Hour})
		begun := time.Now()
		_, err = locker.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.LessOrEqual(t, time.Since(begun), time.Second+100*ms)

		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		begun = time.Now()
		_, err = locker.Lock(ctx, "job")
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(begun), 100*ms, "the scheduler is shut down")
	})
}

func TestAJobsLockThatWasLostOrCannotBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		locker := newLocker(t, d.Client(t), gocronlock.Options{TTL: time.Second, MinHold: -1})
		lock, err := locker.Lock(t.Context(), "job")
		require.NoError(t, err)
		for _, n := range d.Nodes() {
			n.Stop()
		}
		_, err = locker.Lock(t.Context(), "another")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
	})
}

func TestOptions(t *testing.T) { synctest.Test(t, testOptions) }

func testOptions(t *testing.T) {
	client := redlocktest.New(t, 1).Client(t)
	for says, o := range map[string]gocronlock.Options{
		"Prefix has more": {Prefix: strings.Repeat("p", 954)},
		"positive":        {TTL: -1},
		"MinHold":         {TTL: time.Second, MinHold: time.Minute},
	} {
		_, err := gocronlock.NewLocker[unlocker](client, o)
		require.ErrorContains(t, err, says)
		_, err = gocronlock.NewElector(t.Context(), client, "e", o)
		require.ErrorContains(t, err, says)
	}
	_, err := gocronlock.NewLocker[interface {
		unlocker
		More()
	}](client, gocronlock.Options{})
	require.ErrorContains(t, err, "not gocron.Lock")

	// Names of any length and bytes, and a TTL so short that MinHold must be
	// shorter, too.
	locker := newLocker(t, client, gocronlock.Options{Prefix: strings.Repeat("p", 953), TTL: 200 * ms})
	for _, name := range []string{"", "\r\n\x00", strings.Repeat("n", 5000)} {
		lock, err := locker.Lock(t.Context(), name)
		require.NoError(t, err, "%.10q", name)
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

func newElector(t *testing.T, client *redlock.Client) *gocronlock.Elector {
	t.Helper()
	e, err := gocronlock.NewElector(t.Context(), client, "leader", gocronlock.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

func TestOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		first, second := newElector(t, d.Client(t)), newElector(t, d.Client(t))
		require.NoError(t, first.IsLeader(t.Context()))
		require.NoError(t, first.Context().Err())
		job, err := newLocker(t, d.Client(t), gocronlock.Options{}).Lock(t.Context(), "leader")
		require.NoError(t, err, "a job of the election's name")
		require.NoError(t, job.Unlock(t.Context()))
		err = second.IsLeader(t.Context())
		require.ErrorIs(t, err, gocronlock.ErrNotLeader)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Error(t, second.Context().Err())

		time.Sleep(time.Hour)
		require.NoError(t, first.IsLeader(t.Context()))
		require.Error(t, second.IsLeader(t.Context()))

		leading := first.Context()
		require.NoError(t, first.Close(t.Context()))
		require.Error(t, leading.Err())
		require.ErrorIs(t, first.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		time.Sleep(time.Second)
		require.NoError(t, second.IsLeader(t.Context()))
		require.NoError(t, first.Close(t.Context()), "twice is harmless")
	})
}

// There are never two leaders while nodes go and come, and in the end there is
// one again.
func TestLeadershipIsLostWithTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		first, second := newElector(t, d.Client(t)), newElector(t, d.Client(t))
		leading := first.Context()
		d.Node(0).Refuse(true)
		d.Node(1).Refuse(true)
		begun := time.Now()
		<-leading.Done()
		require.ErrorIs(t, context.Cause(leading), redlock.ErrLost)
		require.Less(t, time.Since(begun), 30*time.Second, "the TTL")
		require.ErrorIs(t, first.IsLeader(t.Context()), gocronlock.ErrNotLeader)

		d.Node(0).Refuse(false)
		d.Node(1).Refuse(false)
		leaders := func() (n int) {
			for _, e := range []*gocronlock.Elector{first, second} {
				if e.IsLeader(t.Context()) == nil {
					n++
				}
			}
			return n
		}
		for time.Since(begun) < time.Hour && leaders() == 0 {
			time.Sleep(ms)
		}
		require.Less(t, time.Since(begun), 2*time.Minute, "no process leads")
		for range 1000 {
			require.LessOrEqual(t, leaders(), 1)
			time.Sleep(100 * ms)
		}
	})
}

// A client that gives up early is asked again and again. A client that is
// closed, or that wants shorter TTLs, is not.
func TestElectorOfAnImpatientClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		impatient := func(c *redlock.Config) { c.FailFast, c.MaxTries = true, 2 }
		d.Node(0).Stop()
		d.Node(1).Stop()
		client := d.Client(t, impatient)
		e := newElector(t, client)
		require.ErrorIs(t, e.IsLeader(t.Context()), redlock.ErrNoQuorum)
		time.Sleep(time.Minute)
		d.Node(0).Start()
		for e.IsLeader(t.Context()) != nil {
			time.Sleep(ms)
		}
		require.NoError(t, client.Close(t.Context()))
		require.ErrorIs(t, e.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		synctest.Wait()
		require.NoError(t, e.Close(t.Context()), "there is nothing to release")

		_, err := gocronlock.NewElector(t.Context(), client, "leader", gocronlock.Options{})
		require.ErrorIs(t, err, redlock.ErrClosed)
		short := d.Client(t, func(c *redlock.Config) { c.MaxTTL = time.Second })
		_, err = gocronlock.NewElector(t.Context(), short, "leader", gocronlock.Options{})
		require.ErrorIs(t, err, redlock.ErrTTL)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = gocronlock.NewElector(ended, d.Client(t), "leader", gocronlock.Options{})
		require.ErrorIs(t, err, context.Canceled)
	})
}
