package admin

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

const (
	ms        = time.Millisecond
	anyNumber = trial.AnyNumber
)

// memory is a deployment in memory.
type memory struct{ *trial.Memory }

func simulated(t *testing.T, nodes int, test func(t *testing.T, m *memory)) {
	trial.Simulated(t, nodes, func(t *testing.T, m *trial.Memory) {
		m.Init = func(ctx context.Context, config redlock.Config) error {
			_, err := Init(ctx, config)
			return err
		}
		test(t, &memory{m})
	})
}

// fenceOf locks and releases a resource and returns the lock's number.
func fenceOf(t *testing.T, c *redlock.Client, resource string) uint64 {
	t.Helper()
	lock := trial.MustAcquire(t, c, resource, time.Second)
	require.NoError(t, lock.Release(context.Background()))
	return lock.Fence()
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

// requireCauses checks how many nodes an error names, and each one's causes.
func requireCauses(t *testing.T, err error, nodes int, causes ...error) {
	t.Helper()
	var undecided *redlock.UndecidedError
	require.ErrorAs(t, err, &undecided)
	require.Len(t, undecided.Nodes, nodes)
	for _, n := range undecided.Nodes {
		for _, cause := range causes {
			require.ErrorIs(t, n, cause)
		}
	}
}

// requireSecret checks that a text shows no part of a token, in any form.
func requireSecret(t *testing.T, text string, token redlock.Token) {
	t.Helper()
	for _, secret := range []string{
		string(token[:4]), hex.EncodeToString(token[:4]), fmt.Sprintf("%X", token[:4]),
		fmt.Sprintf("%d %d %d", token[0], token[1], token[2]), fmt.Sprintf("%d,%d,%d", token[0], token[1], token[2]),
		fmt.Sprintf("0x%x, 0x%x, 0x%x", token[0], token[1], token[2]),
	} {
		require.NotContains(t, text, secret)
	}
}
