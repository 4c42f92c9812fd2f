package election

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/internal/inside"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

// A sighting is what Watch reported, and when.
type sighting struct {
	Leadership
	at time.Time
}

// observe reads Watch in a goroutine until ctx ends. The function that it
// returns returns what is new.
func observe(ctx context.Context, c *redlock.Client, name string) (fresh func() []sighting) {
	all := make(chan sighting, 100)
	go func() {
		for l := range Watch(ctx, c, name) {
			all <- sighting{l, time.Now()}
		}
	}()
	return func() (found []sighting) {
		synctest.Wait()
		for len(all) > 0 {
			found = append(found, <-all)
		}
		return found
	}
}

// Observers of other implementations report the wrong leader, never that there
// is none, or block where there never was one:
// https://github.com/etcd-io/etcd/issues/18163
func TestTrapObserverOfNoLeader(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		observer := m.Client(t, redlock.Config{MaxTTL: electionTTL}) // neither Fenced nor Owner
		require.NoError(t, observer.Ready(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fresh := observe(ctx, observer, "e")
		termed := observe(ctx, c, "e")
		time.Sleep(10 * ms)
		first := fresh()
		require.Len(t, first, 1)
		require.Equal(t, Leadership{State: admin.StateFree}, first[0].Leadership)
		time.Sleep(time.Minute)
		require.Empty(t, fresh(), "nothing has changed")

		a := stand(t, c, Options{}, nil)
		time.Sleep(1100 * ms)
		found := fresh()
		require.Len(t, found, 1)
		held := inspect(t, c, "e")
		require.Equal(t, Leadership{State: admin.StateHeld, Leader: "a", Holder: held.Holder}, found[0].Leadership)
		known := termed()
		require.Equal(t, Leadership{State: admin.StateHeld, Leader: "a", Holder: held.Holder, Term: a.terms.all()[0]}, known[len(known)-1].Leadership)
		time.Sleep(5 * electionTTL)
		require.Empty(t, fresh(), "renewals are no news")

		m.Nodes[0].DB().Delete("e")
		m.Nodes[0].DB().Set("e", "another's", time.Second)
		time.Sleep(time.Second)
		require.Empty(t, fresh(), "a minority has no say")

		b := stand(t, candidate(t, m, "b"), Options{}, nil)
		time.Sleep(time.Second)
		ended := time.Now()
		require.ErrorIs(t, a.retire(), context.Canceled)
		time.Sleep(time.Second)
		found = fresh()
		require.Equal(t, "b", found[len(found)-1].Leader)
		require.Less(t, found[len(found)-1].at.Sub(ended), 100*ms, "it was pushed")
		ended = time.Now()
		require.ErrorIs(t, b.retire(), context.Canceled)
		time.Sleep(time.Second)
		found = fresh()
		require.Len(t, found, 1)
		require.Equal(t, Leadership{State: admin.StateFree}, found[0].Leadership)
		require.Less(t, found[0].at.Sub(ended), 50*ms, "it was pushed")
		now, err := Leader(t.Context(), observer, "e")
		require.NoError(t, err)
		require.Equal(t, Leadership{State: admin.StateFree}, now)
	})
}

// A leader that dies is reported as gone when its keys have expired, though no
// release pushes that.
func TestWatchOfALeaderThatDies(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c, network := apart(t, m, "a")
		observer := candidate(t, m, "b")
		a := stand(t, c, Options{}, nil)
		time.Sleep(10 * ms)
		fresh := observe(t.Context(), observer, "e")
		time.Sleep(time.Second)
		require.Len(t, fresh(), 1)
		m.Mute(network, true)
		time.Sleep(electionTTL + 1200*ms)
		found := fresh()
		require.NotEmpty(t, found)
		require.Equal(t, admin.StateFree, found[len(found)-1].State)
		require.False(t, a.IsLeader())
		m.Mute(network, false)
		require.ErrorIs(t, a.retire(), context.Canceled)
	})
}

// With a prefix, the observer asks about the key as it stands on the nodes:
// then a push tells it, and it need not ask all the time.
func TestWatchWithAPrefixIsTold_R11(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{Prefix: "lock:"})
		held := trial.MustAcquire(t, c, "e", time.Minute)
		fresh := observe(t.Context(), m.Client(t, redlock.Config{Prefix: "lock:"}), "e")
		for range 5 {
			before := m.Calls("PTTL")
			time.Sleep(10 * time.Second)
			require.LessOrEqual(t, m.Calls("PTTL")-before, 3*3*20)
			fresh()
			require.NoError(t, held.Release(t.Context()))
			time.Sleep(50 * ms)
			found := fresh()
			require.Len(t, found, 1)
			require.Equal(t, admin.StateFree, found[0].State)
			held = trial.MustAcquire(t, c, "e", time.Minute)
		}
	})
}

// A further term of the same leader is news, even if the observer did not see
// the time between.
func TestWatchReportsTheSameLeadersNextTerm(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		held := trial.MustAcquire(t, c, "e", electionTTL)
		fresh := observe(t.Context(), c, "e")
		time.Sleep(time.Second)
		before := fresh()
		require.NoError(t, held.Release(t.Context()))
		trial.MustAcquire(t, c, "e", electionTTL) // before the observer looks
		time.Sleep(time.Second)
		after := fresh()
		require.Len(t, after, 1)
		require.Equal(t, "a", after[0].Leader)
		require.Greater(t, after[0].Term, before[len(before)-1].Term)
	})
}

