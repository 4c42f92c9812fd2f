package gocronlock_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/contrib/gocronlock"
	"github.com/redmux/redmux/contrib/internal/lost/losttest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/election"
	"github.com/redmux/redmux/redlocktest"
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
		require.Less(t, client.Stats().Attempts.Held, uint64(50), "the pauses grow")

		// If it asked for longer than MinHold, it could run a short job that
		// another scheduler has run.
		begun = time.Now()
		_, err = newLocker(t, client, gocronlock.Options{MinHold: 400 * ms}).Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.LessOrEqual(t, time.Since(begun), 200*ms)

		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		begun = time.Now()
		_, err = locker.Lock(ctx, "job")
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(begun), 100*ms, "the scheduler is shut down")
	})
}

// The look for the holder and the pause after it both fit into half of MinHold:
// an attempt that begins later could run a short job again.
func TestNoAttemptBeginsAfterHalfOfMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		client := d.Client(t)
		_, err := client.Acquire(t.Context(), "gocron:job", 10*time.Second)
		require.NoError(t, err)
		locker := newLocker(t, client, gocronlock.Options{MinHold: 40 * ms})
		for _, n := range d.Nodes() {
			n.Delay(12 * ms)
		}
		for range 50 {
			begun := time.Now()
			_, err = locker.Lock(t.Context(), "job")
			require.ErrorIs(t, err, redlock.ErrHeld)
			require.LessOrEqual(t, time.Since(begun), (20+12)*ms, "half of MinHold, and the answer to the last attempt")
		}
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
		err = lock.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrLost)
		losttest.Require(t, err)
	})
}

func TestOptions(t *testing.T) { synctest.Test(t, testOptions) }

func testOptions(t *testing.T) {
	client := redlocktest.New(t, 1).Client(t)
	for says, o := range map[string]gocronlock.Options{
		"Prefix has 954 bytes, more than 953":             {Prefix: strings.Repeat("p", 954)},
		"TTL is negative: -1ns":                           {TTL: -1},
		"MinHold is 1m0s, more than the TTL, which is 1s": {TTL: time.Second, MinHold: time.Minute},
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

// candidate gives a client what an election needs.
func candidate(c *redlock.Config) { c.Fenced, c.Owner = true, "web-1" }

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
		begun := time.Now()
		first := newElector(t, d.Client(t, candidate))
		require.NoError(t, first.IsLeader(t.Context()))
		require.Less(t, time.Since(begun), 10*ms, "it waits for what it knows")
		observer := d.Client(t, candidate)
		second := newElector(t, observer)
		require.NoError(t, first.Context().Err())
		job, err := newLocker(t, d.Client(t), gocronlock.Options{}).Lock(t.Context(), "leader")
		require.NoError(t, err, "a job of the election's name")
		require.NoError(t, job.Unlock(t.Context()))
		err = second.IsLeader(t.Context())
		require.ErrorIs(t, err, gocronlock.ErrNotLeader)
		require.ErrorContains(t, err, "not elected yet")
		require.Error(t, second.Context().Err())
		hold, _ := redlock.FromContext(first.Context())
		l, err := election.Leader(t.Context(), observer, second.Election().Name())
		require.NoError(t, err)
		require.Equal(t, hold.Current().Fence(), l.Term)

		time.Sleep(time.Hour)
		require.NoError(t, first.IsLeader(t.Context()))
		require.Error(t, second.IsLeader(t.Context()))

		leading := first.Context()
		require.NoError(t, first.Close(t.Context()))
		require.Error(t, leading.Err())
		require.ErrorIs(t, first.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		time.Sleep(40 * ms)
		require.NoError(t, second.IsLeader(t.Context()), "it waits for the TTL after a clean exit")
		require.NoError(t, first.Close(t.Context()), "twice is harmless")
		require.ErrorContains(t, first.IsLeader(t.Context()), "closed", "the reason")
	})
}

