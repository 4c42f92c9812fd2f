package certmagiclock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/contrib/certmagiclock"
	"github.com/redmux/redmux/contrib/internal/lost/losttest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

func newLocker(t *testing.T, d *redlocktest.Deployment) *certmagiclock.Locker {
	t.Helper()
	locker, err := certmagiclock.New(d.Client(t), certmagiclock.Options{})
	require.NoError(t, err)
	return locker
}

func TestLocksAreKeptAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		first, second := newLocker(t, d), newLocker(t, d)
		ctx := t.Context()
		for _, name := range []string{"issue_cert_example.com", "", "a/b\r\n\x00", strings.Repeat("long", 1000)} {
			require.NoError(t, first.Lock(ctx, name))
			ok, err := second.TryLock(ctx, name)
			require.NoError(t, err)
			require.False(t, ok)

			time.Sleep(time.Hour)
			require.NoError(t, first.RenewLockLease(ctx, name, time.Minute), "it renews itself")
			short, cancel := context.WithTimeout(ctx, time.Second)
			require.ErrorIs(t, second.Lock(short, name), context.DeadlineExceeded)
			ok, err = second.TryLock(short, name)
			require.ErrorIs(t, err, context.DeadlineExceeded, "an unknown state is an error, not a refusal")
			require.False(t, ok)
			cancel()

			got := make(chan error)
			go func() { got <- second.Lock(ctx, name) }()
			synctest.Wait()
			require.NoError(t, first.Unlock(short, name), "even if its context has ended")
			require.NoError(t, <-got)
			require.NoError(t, second.Unlock(ctx, name))
			ok, err = first.TryLock(ctx, name)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, first.Unlock(ctx, name))
			synctest.Wait()
			require.Empty(t, d.Node(0).Keys())
		}
	})
}

func TestWhatIsNotLockedHere(t *testing.T) {
	locker := newLocker(t, redlocktest.New(t, 1))
	require.ErrorIs(t, locker.Unlock(t.Context(), "x"), redlock.ErrNotHeld)
	require.ErrorIs(t, locker.RenewLockLease(t.Context(), "x", time.Minute), redlock.ErrNotHeld)
}

// certmagic unlocks with a context that may have ended, and needs the result.
func TestUnlockOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		locker := newLocker(t, d)
		require.NoError(t, locker.Lock(t.Context(), "x"))
		for _, n := range d.Nodes() {
			n.Delay(40 * time.Millisecond) // longer than the end of ctx goes unnoticed
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, locker.Unlock(ended, "x"))
	})
}

// certmagic keeps asking for thirty days after an error, and gets no
// certificate until the error is gone.
func TestALostLockIsAskedForOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		locker, other := newLocker(t, d), newLocker(t, d)
		ctx := t.Context()
		require.NoError(t, locker.Lock(ctx, "x"))
		for _, n := range d.Nodes() {
			n.Refuse(true)
		}
		time.Sleep(time.Minute)
		err := locker.RenewLockLease(ctx, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrLost)
		losttest.Require(t, err)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		err = locker.RenewLockLease(ended, "x", time.Minute)
		require.ErrorIs(t, err, context.Canceled)
		losttest.Require(t, err)
		for _, n := range d.Nodes() {
			n.Refuse(false)
		}
		time.Sleep(10 * time.Second) // until the nodes are up
		require.NoError(t, other.Lock(ctx, "x"))
		require.ErrorIs(t, locker.RenewLockLease(ctx, "x", time.Minute), redlock.ErrHeld)
		require.NoError(t, other.Unlock(ctx, "x"))
		require.NoError(t, locker.RenewLockLease(ctx, "x", time.Minute))
		time.Sleep(time.Hour)
		ok, err := other.TryLock(ctx, "x")
		require.NoError(t, err)
		require.False(t, ok, "the lock is held again, and renewed")
		require.NoError(t, locker.Unlock(ctx, "x"))
		require.ErrorIs(t, locker.Unlock(ctx, "x"), redlock.ErrNotHeld, "one Unlock for one Lock")
		synctest.Wait()
		require.Empty(t, d.Node(0).Keys())
	})
}

