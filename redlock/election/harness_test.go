package election

import (
	"errors"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/internal/inside"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

const (
	ms        = time.Millisecond
	anyNumber = trial.AnyNumber
)

type memory = trial.Memory

func simulated(t *testing.T, nodes int, test func(t *testing.T, m *memory)) {
	trial.Simulated(t, nodes, admin.Init, test)
}

// candidate returns a client that can stand for election under a name.
func candidate(t *testing.T, m *memory, name string) *redlock.Client {
	t.Helper()
	return m.Opened(t, trial.Fenced(func(c *redlock.Config) { c.Owner, c.MaxTTL = name, electionTTL }))
}

var errWork = errors.New("work failed")

// inspect asks the nodes, all of which must answer.
func inspect(t *testing.T, c *redlock.Client, resource string) admin.Inspection {
	t.Helper()
	found, err := admin.Inspect(t.Context(), c, resource)
	require.NoError(t, err)
	return found
}

// elect returns an election that can be one.
func elect(t *testing.T, c *redlock.Client, name string, o Options) *Election {
	t.Helper()
	e, err := New(c, name, o)
	require.NoError(t, err)
	return e
}

// leaveOneLookout uses up all lookouts of a client but one. The function that
// it returns fails the test unless that one is free.
func leaveOneLookout(t *testing.T, c *redlock.Client) (requireFree func(when string)) {
	t.Helper()
	group, key := inside.Of(c).Group(), []byte("another")
	last := group.Lookout(key)
	for l := last; l != nil; l = group.Lookout(key) {
		last = l
	}
	last.Stop()
	return func(when string) {
		t.Helper()
		l := group.Lookout(key)
		require.NotNil(t, l, when)
		l.Stop()
	}
}
