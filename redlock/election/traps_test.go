package election

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

// Traps that other implementations of elections fell into, a test for each.

// shift is work that must not be done by two at a time.
type shift struct {
	workers, most, begun atomic.Int32
	linger               time.Duration // after the context has ended
}

func (s *shift) work(ctx context.Context) error {
	s.most.Store(max(s.most.Load(), s.workers.Add(1)))
	s.begun.Add(1)
	<-ctx.Done()
	time.Sleep(s.linger)
	s.workers.Add(-1)
	return nil
}

// client-go leaves it to the caller that the lease is not released before the
// work has ended.
func TestTrapResigningBeforeTheWorkHasEnded(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		s := shift{linger: 2 * electionTTL}
		a := stand(t, candidate(t, m, "a"), Options{}, s.work)
		time.Sleep(10 * ms)
		b := stand(t, candidate(t, m, "b"), Options{}, s.work)
		time.Sleep(time.Second)
		require.NoError(t, a.StepDown(t.Context()))
		time.Sleep(20 * ms)
		require.True(t, b.IsLeader())
		require.EqualValues(t, 1, s.most.Load())
		require.ErrorIs(t, b.retire(), context.Canceled)
		time.Sleep(electionTTL)
		require.True(t, a.IsLeader())
		require.ErrorIs(t, a.retire(), context.Canceled)
		require.EqualValues(t, 1, s.most.Load())
		require.EqualValues(t, 3, s.begun.Load())
	})
}

// https://github.com/kubernetes/client-go/issues/1155
func TestTrapNeverCampaigningAgain(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		var done journal[TermInfo]
		o := Options{TermDone: done.add}
		r := stand(t, candidate(t, m, "a"), o, func(ctx context.Context) error {
			<-ctx.Done()
			return errWork // says nothing about the next term
		})
		for i := range 5 {
			time.Sleep(electionTTL)
			require.True(t, r.IsLeader(), "after %d losses", i)
			m.Forget("e")
		}
		time.Sleep(electionTTL)
		for i, info := range done.all() {
			require.ErrorIs(t, info.Cause, redlock.ErrLost)
			require.Equal(t, errWork, info.Err)
			require.Less(t, info.Term, r.terms.all()[i+1])
			require.Less(t, info.Until.Sub(info.Since), 2*electionTTL)
		}
		require.Len(t, done.all(), 5)
		require.ErrorIs(t, r.retire(), errWork)
	})
}

// apart returns a client that has a network of its own to the nodes.
func apart(t *testing.T, m *memory, name string) (*redlock.Client, *redistest.Network) {
	t.Helper()
	own := m.Wires(t)
	c := m.Opened(t, trial.Fenced(func(c *redlock.Config) { c.Owner, c.MaxTTL, c.Connect.NetDial = name, electionTTL, own.Dial }))
	return c, own
}

// https://github.com/kubernetes/kubernetes/pull/112278
func TestTrapReleaseWithTheEndedContext(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		m.Far(40 * ms) // so long that a caller whose context has ended would not wait
		var done journal[TermInfo]
		r := stand(t, c, Options{TermDone: done.add}, nil)
		time.Sleep(time.Second)
		begun := time.Now()
		require.ErrorIs(t, r.retire(), context.Canceled)
		require.InDelta(t, 40*ms, time.Since(begun), float64(3*ms), "it waits for the answers")
		require.NoError(t, done.all()[0].Released)
		require.Equal(t, admin.StateFree, inspect(t, c, "e").State)
	})
}

// A candidate that steps down leaves the others the time to win, and then
// stands again.
func TestTrapSteppingDownAndWinningAtOnce(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		r := stand(t, candidate(t, m, "a"), Options{Rest: 5 * time.Second}, nil)
		time.Sleep(10 * ms)
		require.NoError(t, r.StepDown(t.Context()))
		require.Equal(t, []error{ErrSteppedDown}, r.causes.all())
		for range 49 {
			time.Sleep(100 * ms)
			require.False(t, r.IsLeader())
		}
		time.Sleep(200 * ms)
		require.True(t, r.IsLeader())
		require.ErrorIs(t, r.retire(), context.Canceled)

		r = stand(t, r.client, Options{}, nil)
		time.Sleep(10 * ms)
		require.NoError(t, r.StepDown(t.Context()))
		time.Sleep(electionTTL - 100*ms)
		require.False(t, r.IsLeader())
		begun := time.Now()
		require.ErrorIs(t, r.retire(), context.Canceled)
		require.Zero(t, time.Since(begun), "it does not rest on")
	})
}
