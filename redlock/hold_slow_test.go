package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The way to the nodes becomes longer under a hold than a vote may ever take.
// Each node still answers each renewal before the old validity has ended, so
// the lock is kept, and no node is shed for it.
func TestAHoldOutlivesRoundTripsOfMoreThanATenthOfItsTTL_R6_R10_R13(t *testing.T) {
	for _, c := range []struct {
		ttl, trip time.Duration
	}{
		{10 * time.Second, 1100 * ms},
		{10 * time.Second, 3 * time.Second},
		{time.Second, 120 * ms},
		{time.Second, 300 * ms},
	} {
		t.Run(fmt.Sprint(c.ttl, c.trip), func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				client := exactClient(t, m, Config{})
				h := mustHold(t, client, "r", HoldOptions{TTL: c.ttl})
				for i := range m.nodes {
					m.delay(i, c.trip+time.Duration(i)*c.trip/50) // each comes after another
				}
				for range 100 {
					time.Sleep(c.ttl / 10)
					require.NoError(t, h.Err())
					require.Positive(t, h.Validity())
				}
				for _, n := range client.Nodes() {
					require.Equal(t, 1, n.Connects, "no connection was given up")
				}
				for i := range m.nodes {
					m.delay(i, 2*ms)
				}
			})
		})
	}
}

// A renewal that waits does not delay the end of the context (R13).
func TestARenewalThatWaitsDelaysNoLoss_R13(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		h := mustHold(t, exactClient(t, m, Config{}), "r", HoldOptions{})
		for i := range m.nodes {
			m.delay(i, holdValidity-holdThird+ms) // the answers come right after the end
		}
		end := h.Until()
		awaitEnd(t, h.Context())
		require.Equal(t, holdMargin, time.Until(end))
		require.ErrorIs(t, h.Err(), ErrLost)
		m.recover()
	})
}
