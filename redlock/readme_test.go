package redlock_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// The README's code is that of examples, which compile and run: the quick start is the whole of the package's, and the block
// about Do is in the one for that.
func TestReadmeShowsTheExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readText(t, "../README.md"), -1)
	require.Len(t, blocks, 2, "each block of Go code needs its example")
	source := readText(t, "example_test.go")
	require.Equal(t, bodyOf(t, source, "Example"), strings.TrimSpace(blocks[0][1]))
	require.Contains(t, bodyOf(t, source, "ExampleClient_Do"), strings.TrimSpace(blocks[1][1]))
}

// bodyOf is a function's body as the README indents it.
func bodyOf(t *testing.T, source, function string) string {
	t.Helper()
	_, body, found := strings.Cut(source, "func "+function+"() {\n")
	require.True(t, found, "there is no %s", function)
	body, _, _ = strings.Cut(body, "\n}\n")
	return strings.TrimSpace(strings.ReplaceAll("\n"+body, "\n\t", "\n"))
}

// Whoever reads of the least privileges reads the same everywhere, and it is what the tests with such a user have.
func TestRightsAreTheSameEverywhere_R22(t *testing.T) {
	want := strings.Fields(redlock.ACLRights)
	for _, file := range []string{"../README.md", "../docs/servers.md"} {
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
