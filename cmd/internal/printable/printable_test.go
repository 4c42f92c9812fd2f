package printable

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "a\nb\tc": "a?b?c", "\x1b[2J\x07": "?[2J?", "\u202e\u009b31m": "??31m", "caf\xe9": "caf?", "café ±": "café ±",
	} {
		require.Equal(t, want, Line(text, 100), "%q", text)
	}
	require.Equal(t, strings.Repeat("é", 5), Line(strings.Repeat("é", 9), 5))
}