// A client that gives up early is asked again and again.
func TestElectorOfAnImpatientClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		impatient := func(c *redlock.Config) { c.Retry.FailFast, c.Retry.Tries = true, 2 }
		d.Client(t) // opens the deployment
		d.Node(0).Refuse(true)
		d.Node(1).Refuse(true)
		client := d.Client(t, candidate, impatient)
		begun := time.Now()
		e := newElector(t, client)
		require.Less(t, time.Since(begun), time.Second, "no quorum answers")
		require.ErrorIs(t, e.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		time.Sleep(time.Minute)
		d.Node(0).Refuse(false)
		time.Sleep(2 * time.Minute)
		require.NoError(t, e.IsLeader(t.Context()))
		require.NoError(t, client.Close(t.Context()))
		require.ErrorIs(t, e.IsLeader(t.Context()), redlock.ErrClosed)
		synctest.Wait()
		require.ErrorIs(t, e.IsLeader(t.Context()), redlock.ErrClosed)
		require.NoError(t, e.Close(t.Context()), "there is nothing to release")
	})
}

// Where waiting does not help, such as with masters that have all lost their
// fencing numbers, an election gives up. A scheduler would not learn that, so
// the Elector stands again until an operator has reset the numbers.
func TestElectorOutlivesAMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		client := d.Client(t, candidate, func(c *redlock.Config) { c.Logger = slog.New(slog.DiscardHandler) })
		e := newElector(t, client)
		for _, n := range d.Nodes() {
			n.RestartEmpty()
		}
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, e.IsLeader(t.Context()), redlock.ErrNoFloor, "the reason")
		before := client.Stats().Attempts.NoQuorum
		time.Sleep(time.Minute)
		require.LessOrEqual(t, client.Stats().Attempts.NoQuorum-before, uint64(200), "it pauses between candidacies")
		config := d.Config()
		config.Fenced = true
		_, err := admin.ResetFence(t.Context(), config, 0)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.NoError(t, e.IsLeader(t.Context()))
	})
}

func TestElectorThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		leads := newElector(t, d.Client(t, candidate))
		try := func(ctx context.Context, client *redlock.Client) error {
			_, err := gocronlock.NewElector(ctx, client, "leader", gocronlock.Options{})
			return err
		}
		closed := d.Client(t, candidate)
		require.NoError(t, closed.Close(t.Context()))
		require.ErrorIs(t, try(t.Context(), closed), redlock.ErrClosed)
		require.ErrorIs(t, try(t.Context(), d.Client(t)), election.ErrCandidate)
		require.ErrorContains(t, try(t.Context(), d.Client(t)), "Config.Fenced")
		require.ErrorContains(t, try(t.Context(), d.Client(t, func(c *redlock.Config) { c.Fenced = true })), "Config.Owner")
		short := d.Client(t, candidate, func(c *redlock.Config) { c.MaxTTL = time.Second })
		require.ErrorIs(t, try(t.Context(), short), redlock.ErrTTL)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, try(ended, d.Client(t, candidate)), context.Canceled)
		require.NoError(t, leads.IsLeader(t.Context()), "none of them was in its way")
		require.NoError(t, leads.Close(t.Context()))
		time.Sleep(time.Minute)
		require.Empty(t, d.Node(0).Keys(), "one of them has remained a candidate")
	})
}

// Close says whether the next process can lead at once.
func TestElectorsCloseReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		first := newElector(t, d.Client(t, candidate))
		for _, n := range d.Nodes() {
			n.Delay(40 * ms)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, first.Close(ended), context.Canceled)
		time.Sleep(40 * ms)
		require.Empty(t, d.Node(0).Keys(), "the release was on its way")

		second := newElector(t, d.Client(t, candidate))
		for _, n := range d.Nodes() {
			n.Refuse(true)
		}
		require.ErrorIs(t, second.Close(t.Context()), redlock.ErrNoQuorum)
	})
}

// Several processes that start at one instant: one leads when all have started,
// however long the others were kept from the nodes.
func TestElectorsThatStartAtOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 5)
		for _, n := range d.Nodes() {
			n.Delay(ms)
		}
		var wg sync.WaitGroup
		var leaders atomic.Int32
		begun := time.Now()
		for range 5 {
			client := d.Client(t, candidate)
			wg.Go(func() {
				e, err := gocronlock.NewElector(t.Context(), client, "leader", gocronlock.Options{})
				if !assert.NoError(t, err) {
					return
				}
				assert.Less(t, time.Since(begun), time.Second)
				if e.IsLeader(t.Context()) == nil {
					leaders.Add(1)
				}
				t.Cleanup(func() { _ = e.Close(context.Background()) })
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, leaders.Load())
	})
}
