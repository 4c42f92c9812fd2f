package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// Machines with the same clock ask at one instant and split the votes. Exactly
// one of them gets the lock all the same.
func TestContestAtOneInstant(t *testing.T) {
	const machines, times = 5, 10
	var asked atomic.Int32
	for range times {
		synctest.Test(t, func(t *testing.T) {
			d := redlocktest.New(t, 5)
			var all []*contest
			var locks atomic.Int32
			for range machines {
				client := d.Client(t, forgetful)
				all = append(all, &contest{client: client, resource: "job", most: 10 * time.Second, try: func(ctx context.Context) error {
					asked.Add(1)
					_, err := client.TryAcquire(ctx, "job", time.Minute)
					return err
				}})
			}
			for _, n := range d.Nodes() {
				n.Delay(time.Millisecond)
			}
			var wg sync.WaitGroup
			for _, c := range all {
				wg.Go(func() {
					err := c.run(t.Context())
					if err == nil {
						locks.Add(1)
						return
					}
					assert.ErrorIs(t, err, redlock.ErrHeld)
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, locks.Load())
		})
	}
	require.Greater(t, asked.Load(), int32(machines*times), "else no votes were split, and nothing is tested")
}

// A lock that another client holds is asked for once. One that no client can
// get, because of remains, is asked for only as long as the contest may take. A
// signal ends it.
func TestContestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 4)
		client := d.Client(t, forgetful)
		asked := 0
		c := &contest{client: client, resource: "job", most: 300 * time.Millisecond, try: func(ctx context.Context) error {
			asked++
			_, err := client.TryAcquire(ctx, "job", time.Minute)
			return err
		}}
		_, err := client.Acquire(t.Context(), "job", time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, c.run(t.Context()), redlock.ErrHeld)
		require.Equal(t, 1, asked)

		synctest.Wait()
		d.Node(0).RestartEmpty()
		d.Node(1).RestartEmpty()
		time.Sleep(10 * time.Second) // until they are up again
		begun := time.Now()
		require.ErrorIs(t, c.run(t.Context()), redlock.ErrHeld)
		require.LessOrEqual(t, time.Since(begun), c.most)
		require.Greater(t, asked, 2)

		ctx, interrupt := context.WithCancelCause(t.Context())
		signal := &errInterrupted{}
		c.try = func(context.Context) error { time.AfterFunc(1, func() { interrupt(signal) }); return redlock.ErrHeld }
		require.ErrorIs(t, c.run(ctx), signal)
	})
}
