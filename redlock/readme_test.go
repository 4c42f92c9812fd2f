package redlock_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// The least privileges that deploy.md names are those of the tests' user.
func TestRightsAreTheSameEverywhere_R22(t *testing.T) {
	text := readText(t, "../docs/deploy.md")
	_, rule, found := strings.Cut(text, "ACL SETUSER redlock reset on >PASSWORD resetchannels ~lock:* ")
	require.True(t, found, "there is no rule")
	rule, _, _ = strings.Cut(rule, "```")
	require.Equal(t, strings.Fields(redlock.ACLRights), strings.Fields(rule))
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
