package single

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// The measurement finds what it is there for: a quarantine that is too short, a
// grant without the node's vote, and a node that comes back late.
func TestRecoveryFinds_R23_R26(t *testing.T) {
	redistest.Long(t)
	redistest.Alone(t)
	redistest.Require(t)
	redistest.NoLeaks(t)
	start := func(t *testing.T, name string) *recoverer {
		r, err := RecoveryOptions{Clients: 1, Away: 400 * time.Millisecond, MaxTTL: 30 * time.Second}.complete().newRecoverer(name)
		require.NoError(t, err)
		t.Cleanup(r.site.close)
		return r
	}
	t.Run("no quarantine", func(t *testing.T) {
		r := start(t, Forgotten)
		r.spoil = func(c *redlock.Config) { c.MaxTTL, c.Forgetful = 0, true }
		votes, err := r.once(t.Context())
		require.NoError(t, err)
		require.True(t, votes[0].early)
	})
	t.Run("a grant without the node", func(t *testing.T) {
		r := start(t, Killed)
		r.free = true
		var err error
		for range 10 { // it must come while the node is away, which a busy machine may leave no time for
			if _, err = r.once(t.Context()); err != nil {
				break
			}
		}
		require.ErrorContains(t, err, "granted while the node was away")
	})
	t.Run("a node that is late", func(t *testing.T) {
		r := start(t, Stopped)
		r.lag = 250 * time.Millisecond
		votes, err := r.once(t.Context())
		require.NoError(t, err)
		require.False(t, votes[0].early)
		line := RecoveryLine{Fault: Stopped, Bound: recoveryOfStopped, Took: []time.Duration{votes[0].took}}
		require.ErrorContains(t, Recovery{Lines: []RecoveryLine{line}}.Err(), "R26: stopped")
	})
}
