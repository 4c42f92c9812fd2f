package admin

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

// Init opens a deployment once. Its clients count at once, however short a
// while the nodes have run (R29, R30).
func TestInit_R30(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		config := m.Reach(redlock.Config{Prefix: "lock:"})
		first, err := Init(t.Context(), config)
		require.NoError(t, err)
		require.Regexp(t, "^[0-9a-f]{32}$", first.ID)
		require.Equal(t, Deployment{ID: first.ID, Nodes: 3, MaxTTL: redlock.DefaultMaxTTL, New: true}, first)
		for _, n := range m.Nodes {
			require.Equal(t, []string{"lock:redlock:fence", "lock:redlock:seal"}, n.Keys())
		}
		again, err := Init(t.Context(), config)
		require.NoError(t, err)
		first.New = false
		require.Equal(t, first, again)

		start := time.Now()
		c := m.Client(t, redlock.Config{Prefix: "lock:", MaxTTL: redlock.DefaultMaxTTL})
		trial.MustAcquire(t, c, "r", redlock.DefaultMaxTTL)
		require.Less(t, time.Since(start), 20*ms)
		for _, s := range c.Nodes() {
			require.Equal(t, first.ID, s.Deployment)
			require.Equal(t, 3, s.DeploymentNodes)
			require.True(t, s.Sealed)
			require.False(t, s.Quarantined)
		}
	})
}

// Init changes nothing where it cannot open the deployment, and says what each
// node is.
func TestInitStops_R30(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(t *testing.T, m *memory, config *redlock.Config)
		is      error
		says    []string
		within  time.Duration
	}{
		"a node is down": {
			func(_ *testing.T, m *memory, _ *redlock.Config) { m.Link(1).Refuse(true) },
			redlock.ErrNodeDown, []string{"node0: free", "node1: ", "node2: free"}, 1100 * ms},
		"a node is in use": {
			func(t *testing.T, m *memory, config *redlock.Config) {
				other := *config
				other.Nodes = other.Nodes[1:2]
				_, err := Init(t.Context(), other)
				require.NoError(t, err)
			},
			redlock.ErrDeployment, []string{"node0: free", "node1: belongs to deployment"}, initStuck + 100*ms},
		"half of it is open": {
			func(t *testing.T, m *memory, config *redlock.Config) {
				_, err := Init(t.Context(), *config)
				require.NoError(t, err)
				m.Nodes[2].Restart()
			},
			nil, []string{"node0: belongs to deployment", "node2: free"}, initStuck + 100*ms},
		"a client has died while it opened another": {
			func(t *testing.T, m *memory, _ *redlock.Config) {
				const member = "0123456789abcdef"
				who := pure.IdentityOf([]string{member, "0123456789abcdee"})
				m.Nodes[1].DB().Set("redlock:seal", pure.Seal{Seat: pure.Seat{Member: member, Listed: who}, Names: member + ":" + member}.String(), 0)
			},
			nil, []string{"node0: free", "node1: being opened for deployment ", "left over"}, initStuck + 200*ms},
		"another MaxTTL": {
			func(t *testing.T, m *memory, config *redlock.Config) {
				other := *config
				other.MaxTTL = time.Minute
				_, err := Init(t.Context(), other)
				require.NoError(t, err)
			},
			redlock.ErrMaxTTL, []string{"its seal says 1m0s, this client 30s"}, 1100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				config := m.Reach(redlock.Config{})
				c.arrange(t, m, &config)
				before := marks(m)
				start := time.Now()
				_, err := Init(t.Context(), config)
				t.Log(time.Since(start), err)
				require.LessOrEqual(t, time.Since(start), c.within)
				var failed *InitError
				require.ErrorAs(t, err, &failed)
				require.Len(t, failed.Nodes, 3)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
				for _, part := range c.says {
					require.Contains(t, err.Error(), m.Named(part))
				}
				require.Equal(t, before, marks(m), "nothing was written")
			})
		})
	}
}

// marks returns the seal of each node.
func marks(m *memory) (all []string) {
	for _, n := range m.Nodes {
		seal, _ := n.Get("redlock:seal")
		all = append(all, seal)
	}
	return all
}

func TestInitRefuses(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		_, err := Init(t.Context(), m.Reach(redlock.Config{Forgetful: true}))
		require.ErrorIs(t, err, redlock.ErrConfig)
		_, err = redlock.New(t.Context(), m.Reach(redlock.Config{Forgetful: true, MaxTTL: time.Minute}))
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.Contains(t, err.Error(), "both MaxTTL and Forgetful are set")

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = Init(ended, m.Reach(redlock.Config{}))
		require.ErrorIs(t, err, context.Canceled)
		m.Link(0).Refuse(true)
		short, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		start := time.Now()
		_, err = Init(short, m.Reach(redlock.Config{}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Contains(t, err.Error(), m.Addr(0))
		require.Less(t, time.Since(start), 400*ms)
		require.Equal(t, []string{"", "", ""}, marks(m))
	})
}

// The nodes of a deployment that is over are used again: the clients of the new
// one wait for MaxTTL. A client that was there before names the same nodes, so
// it goes on in the new one (R30).
func TestInitReplaces_R30(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		config := redlock.Config{MaxTTL: 2 * time.Second}
		old, err := Init(t.Context(), m.Reach(config))
		require.NoError(t, err)
		before := m.Client(t, config)
		held := trial.MustAcquire(t, before, "r", 2*time.Second)

		next, err := Init(t.Context(), m.Reach(config), "0123456789abcdef0123456789abcdef")
		require.NoError(t, err, "that is another")
		require.Equal(t, old.ID, next.ID)
		next, err = Init(t.Context(), m.Reach(config), old.ID)
		require.NoError(t, err)
		require.True(t, next.New)
		require.NotEqual(t, old.ID, next.ID)

		after := m.Client(t, config)
		_, err = after.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
		start := time.Now()
		_, err = after.Acquire(t.Context(), "r", time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, held.Validity(), time.Duration(0))
		require.LessOrEqual(t, time.Since(start), 2300*ms)
		time.Sleep(20 * time.Second) // until it has looked at all of them again
		trial.MustAcquire(t, before, "r2", time.Second)
		require.Equal(t, next.ID, before.Nodes()[0].Deployment)
	})
}
