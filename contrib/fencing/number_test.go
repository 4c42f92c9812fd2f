package fencing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// numbers are texts, and the numbers that Parse and RedisScript take them for;
// 0 is none.
var numbers = []struct {
	text string
	want uint64
}{
	{"1", 1}, {"9", 9}, {"10", 10}, {"1764000000123456", 1764000000123456}, {"9007199254740991", Last},
	{"", 0}, {"0", 0}, {"00", 0}, {"01", 0}, {"-1", 0}, {"+1", 0}, {" 1", 0}, {"1 ", 0}, {"1\n", 0}, {"1\x00", 0},
	{"1.0", 0}, {"1e3", 0}, {"0x10", 0}, {"1_000", 0}, {"1,2", 0}, {"1, 2", 0}, {"inf", 0}, {"nan", 0}, {"١", 0},
	{"9007199254740992", 0}, {"9007199254740993", 0}, {"9999999999999999", 0}, {"18446744073709551616", 0},
	{strings.Repeat("9", 400), 0}, {strings.Repeat("0", 1<<20) + "1", 0},
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range numbers {
		got, err := Parse(tt.text)
		require.Equal(t, tt.want, got, "%.20q", tt.text)
		if tt.want != 0 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrNoNumber, "%.20q", tt.text)
		require.Less(t, len(err.Error()), 200, "the error repeats what came")
	}
}

// The number is that of the innermost hold, and a client that has none is told
// so: 0 would pass for a number.
func TestFromContext(t *testing.T) {
	t.Parallel()
	_, err := FromContext(t.Context())
	require.ErrorIs(t, err, ErrNoNumber)

	d := redlocktest.New(t, 3)
	patient := func(c *redlock.Config) { c.NodeTimeout = 30 * time.Second }
	fenced := d.Client(t, patient, func(c *redlock.Config) { c.Fenced = true })
	require.NoError(t, fenced.Do(t.Context(), "r", 20*time.Second, func(ctx context.Context) error {
		hold, _ := redlock.FromContext(ctx)
		number, err := FromContext(ctx)
		require.NoError(t, err)
		require.Equal(t, hold.Current().Fence(), number)
		return nil
	}))
	require.NoError(t, d.Client(t, patient).Do(t.Context(), "r", 20*time.Second, func(ctx context.Context) error {
		_, err := FromContext(ctx)
		require.ErrorIs(t, err, ErrNoNumber)
		return nil
	}))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	script := errors.New(redisRefusal + "the number is lower")
	for err, want := range map[error]bool{
		nil: false, errors.New("EOF"): false, ErrNoNumber: false, ErrChanged: false, redlock.ErrLost: false,
		errors.New("ERR FENCED"): false, errors.New("FENCED"): false,
		ErrStale: true, script: true, fmt.Errorf("pay: %w", ErrStale): true, fmt.Errorf("pay: %w", script): true,
		errors.Join(redlock.ErrNotHeld, script): true, fmt.Errorf("%w, %w", redlock.ErrNotHeld, ErrStale): true,
	} {
		require.Equal(t, want, Refused(err), "%v", err)
	}
}