// However long a term was, after its end the observer looks as often as it did
// at the start: a leader that follows at once is seen at once.
func TestWatchLooksOftenAfterEachLongTerm(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		fresh := observe(t.Context(), m.Client(t, redlock.Config{}), "e")
		for range 5 {
			held := trial.MustAcquire(t, c, "e", time.Hour)
			time.Sleep(time.Minute)
			fresh()
			require.NoError(t, held.Release(t.Context()))
			time.Sleep(60 * ms)
			require.Len(t, fresh(), 1)
			held = trial.MustAcquire(t, c, "e", time.Hour)
			time.Sleep(200 * ms) // far below the fallback
			found := fresh()
			require.Len(t, found, 1)
			require.Equal(t, admin.StateHeld, found[0].State)
			require.NoError(t, held.Release(t.Context()))
			time.Sleep(time.Minute)
			fresh()
		}
	})
}

// That a quorum does not answer is reported, with the causes, and so is its
// return.
func TestWatchIsUnclear(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		a := stand(t, c, Options{}, nil)
		time.Sleep(10 * ms)
		observer, network := apart(t, m, "b")
		require.NoError(t, observer.Ready(t.Context()))
		fresh := observe(t.Context(), observer, "e")
		time.Sleep(time.Second)
		require.Equal(t, admin.StateHeld, fresh()[0].State)
		for _, n := range m.Nodes {
			network.At(n.Addr()).Refuse(true)
			network.At(n.Addr()).Reset()
		}
		time.Sleep(2 * time.Second)
		found := fresh()
		require.Len(t, found, 1)
		require.Equal(t, admin.StateUnclear, found[0].State)
		require.ErrorIs(t, found[0].Err, redlock.ErrNoQuorum)
		require.ErrorIs(t, found[0].Err, redlock.ErrNodeDown)
		require.Empty(t, found[0].Leader)
		redistest.Each(m.Nodes, func(n *redistest.Node) { network.At(n.Addr()).Refuse(false) })
		time.Sleep(3 * time.Second)
		found = fresh()
		require.Len(t, found, 1)
		require.Equal(t, "a", found[0].Leader)
		require.ErrorIs(t, a.retire(), context.Canceled)
	})
}

// A slow loop gets the latest state, and no history.
func TestWatchCoalesces(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		var seen []Leadership
		for l := range Watch(t.Context(), c, "e") {
			seen = append(seen, l)
			if len(seen) == 2 {
				break
			}
			for range 3 {
				r := stand(t, c, Options{}, nil)
				time.Sleep(time.Second)
				require.ErrorIs(t, r.retire(), context.Canceled)
			}
			last := stand(t, candidate(t, m, "b"), Options{}, nil)
			defer last.retire()
			time.Sleep(time.Second)
		}
		require.Equal(t, admin.StateFree, seen[0].State)
		require.Equal(t, "b", seen[1].Leader)
	})
}

// A watch ends with its context or its client, and asks the nodes a bounded
// number of times.
func TestWatchEnds(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := m.Nodes[0].Calls("PTTL")
		begun := time.Now()
		for range Watch(ctx, c, "e") {
		}
		require.Equal(t, time.Minute, time.Since(begun))
		require.LessOrEqual(t, m.Nodes[0].Calls("PTTL")-before, 2*(120+10), "without a leader")

		r := stand(t, c, Options{}, nil)
		time.Sleep(10 * ms)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before = m.Nodes[0].Calls("PTTL")
		for range Watch(ctx, c, "e") {
		}
		require.LessOrEqual(t, m.Nodes[0].Calls("PTTL")-before, 2*(120+60+1), "with one that renews each second")
		require.ErrorIs(t, r.retire(), context.Canceled)

		bad := 0
		for l := range Watch(t.Context(), c, "") {
			require.ErrorIs(t, l.Err, redlock.ErrResource)
			bad++
		}
		require.Equal(t, 1, bad)
		time.AfterFunc(time.Second, func() { trial.CloseNow(t, c) })
		for l := range Watch(t.Context(), c, "e") {
			require.NoError(t, l.Err)
		}
		for range Watch(t.Context(), c, "e") {
			t.Error("of a closed client")
		}
	})
}

// A loop over Watch that ends leaves no lookout, in whichever way it ends: of
// all that a client may have, only one is left for it.
func TestWatchStopsItsLookout_R26(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		requireOne := leaveOneLookout(t, c)
		for range Watch(t.Context(), c, "e") {
			require.Nil(t, inside.Of(c).Group().Lookout([]byte("k")))
			break
		}
		requireOne("break")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range Watch(ctx, c, "e") {
		}
		requireOne("the context ended")
		require.PanicsWithValue(t, "p", func() {
			for range Watch(t.Context(), c, "e") {
				panic("p")
			}
		})
		requireOne("a panic")
		for range Watch(t.Context(), c, "") {
		}
		requireOne("no resource")
	})
}

// A client that has too many lookouts watches without pushes.
func TestWatchWithoutALookout_R26(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		for inside.Of(c).Group().Lookout([]byte("k")) != nil {
		}
		fresh := observe(t.Context(), c, "e")
		a := stand(t, candidate(t, m, "b"), Options{}, nil)
		time.Sleep(time.Second)
		found := fresh()
		require.Equal(t, "b", found[len(found)-1].Leader)
		require.ErrorIs(t, a.retire(), context.Canceled)
		time.Sleep(most)
		found = fresh()
		require.Len(t, found, 1)
		require.Equal(t, admin.StateFree, found[0].State)
	})
}
