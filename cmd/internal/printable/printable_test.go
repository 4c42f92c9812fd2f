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

// No two names look the same that differ in a byte that is no UTF-8.
func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "café\x00\n": "café\x00\n", "caf\xe9": `caf\xe9`, "caf\xe8": `caf\xe8`, "\xff\xfeé\xe2\x82": `\xff\xfeé\xe2\x82`, "\ufffd": "\ufffd",
	} {
		require.Equal(t, want, Name(name), "%q", name)
	}
}
