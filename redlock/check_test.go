package redlock

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/require"
)

func TestCheckRefusesWhatCannotBeAsked(t *testing.T) { // R19
	long := strings.Repeat("k", 1024)
	client := encoding(Config{})
	for _, c := range []struct {
		resource string
		ttl      time.Duration
		want     time.Duration
		err      error
	}{
		{"a", time.Second, time.Second, nil},
		{"a", time.Second + 1, time.Second, nil},
		{"\x00", ms, ms, nil},
		{long, pure.LongestTTL, pure.LongestTTL, nil},
		{long, pure.LongestTTL + ms - 1, pure.LongestTTL, nil},
		{"", time.Second, 0, ErrResource},
		{long + "k", time.Second, 0, ErrResource},
		{strings.Repeat("é", 512) + "k", time.Second, 0, ErrResource}, // bytes, not letters
		{"a", 0, 0, ErrTTL},
		{"a", ms - 1, 0, ErrTTL},
		{"a", 900 * time.Microsecond, 0, ErrTTL},
		{"a", -time.Second, 0, ErrTTL},
		{"a", math.MinInt64, 0, ErrTTL},
		{"a", pure.LongestTTL + ms, 0, ErrTTL},
		{"a", math.MaxInt64, 0, ErrTTL},
	} {
		got, err := client.config.checkLock(client.kinds.Plain(), c.resource, c.ttl)
		require.ErrorIs(t, err, c.err, "%d bytes for %v", len(c.resource), c.ttl)
		require.Equal(t, c.want, got)
		if len(c.resource) == 1 {
			got, err = client.config.checkTTL(c.ttl)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.want, got)
		}
	}
}
