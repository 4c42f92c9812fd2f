package admin

import (
	"slices"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

type memory = trial.Memory

func simulated(t *testing.T, nodes int, test func(t *testing.T, m *memory)) {
	trial.Simulated(t, nodes, Init, test)
}

// realClient returns a client of real servers, all of which are up.
func realClient(t *testing.T, servers []*redistest.Server, portable bool) *redlock.Client {
	t.Helper()
	c, err := redlock.New(t.Context(), redlock.Config{
		Nodes: redlock.Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Connect: redlock.Connect{NetDial: redistest.Portable(portable)}, Forgetful: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() { trial.CloseNow(t, c) })
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(c.Nodes(), func(n redlock.NodeStatus) bool { return n.State != redlock.NodeUp })
	}, 15*time.Second, ms)
	return c
}
