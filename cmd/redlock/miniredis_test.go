package main

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// miniredis tells no run id, so that each client waits, not only the first. The
// log, the status and a call that ends while it waits say why, and what to do
// (R23, R31).
func TestMiniredisSaysWhyEachClientWaits_R23_R31(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	for range 2 {
		var log bytes.Buffer
		c, err := redlock.New(t.Context(), redlock.Config{
			Nodes: redlock.Nodes(url), MaxTTL: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		_, err = c.TryAcquire(t.Context(), "r", 500*time.Millisecond)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
		require.ErrorContains(t, err, "tells no run id")
		require.Contains(t, c.Nodes()[0].Warnings[0], "redlocktest")
		require.NoError(t, c.Ready(t.Context()))
		lock, err := c.TryAcquire(t.Context(), "r", 500*time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		require.Contains(t, log.String(), "tells no run id")
	}
	c, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(url), Forgetful: true})
	require.NoError(t, err)
	defer c.Close(t.Context())
	lock, err := c.TryAcquire(t.Context(), "r", time.Second)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}
