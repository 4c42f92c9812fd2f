// Package trial has deployments in memory for tests of the packages beside
// package redlock, whose own tests have theirs.
package trial

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// A Memory is a deployment in memory, with clients.
type Memory struct {
	*redistest.Masters
	init func(ctx context.Context, config redlock.Config) error
}

// AnyNumber of nodes is for tests that hold for each: it is drawn.
const AnyNumber = 0

// Simulated runs a test in simulated time, with nodes that answer after 2 ms.
// Its argument init is admin.Init.
func Simulated[D any](t *testing.T, nodes int, init func(context.Context, redlock.Config, ...string) (D, error), test func(t *testing.T, m *Memory)) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{redistest.NewMasters(t, nodes), func(ctx context.Context, config redlock.Config) error {
			_, err := init(ctx, config)
			return err
		}}
		m.Far(2 * time.Millisecond)
		test(t, m)
	})
}

// Ownerless takes back the owner that was drawn.
func (m *Memory) Ownerless() { m.Arrangement.Owner = "" }

// Reach returns a configuration with the way to all nodes.
func (m *Memory) Reach(config redlock.Config) redlock.Config {
	if config.Nodes == nil {
		config.Nodes = redlock.Nodes(redistest.URLs(m.Nodes)...)
	}
	if config.Connect.NetDial == nil {
		config.Connect.NetDial = m.Network.Dial
	}
	for i := range config.Nodes {
		config.Nodes[i].URL = m.Arrangement.URL(config.Nodes[i].URL)
	}
	config.Prefix = m.Arrangement.Prefix + config.Prefix
	config.Owner = cmp.Or(config.Owner, m.Arrangement.Owner)
	return config
}

// Client makes a client of all nodes, and closes it with the test. Without
// MaxTTL it is forgetful: most tests are not about quarantine.
func (m *Memory) Client(tb testing.TB, config redlock.Config) *redlock.Client {
	tb.Helper()
	config.Forgetful = config.MaxTTL == 0
	c, err := redlock.New(tb.Context(), m.Reach(config))
	require.NoError(tb, err)
	tb.Cleanup(func() { CloseNow(tb, c) })
	return c
}

// Opened is Client in a deployment that was opened with Init.
func (m *Memory) Opened(tb testing.TB, config redlock.Config) *redlock.Client {
	tb.Helper()
	open := m.Reach(config)
	open.Logger, open.Tracer = nil, nil
	require.NoError(tb, m.init(tb.Context(), open))
	return m.Client(tb, config)
}

// CloseNow closes a client.
func CloseNow(tb testing.TB, c *redlock.Client) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(tb, c.Close(ctx))
}

// Fenced returns a configuration with fencing numbers.
func Fenced(changes ...func(*redlock.Config)) redlock.Config {
	config := redlock.Config{Fenced: true, MaxTTL: time.Second}
	for _, change := range changes {
		change(&config)
	}
	return config
}

// MustAcquire locks a resource in one attempt.
func MustAcquire(t *testing.T, c *redlock.Client, resource string, ttl time.Duration) redlock.Lock {
	t.Helper()
	lock, err := c.TryAcquire(context.Background(), resource, ttl)
	require.NoError(t, err)
	return lock
}
