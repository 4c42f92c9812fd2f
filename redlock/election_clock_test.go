package redlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/election"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

// Elections of a process that sleeps, whose clocks only this package sets.

const termTTL = 3 * time.Second

// elected runs an election whose client sleeps as slept says. The channel
// receives the cause of each context that has ended.
func elected(
	t *testing.T, m *trial.Memory, slept func(kept bool) time.Duration, lead func(ctx context.Context),
) (e *election.Election, c *redlock.Client, retire func()) {
	t.Helper()
	c = m.Opened(t, trial.Fenced(func(c *redlock.Config) { c.Owner, c.MaxTTL = "a", termTTL }))
	redlock.Sleeps(c, slept)
	e, err := election.New(c, "e", election.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context, _ uint64) error {
			lead(ctx)
			return nil
		})
	}()
	return e, c, func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
}

// A process that slept for too long knows at once that it leads no more, though
// its function has noticed nothing.
func TestIsLeaderReadsTheClocks_R15(t *testing.T) {
	trial.Simulated(t, trial.AnyNumber, admin.Init, func(t *testing.T, m *trial.Memory) {
		var slept atomic.Int64
		causes := make(chan error, 9)
		e, _, retire := elected(t, m, func(bool) time.Duration { return time.Duration(slept.Load()) }, func(ctx context.Context) {
			time.Sleep(time.Second) // it has not noticed
			causes <- context.Cause(ctx)
		})
		time.Sleep(10 * time.Millisecond)
		require.True(t, e.IsLeader())
		slept.Store(int64(termTTL))
		require.False(t, e.IsLeader())
		time.Sleep(2 * time.Second)
		require.True(t, e.IsLeader(), "again")
		require.ErrorIs(t, <-causes, redlock.ErrLost)
		retire()
	})
}

// A process that does not run between the grant and the function does not lead
// (https://github.com/etcd-io/etcd/issues/21128).
func TestACandidateThatSleepsAfterTheGrant_R15(t *testing.T) {
	trial.Simulated(t, trial.AnyNumber, admin.Init, func(t *testing.T, m *trial.Memory) {
		var late atomic.Bool
		var terms atomic.Int64
		e, c, retire := elected(t, m, func(kept bool) time.Duration {
			if kept {
				late.Store(true)
			}
			if late.Load() {
				return termTTL
			}
			return 0
		}, func(ctx context.Context) {
			terms.Add(1)
			<-ctx.Done()
		})
		time.Sleep(50 * time.Millisecond)
		require.Zero(t, terms.Load())
		found, err := admin.Inspect(t.Context(), c, "e")
		require.NoError(t, err)
		require.Equal(t, admin.StateFree, found.State)
		time.Sleep(time.Second)
		require.True(t, e.IsLeader())
		retire()
	})
}
