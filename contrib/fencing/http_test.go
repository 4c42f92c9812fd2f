package fencing

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFromHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header http.Header
		want   uint64
	}{
		{"one", http.Header{Header: {"7"}}, 7},
		{"none", http.Header{}, 0},
		{"nil", nil, 0},
		{"two", http.Header{Header: {"7", "7"}}, 0},
		{"two in one", http.Header{Header: {"7, 8"}}, 0},
		{"empty", http.Header{Header: {""}}, 0},
		{"zero", http.Header{Header: {"0"}}, 0},
		{"words", http.Header{Header: {"seven"}}, 0},
	} {
		got, err := FromHeader(tt.header)
		require.Equal(t, tt.want, got, tt.name)
		if tt.want == 0 {
			require.ErrorIs(t, err, ErrNoNumber, tt.name)
		} else {
			require.NoError(t, err, tt.name)
		}
	}
	require.Equal(t, http.CanonicalHeaderKey(Header), Header)
}

// Without a number nothing is set, so a server refuses a request that is sent
// all the same.
func TestSetHeaderWithoutANumber(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://example.org", nil)
	require.NoError(t, err)
	require.ErrorIs(t, SetHeader(r), ErrNoNumber)
	require.Empty(t, r.Header)
}
