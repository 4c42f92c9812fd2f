package redlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndingOf(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	undecided := &noQuorumError{nodes: &multiplex.UndecidedError{}}
	for want, errs := range map[ending][]error{
		endGranted:    {nil},
		endRefused:    {ErrHeld, ErrNotHeld},
		endNoQuorum:   {undecided},
		endExpired:    {ErrExpired},
		endOverloaded: {ErrOverloaded},
		endCancelled:  {cancelledError(ended, nil), cancelledError(ended, undecided), cancelledError(ended, ErrHeld)},
		endClosed:     {ErrClosed},
		endInvalid:    {ErrTTL, ErrResource, errors.New("odd")},
	} {
		for _, err := range errs {
			assert.Equal(t, want, endingOf(err), "%v", err)
			assert.Zero(t, testing.AllocsPerRun(10, func() { endingOf(err) }), "%v", err)
		}
	}
}

// Each call is counted once, by what it returned (R12).
func TestStatsCountEachCall_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.ownerless()
		c := m.client(t, Config{})
		background := context.Background()
		ended, cancel := context.WithCancel(background)
		cancel()
		lock := mustAcquire(t, c, "r", time.Minute)
		_, err := c.TryAcquire(background, "r", time.Minute)
		require.Equal(t, ErrHeld, err)
		_, err = c.TryAcquire(background, "", time.Minute)
		require.ErrorIs(t, err, ErrResource)
		_, err = c.TryAcquire(ended, "r2", time.Minute)
		require.ErrorIs(t, err, context.Canceled)
		short, stop := context.WithTimeout(background, 50*ms)
		defer stop()
		_, err = c.Acquire(short, "r", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		tries := uint64(m.nodes[0].Calls("SET")) - 2

		longer, err := lock.Extend(background, time.Hour)
		require.NoError(t, err)
		_, err = longer.Extend(background, 0)
		require.ErrorIs(t, err, ErrTTL)
		require.NoError(t, longer.Release(background))
		require.ErrorIs(t, lock.Release(background), ErrNotHeld)
		_, err = longer.Extend(background, time.Hour)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, Lock{}.Release(background), ErrNotHeld, "it is not counted")

		s := c.Stats()
		held := s.Attempts.Refused
		assert.InDelta(t, 1+tries, held, 1, "the last attempt may have been cut short")
		assert.Equal(t, CallCounts{Granted: 1, Refused: held, Cancelled: 1 + (1 + tries - held), Invalid: 1}, s.Attempts)
		assert.Equal(t, CallCounts{Granted: 1, Refused: 1, Invalid: 1}, s.Extensions)
		assert.Equal(t, CallCounts{Granted: 1, Refused: 1}, s.Releases)
		assert.EqualValues(t, 1, s.Quorum.Total())
		assert.Equal(t, 2*ms, s.QuorumTime)
		assert.Equal(t, 2*ms, s.Quorum.Sum)
		assert.Equal(t, bucketOf(2*ms), bucketOf(s.Quorum.Quantile(0.5)-1))
		assert.False(t, s.Polling, "in memory a goroutine reads each node")

		m.link(0).Refuse(true)
		m.link(1).Refuse(true)
		m.nodes[0].DropConns()
		m.nodes[1].DropConns()
		time.Sleep(10 * ms)
		_, err = c.TryAcquire(background, "r3", time.Minute)
		require.ErrorIs(t, err, ErrNoQuorum)
		assert.EqualValues(t, 1, c.Stats().Attempts.NoQuorum)
		require.NoError(t, c.Close(background))
		_, err = c.TryAcquire(background, "r3", time.Minute)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, lock.Release(background), ErrClosed)
		after := c.Stats()
		assert.EqualValues(t, 1, after.Attempts.Closed)
		assert.EqualValues(t, 1, after.Releases.Closed)
		assert.Equal(t, s.Attempts.Total()+2, after.Attempts.Total())
	})
}

// Renewals count as extensions, whatever their outcome: even if nothing was
// sent, or the answers came too late (R13).
func TestStatsCountRenewals_R13(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{NodeTimeout: time.Minute})
		mustHold(t, c, "r", HoldOptions{})
		time.Sleep(2*holdThird + 10*ms)
		require.Equal(t, CallCounts{Granted: 2}, c.Stats().Extensions)

		for i := range m.nodes {
			m.link(i).Latency(ms, holdValidity-ms)
		}
		time.Sleep(holdThird + holdValidity)
		require.Equal(t, CallCounts{Granted: 2, Expired: 1}, c.Stats().Extensions)
		m.recover()
	})
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		mustHold(t, c, "r", HoldOptions{})
		for i, n := range m.nodes[:2] {
			m.link(i).Refuse(true)
			n.DropConns()
		}
		time.Sleep(holdValidity)
		failed := c.Stats().Extensions
		require.Greater(t, failed.NoQuorum, uint64(3), "tried again and again")
		require.Equal(t, CallCounts{NoQuorum: failed.NoQuorum}, failed)
	})
}

