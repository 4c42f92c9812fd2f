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

// A candidate that is cut off while it waits is neither elected by what it sent
// before, nor does it wait for ever:
// https://github.com/etcd-io/etcd/issues/19597
func TestTrapACandidateWhoseConnectionsDied(t *testing.T) {
	for name, cut := range map[string]func(*memory, *redistest.Network, bool){
		"silence": func(m *memory, network *redistest.Network, on bool) { m.Mute(network, on) },
		"reset": func(m *memory, network *redistest.Network, on bool) {
			for _, n := range m.Nodes {
				network.At(n.Addr()).Refuse(on)
				network.At(n.Addr()).Reset()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				s := shift{}
				a := stand(t, candidate(t, m, "a"), Options{}, s.work)
				time.Sleep(10 * ms)
				c, network := apart(t, m, "b")
				b := stand(t, c, Options{}, s.work)
				time.Sleep(time.Second)
				cut(m, network, true)
				time.Sleep(time.Second)
				require.ErrorIs(t, a.retire(), context.Canceled)
				for range 3 {
					time.Sleep(electionTTL)
					require.False(t, b.IsLeader())
				}
				third := stand(t, a.client, Options{}, s.work)
				time.Sleep(time.Second)
				require.True(t, third.IsLeader())
				cut(m, network, false)
				time.Sleep(5 * time.Second)
				require.True(t, third.IsLeader())
				require.False(t, b.IsLeader())
				require.ErrorIs(t, third.retire(), context.Canceled)
				time.Sleep(1200 * ms)
				require.True(t, b.IsLeader())
				require.Equal(t, "b", inspect(t, a.client, "e").Owner)
				require.ErrorIs(t, b.retire(), context.Canceled)
				require.EqualValues(t, 1, s.most.Load())
			})
		})
	}
}

// A renewal by a process that leads no more has no effect, even if the next
// leader has the same identity: https://github.com/riverqueue/river/pull/197
//
// It knows that it leads no more before the next one leads.
func TestTrapRenewalByANonLeader(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		c, network := apart(t, m, "same")
		s := shift{}
		a := stand(t, c, Options{}, s.work)
		time.Sleep(10 * ms)
		b := stand(t, candidate(t, m, "same"), Options{}, s.work)
		time.Sleep(electionTTL / 2)
		require.True(t, a.IsLeader())
		for _, n := range m.Nodes { // its renewals are under way for long
			network.At(n.Addr()).Pause(redistest.Up)
		}
		for !b.IsLeader() {
			time.Sleep(ms)
			require.False(t, a.IsLeader() && b.IsLeader())
		}
		require.False(t, a.IsLeader())
		held := inspect(t, b.client, "e")
		for _, n := range m.Nodes {
			network.At(n.Addr()).Resume(redistest.Up)
		}
		for range 10 {
			time.Sleep(100 * ms)
			now := inspect(t, b.client, "e")
			require.Equal(t, held.Holder, now.Holder)
			require.True(t, b.IsLeader())
			require.False(t, a.IsLeader())
		}
		require.Equal(t, b.terms.all()[0], inspect(t, b.client, "e").Fence)
		require.Greater(t, b.terms.all()[0], a.terms.all()[0])
		require.EqualValues(t, 1, s.most.Load())
		require.ErrorIs(t, a.retire(), context.Canceled)
		require.ErrorIs(t, b.retire(), context.Canceled)
		require.ErrorIs(t, a.causes.all()[0], redlock.ErrLost)
	})
}

// https://github.com/kubernetes/kubernetes/pull/112278
func TestTrapReleaseWithTheEndedContext(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		for i := range m.Nodes {
			m.Delay(i, 40*ms) // so long that a caller whose context has ended would not wait
		}
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
