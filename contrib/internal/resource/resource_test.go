package resource

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Prefixes that no name can follow are refused.
func TestCheckPrefix(t *testing.T) {
	for prefix, text := range map[string]string{
		"p:": "", strings.Repeat("p", longestPrefix): "", "p:redlock": "", "redlock:": "",
		strings.Repeat("p", longestPrefix+1): "adapter: Prefix has 954 bytes, more than 953",
		"p:redlock:":                         `adapter: Prefix contains ":redlock:"`,
	} {
		if err := CheckPrefix("adapter", prefix); text == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, text)
		}
	}
}

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
	resources := map[string][2]string{}
	for _, prefix := range []string{"p", "p:", "redlock:", "p:redlock"} {
		for name, hashed := range map[string]bool{
			"": false, "fence": prefix != "p" && prefix != "p:redlock", "a:fence": true, ":fence": true, "fence:": false,
			"a:fence:b": false, "a-fence": false, "a:redlock:mark": true, ":redlock:": true, "redlock:b": strings.HasSuffix(prefix, ":"),
			":b": prefix == "p:redlock", "a:redlock": false, "seal": prefix == "redlock:",
			"sha256:": true, "sha256": false,
		} {
			got := Name(prefix, name)
			require.Equal(t, hashed, got != prefix+name, "%q %q", prefix, name)
			require.True(t, Name(prefix, name) == got && !refused(got), got)
			require.NotContains(t, resources, got, "%v", resources[got])
			resources[got] = [2]string{prefix, name}
		}
	}
	require.NotEqual(t, Name("p:", long+"x"), Name("p:", long+"y"))
	require.Len(t, Name(strings.Repeat("p", longestPrefix), long), Longest)
}
