package floor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		kind    *replies
		b       string
		size    int
		granted bool
		bad     bool
	}{
		{&setReplies, "+OK\r\n", 5, true, false},
		{&setReplies, "+OK\r\n:1\r\n", 5, true, false},
		{&setReplies, "$-1\r\n", 5, false, false},
		{&setReplies, "+", 0, false, false},
		{&setReplies, "+OK\r", 0, false, false},
		{&setReplies, "$-1\r", 0, false, false},
		{&setReplies, "+OK \r\n", 0, false, true},
		{&setReplies, ":1\r\n", 0, false, true},
		{&setReplies, "-ERR\r\n", 0, false, true},
		{&setReplies, "\x00", 0, false, true},
		{&releaseReplies, ":1\r\n", 4, true, false},
		{&releaseReplies, ":0\r\n", 4, false, false},
		{&releaseReplies, ":", 0, false, false},
		{&releaseReplies, ":10\r\n", 0, false, true},
		{&releaseReplies, ":2\r\n", 0, false, true},
		{&releaseReplies, "+OK\r\n", 0, false, true},
		{&releaseReplies, "-NOSCRIPT\r\n", 0, false, true},
	} {
		size, granted, err := c.kind.parse([]byte(c.b))
		require.Equal(t, c.bad, err != nil, "%q", c.b)
		require.Equal(t, c.size, size, "%q", c.b)
		require.Equal(t, c.granted, granted, "%q", c.b)
	}
}

func TestDecided(t *testing.T) {
	for _, c := range []struct {
		n, granted, refused int
		want                bool
	}{
		{1, 0, 0, false}, {1, 1, 0, true}, {1, 0, 1, true},
		{2, 1, 0, false}, {2, 2, 0, true}, {2, 1, 1, true},
		{3, 1, 1, false}, {3, 2, 0, true}, {3, 0, 2, true},
		{5, 2, 2, false}, {5, 3, 0, true}, {5, 2, 3, true}, {5, 0, 2, false},
	} {
		v := votes{c.granted, c.refused}
		require.Equal(t, c.want, v.decided(c.n), c)
	}
}

func TestTokensDiffer(t *testing.T) {
	a, b := newToken(), newToken()
	require.NotEqual(t, a, b)
	seen := map[token]bool{a: true, b: true}
	for range 1000 {
		a.next()
		require.False(t, seen[a])
		seen[a] = true
	}
}
