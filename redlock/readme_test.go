package redlock_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's quick start is the package example, which compiles.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)

	_, shown, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found, "the README has no Go code")
	shown, _, _ = strings.Cut(shown, "```")

	_, body, found := strings.Cut(string(source), "func Example() {\n")
	require.True(t, found, "there is no package example")
	body, _, _ = strings.Cut(body, "\n}\n")
	body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
	require.Equal(t, strings.TrimSpace(body), strings.TrimSpace(shown))
}