// certmagic's Unlock does not name the owner of the lock. An Unlock after a
// loss must not release the lock of another goroutine.
func TestALostLockIsNotTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		locker, other := newLocker(t, d), newLocker(t, d)
		ctx := t.Context()
		require.NoError(t, locker.Lock(ctx, "x"))
		for _, n := range d.Nodes() {
			n.RestartEmpty()
		}
		time.Sleep(40 * time.Second) // until the nodes count for both clients
		require.NoError(t, locker.Lock(ctx, "x"), "another goroutine")
		require.NoError(t, locker.RenewLockLease(ctx, "x", time.Minute), "neither waits for the other")
		err := locker.Unlock(ctx, "x")
		require.ErrorIs(t, err, redlock.ErrLost, "the first one's")
		losttest.Require(t, err)
		ok, err := other.TryLock(ctx, "x")
		require.NoError(t, err)
		require.False(t, ok, "the first one's Unlock ended the second one's lock")
		require.NoError(t, locker.RenewLockLease(ctx, "x", time.Minute))
		require.NoError(t, locker.Unlock(ctx, "x"))
		ok, err = other.TryLock(ctx, "x")
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, other.Unlock(ctx, "x"))
	})
}

// outage loses every lock: all nodes refuse connections for a minute.
func outage(d *redlocktest.Deployment) {
	for _, n := range d.Nodes() {
		n.Refuse(true)
	}
	time.Sleep(time.Minute)
	for _, n := range d.Nodes() {
		n.Refuse(false)
	}
	time.Sleep(10 * time.Second) // until the nodes are up
}

// Where two locks of one name were lost and the first was granted again, the
// Unlock that comes first still takes the lost one, whose goroutine has no lock.
func TestUnlockTakesTheLostOneWhereverItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		locker, other := newLocker(t, d), newLocker(t, d)
		ctx := t.Context()
		for range 2 {
			require.NoError(t, locker.Lock(ctx, "x"))
			outage(d)
		}
		require.NoError(t, locker.RenewLockLease(ctx, "x", time.Minute), "granted again")
		require.Error(t, locker.Unlock(ctx, "x"))
		ok, err := other.TryLock(ctx, "x")
		require.NoError(t, err)
		require.False(t, ok, "the Unlock of a lost lock ended one that is held")
		require.NoError(t, locker.Unlock(ctx, "x"))
	})
}

// Unlock comes while RenewLockLease has the lock granted again: that lock is
// given back, too, and not renewed for ever.
func TestUnlockDuringARenewalLeavesNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var during func()
		client := d.Client(t, func(c *redlock.Config) {
			c.Tracer = &redlock.Tracer{AttemptDone: func(context.Context, redlock.CallInfo) {
				if f := during; f != nil {
					during = nil
					f()
				}
			}}
		})
		locker, err := certmagiclock.New(client, certmagiclock.Options{})
		require.NoError(t, err)
		require.NoError(t, locker.Lock(t.Context(), "x"))
		outage(d)
		during = func() { _ = locker.Unlock(t.Context(), "x") }
		require.ErrorIs(t, locker.RenewLockLease(t.Context(), "x", time.Minute), redlock.ErrNotHeld)
		time.Sleep(time.Minute)
		require.Empty(t, d.Node(0).Keys())
	})
}

func TestErrorsAndOptions(t *testing.T) { synctest.Test(t, testErrorsAndOptions) }

func testErrorsAndOptions(t *testing.T) {
	d := redlocktest.New(t, 1)
	client := d.Client(t)
	for says, o := range map[string]certmagiclock.Options{
		"Prefix": {Prefix: strings.Repeat("p", 954)}, "certmagiclock: TTL is negative: -1ns": {TTL: -1},
	} {
		_, err := certmagiclock.New(client, o)
		require.ErrorContains(t, err, says)
	}
	locker, err := certmagiclock.New(client, certmagiclock.Options{Prefix: "tls:", TTL: 10 * time.Second})
	require.NoError(t, err)
	require.NoError(t, locker.Lock(t.Context(), "x"))
	require.Equal(t, []string{"tls:x"}, d.Node(0).Keys())
	require.NoError(t, locker.Unlock(t.Context(), "x"))
	d.Node(0).Stop()
	ok, err := locker.TryLock(t.Context(), "x")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.False(t, ok)
}
