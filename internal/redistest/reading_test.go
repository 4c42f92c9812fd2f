package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

func TestClocks(t *testing.T) {
	start := time.Now()
	for _, c := range []struct{ mono, wall time.Duration }{
		{0, 0}, {time.Second, time.Second}, {5 * time.Millisecond, time.Hour}, {time.Hour, -time.Hour}, {0, time.Nanosecond},
	} {
		now := redistest.Clocks(start, c.mono, c.wall)
		require.Equal(t, c.mono, now.Sub(start), "%+v", c)
		require.Equal(t, c.wall, now.Round(0).Sub(start.Round(0)), "%+v", c)
	}
}
