package gocronlock

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

// A process that was stopped calls IsLeader before its goroutines have run
// again. The hold's own clocks say that the leadership is over.
func TestIsLeaderAsksTheClocks_R15(t *testing.T) {
	client := redlocktest.New(t, 1, redlocktest.MaxTTL(time.Minute)).Client(t)
	hold, err := client.Hold(t.Context(), "leader", redlock.HoldOptions{TTL: time.Minute})
	require.NoError(t, err)
	var e Elector // without the goroutine that would notice the end
	e.term.Store(&term{hold: hold})
	require.NoError(t, e.IsLeader(t.Context()))
	_ = hold.Release(context.Background())
	require.ErrorIs(t, e.IsLeader(t.Context()), ErrNotLeader)
	require.Error(t, e.Context().Err())
}