// A quorum that comes too late is an expired attempt, and its time is known all
// the same.
func TestStatsOfAQuorumThatCameTooLate(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{MinValidity: 95 * ms, NodeTimeout: 50 * ms})
		for i := range 3 {
			m.delay(i, 9*ms)
		}
		_, err := c.TryAcquire(context.Background(), "r", 100*ms)
		require.ErrorIs(t, err, ErrExpired)
		assert.Equal(t, CallCounts{Expired: 1}, c.Stats().Attempts)
	})
}

// Renewals count as extensions, even if they came too late, or too few nodes
// were up.
func TestStatsOfRenewals(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{NodeTimeout: time.Minute})
		mustHold(t, c, "r", HoldOptions{})
		time.Sleep(holdThird + 10*ms)
		assert.Equal(t, CallCounts{Granted: 1}, c.Stats().Extensions)
		for i := range m.nodes {
			m.delay(i, holdValidity)
		}
		time.Sleep(2 * holdValidity)
		assert.Equal(t, CallCounts{Granted: 1, Expired: 1}, c.Stats().Extensions)
		m.recover()
	})
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "r", HoldOptions{})
		time.Sleep(10 * ms)
		for i := range m.nodes {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		awaitEnd(t, h.Context())
		failed := c.Stats().Extensions.NoQuorum
		assert.Greater(t, failed, uint64(3))
		assert.Equal(t, CallCounts{NoQuorum: failed}, c.Stats().Extensions)
	})
}

// With real servers callers poll for themselves, and the counters of a node add
// up to its commands.
func TestStatsOfRealServers(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTCP)
	for _, is := range []bool{false, true} {
		c := realClient(t, servers, portable(is))
		const pairs = 50
		for i := range pairs {
			lock := mustAcquire(t, c, fmt.Sprint("stats:", i), time.Minute)
			require.NoError(t, lock.Release(context.Background()))
		}
		s := c.Stats()
		require.Equal(t, CallCounts{Granted: pairs}, s.Attempts)
		require.Equal(t, CallCounts{Granted: pairs}, s.Releases)
		require.EqualValues(t, pairs, s.Quorum.Total())
		require.Positive(t, s.Quorum.Quantile(0.99))
		require.LessOrEqual(t, s.Quorum.Quantile(0.5), s.Quorum.Quantile(0.99))
		for i := range servers {
			require.Eventually(t, func() bool { // replies that are not awaited are read soon
				n := c.Nodes()[i]
				require.Equal(t, s.Polling, n.Polled)
				return n.Counts.Granted+n.Counts.Late == 2*pairs
			}, 15*time.Second, ms, "%+v", c.Nodes()[i])
		}
	}
}

// Holds, losses and waits are counted, and outcomes have one vocabulary: that
// of the JSON form.
func TestStatsOfHoldsLossesAndWaits_R12(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		kept, lost := mustHold(t, c, "kept", HoldOptions{}), mustHold(t, c, "lost", HoldOptions{NoRenewal: true})
		require.Equal(t, 2, c.Stats().Holds)
		awaitEnd(t, lost.Context())
		require.EqualValues(t, 1, c.Stats().Lost)
		require.Equal(t, 2, c.Stats().Holds, "it is not released yet")
		_ = lost.Release(t.Context())
		require.Equal(t, 1, c.Stats().Holds)
		require.Zero(t, c.Stats().Waits.Total(), "no call has waited")

		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Acquire(short, "kept", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, 3*time.Second, c.Stats().Waits.Sum.Round(10*ms))
		require.NoError(t, c.RW("another").Write().DoWith(t.Context(), HoldOptions{TTL: time.Second}, func(context.Context) error { return nil }))
		require.EqualValues(t, 2, c.Stats().Waits.Total())
		require.NoError(t, kept.Release(t.Context()))
		require.Zero(t, c.Stats().Holds)

		text, err := json.Marshal(c.Stats())
		require.NoError(t, err)
		var named struct {
			Attempts map[string]uint64
			Holds    int
			Lost     uint64
			Waits    Histogram
		}
		require.NoError(t, json.Unmarshal(text, &named))
		require.EqualValues(t, 1, named.Lost)
		require.Equal(t, c.Stats().Waits, named.Waits)
		all := maps.Collect(CallCounts{1, 2, 3, 4, 5, 6, 7, 8}.All())
		require.Len(t, all, 8)
		for name := range all {
			require.Contains(t, named.Attempts, name)
		}
		for want, err := range map[string]error{
			"granted": nil, "refused": ErrNotHeld, "no_quorum": &noQuorumError{nodes: &UndecidedError{}}, "expired": ErrExpired, "overloaded": ErrOverloaded,
			"cancelled": &CancelledError{Err: context.Canceled, Last: ErrHeld}, "closed": ErrClosed, "invalid": ErrTTL,
		} {
			require.Equal(t, want, Outcome(err))
			require.Equal(t, want, Outcome(ofResource(err)))
			require.Contains(t, all, want)
		}
		require.Equal(t, "refused", Outcome(&HeldError{}))
		require.Equal(t, "lost", Outcome(lost.Err()))
	})
}

func ofResource(err error) error { return named("r", err) }
