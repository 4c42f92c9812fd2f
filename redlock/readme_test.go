package redlock_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// All documents name the same least privileges, which are those of the tests'
// user.
func TestRightsAreTheSameEverywhere_R22(t *testing.T) {
	want := strings.Fields(redlock.ACLRights)
	for _, file := range []string{"../docs/deploy.md", "../docs/internals/servers.md"} {
		_, rule, found := strings.Cut(readText(t, file), "ACL SETUSER redlock reset on >PASSWORD resetchannels ~lock:* ")
		require.True(t, found, "%s has no rule", file)
		rule, _, _ = strings.Cut(rule, "```")
		require.Equal(t, want, strings.Fields(rule), file)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
