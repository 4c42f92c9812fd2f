package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// The measurement finds what it is there for: a quarantine that is too short, a vote that came without the node, and a node that
// comes back late.
func TestRecoveryFinds_R23_R26(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	for _, c := range []struct {
		name  string
		site  recoverySite
		early bool
		err   string
	}{
		{
			name: "no quarantine", early: true,
			site: recoverySite{kind: RecoveryForgotten, maxTTL: 30 * time.Second, spoil: func(c *redlock.Config) { c.MaxTTL = 0 }},
		},
		{
			name: "a grant without the node", err: "granted while the node was away",
			site: recoverySite{kind: RecoveryRestarted, free: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.site
			s.options = RecoveryOptions{Clients: 1, Away: 400 * time.Millisecond}.complete()
			require.NoError(t, s.start())
			defer s.close()
			votes, err := s.once(t.Context())
			if c.err != "" {
				// The grant has to come while the node is away, for which a busy machine may leave no time.
				for range 9 {
					if err != nil {
						break
					}
					_, err = s.once(t.Context())
				}
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.early, votes[0].early)
		})
	}
	t.Run("a node that is late", func(t *testing.T) {
		s := recoverySite{kind: RecoveryStopped, lag: 250 * time.Millisecond}
		s.options = RecoveryOptions{Clients: 1, Away: 400 * time.Millisecond}.complete()
		require.NoError(t, s.start())
		defer s.close()
		votes, err := s.once(t.Context())
		require.NoError(t, err)
		line := RecoveryLine{Kind: s.kind, Bound: recoveryOfStopped, Took: []time.Duration{votes[0].took}}
		require.ErrorContains(t, Recovery{Lines: []RecoveryLine{line}}.Err(), "R26: stopped")
	})
}
