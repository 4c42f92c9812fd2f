package resource

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	long := strings.Repeat("x", Longest-2)
	hash := Name("p:", long+"x")
	for name, want := range map[string]string{
		"":                     "p:",
		"job":                  "p:job",
		"a\x00\r\nb":           "p:a\x00\r\nb",
		long:                   "p:" + long,
		long + "x":             "p:sha256:" + hash[len("p:sha256:"):],
		hash[2:]:               Name("p:", hash[2:]),
		strings.Repeat("y", 9): "p:yyyyyyyyy",
	} {
		got := Name("p:", name)
		require.Equal(t, want, got)
		require.LessOrEqual(t, len(got), Longest)
	}
	require.NotEqual(t, hash, Name("p:", hash[2:]), "a name that is another's hash has its own resource")
	require.NotEqual(t, Name("p:", long+"x"), Name("p:", long+"y"))
	require.Len(t, Name(strings.Repeat("p", LongestPrefix), long), Longest)
}
