package main

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
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

// --wait includes the time that connecting took.
func TestWaitIncludesConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		_, err := d.Client(t, forgetful).Acquire(t.Context(), "job", time.Hour)
		require.NoError(t, err)
		wait := 2 * time.Second
		run := runCommand{waiting: waiting{Wait: &wait}, Resource: "job", lifetime: lifetime{time.Minute}}
		begun := time.Now()
		opened := &deployment{Timeout: time.Minute, opened: begun.Add(-1500 * time.Millisecond)}
		_, _, err = run.hold(&process{signals: make(chan os.Signal)}, opened, d.Client(t, forgetful))
		require.Error(t, err)
		require.InDelta(t, 500, time.Since(begun).Milliseconds(), 50)
	})
}

// What refuses an attempt depends on its form, and what less than a quorum has
// decides nothing: those who have it may be asking at the same instant.
func TestWhatIsInTheWay(t *testing.T) {
	one, two := 1, 2
	some, most := []int{0, 4}, []int{0, 2, 4}
	on := func(nodes ...[]int) (all []admin.Participant) {
		for i, n := range nodes {
			all = append(all, admin.Participant{Number: i, Nodes: n})
		}
		return all
	}
	shared, exclusive, fair, first, second := form{Shared: true}, form{Exclusive: true}, form{Fair: true}, form{Permits: &one}, form{Permits: &two}
	for _, c := range []struct {
		found admin.Inspection
		want  []form
	}{
		{admin.Inspection{}, nil},
		{admin.Inspection{Readers: on(some, some)}, nil},
		{admin.Inspection{Readers: on(most, some)}, []form{exclusive}},
		{admin.Inspection{WriterWaits: true}, []form{shared}},
		{admin.Inspection{Permits: 2, PermitsHeld: on(some, most)}, []form{first}},
		{admin.Inspection{Permits: 2, PermitsHeld: on(most, most)}, []form{first, second}},
		{admin.Inspection{Permits: 1, PermitsHeld: on(most)}, []form{first, second}},
		{admin.Inspection{Permits: 1, PermitsHeld: on(some)}, nil},
		{admin.Inspection{Queue: on(some)}, nil},
		{admin.Inspection{Queue: on(some, most)}, []form{fair}},
	} {
		c.found.Nodes = make([]admin.InspectedNode, 5)
		var got []form
		for _, f := range []form{{}, shared, exclusive, fair, first, second} {
			if f.inTheWay(c.found) {
				got = append(got, f)
			}
		}
		require.Equal(t, c.want, got, "%+v", c.found)
	}
}

// Half of an even number of nodes decides nothing.
func TestHalfOfTheNodesIsNotInTheWay(t *testing.T) {
	found := admin.Inspection{Nodes: make([]admin.InspectedNode, 4), Readers: []admin.Participant{{Nodes: []int{1, 3}}}}
	require.False(t, (&form{Exclusive: true}).inTheWay(found))
	require.Empty(t, participantsText(found))
	found.Readers[0].Nodes = []int{1, 2, 3}
	require.True(t, (&form{Exclusive: true}).inTheWay(found))
	require.NotEmpty(t, participantsText(found))
}

// An attempt for a lock of any form that does not wait ends as soon as a quorum
// of nodes shows what is in its way.
func TestContestKnowsWhatIsInTheWay(t *testing.T) {
	one, two := 1, 2
	for name, c := range map[string]struct {
		form
		before func(ctx context.Context, client *redlock.Client)
	}{
		"a reader": {form{Exclusive: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.RW("job").Read().TryAcquire(ctx, time.Hour)
		}},
		"a writer": {form{Shared: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.RW("job").Write().TryAcquire(ctx, time.Hour)
		}},
		"a writer that waits": {form{Shared: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.RW("job").Read().TryAcquire(ctx, time.Hour)
			go client.RW("job").Write().Acquire(ctx, time.Hour)
		}},
		"the permit": {form{Permits: &one}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Semaphore("job", 1).TryAcquire(ctx, time.Hour)
		}},
		"both permits": {form{Permits: &two}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Semaphore("job", 2).TryAcquire(ctx, time.Hour)
			_, _ = client.Semaphore("job", 2).TryAcquire(ctx, time.Hour)
		}},
		"more permits than that": {form{Permits: &one}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Semaphore("job", 3).TryAcquire(ctx, time.Hour)
			_, _ = client.Semaphore("job", 3).TryAcquire(ctx, time.Hour)
		}},
		"a queue": {form{Fair: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Fair("job").TryAcquire(ctx, time.Hour)
			go client.Fair("job").Acquire(ctx, time.Hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := redlocktest.New(t, 5)
				for _, n := range d.Nodes() {
					n.Delay(time.Millisecond)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.before(ctx, d.Client(t, forgetful))
				time.Sleep(100 * time.Millisecond)
				run := runCommand{waiting: waiting{NoWait: true}, form: c.form, Resource: "job"}
				run.TTL = time.Minute
				p := &process{signals: make(chan os.Signal)}
				begun := time.Now()
				hold, _, err := run.hold(p, &deployment{Timeout: time.Second}, d.Client(t, forgetful))
				t.Log(time.Since(begun))
				require.ErrorIs(t, err, redlock.ErrHeld)
				require.Nil(t, hold)
				require.Less(t, time.Since(begun), 20*time.Millisecond)
			})
		})
	}
}
