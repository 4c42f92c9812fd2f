package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSleepEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*ms)
		defer cancel()
		start := time.Now()
		require.NoError(t, sleep(ctx, 2*ms, nil))
		require.Equal(t, 2*ms, time.Since(start))
		require.Equal(t, context.DeadlineExceeded, sleep(ctx, time.Hour, nil))
		require.Equal(t, 3*ms, time.Since(start))
	})
}
