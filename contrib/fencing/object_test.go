package fencing

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A bucket has one object. Between a read and a write, the next of others is
// put in its place.
type bucket struct {
	version, number uint64
	others          []uint64
	reads           int
}

func (b *bucket) write(ctx context.Context, number uint64) error {
	return WriteObject(ctx, number, func(context.Context) (string, uint64, error) {
		b.reads++
		version, seen := strconv.FormatUint(b.version, 10), b.number
		if len(b.others) > 0 {
			b.version, b.number, b.others = b.version+1, b.others[0], b.others[1:]
		}
		return version, seen, nil
	}, func(_ context.Context, version string) error {
		if version != strconv.FormatUint(b.version, 10) {
			return ErrChanged
		}
		b.version, b.number = b.version+1, number
		return nil
	})
}

func TestWriteObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		number uint64
		bucket bucket
		reads  int
		want   error
	}{
		{"a new object", 7, bucket{}, 1, nil},
		{"a higher number", 7, bucket{number: 6}, 1, nil},
		{"the same number", 7, bucket{number: 7}, 1, nil},
		{"a lower number", 7, bucket{number: 8}, 1, ErrStale},
		{"an older holder between", 7, bucket{others: []uint64{6}}, 2, nil},
		{"a later holder between", 7, bucket{others: []uint64{8}}, 2, ErrStale},
		{"several between, then a later one", 7, bucket{others: []uint64{5, 6, 8}}, 4, ErrStale},
		{"another each time", 7, bucket{others: make([]uint64, 100)}, objectTries, ErrChanged},
		{"no number", 0, bucket{}, 0, ErrNoNumber},
		{"no number any more", Last + 1, bucket{}, 0, ErrNoNumber},
	} {
		before := tt.bucket.number
		err := tt.bucket.write(t.Context(), tt.number)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.Equal(t, tt.reads, tt.bucket.reads, tt.name)
		if tt.want == nil {
			require.Equal(t, tt.number, tt.bucket.number, tt.name)
		} else if tt.want == ErrStale {
			require.GreaterOrEqual(t, tt.bucket.number, before, tt.name)
		}
	}
}

func TestWriteObjectEnds(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	never := func(context.Context, string) error { t.Error("written"); return nil }
	require.Equal(t, failed, WriteObject(t.Context(), 7,
		func(context.Context) (string, uint64, error) { return "", 0, failed }, never))
	require.Equal(t, failed, WriteObject(t.Context(), 7,
		func(context.Context) (string, uint64, error) { return "", 0, nil },
		func(context.Context, string) error { return failed }))

	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	require.ErrorIs(t, WriteObject(ctx, 7,
		func(context.Context) (string, uint64, error) { return "", 0, nil },
		func(context.Context, string) error { tries++; cancel(); return ErrChanged }), context.Canceled)
	require.Equal(t, 1, tries)
}
