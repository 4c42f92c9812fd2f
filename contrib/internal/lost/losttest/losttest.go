// Package losttest checks, for the tests of the adapters, what they say of a
// lock that was lost.
package losttest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Require fails the test unless the error's text says first that the lock was
// lost, then why, on one line, and names each node once.
func Require(tb testing.TB, err error) {
	tb.Helper()
	require.Error(tb, err)
	text := err.Error()
	lost := strings.Index(text, "was lost")
	require.GreaterOrEqual(tb, lost, 0, text)
	for _, later := range []string{"context ", "not held", "no quorum"} {
		if at := strings.Index(text, later); at >= 0 {
			require.Greater(tb, at, lost, text)
		}
	}
	require.NotContains(tb, text, "\n")
	require.NotContains(tb, text[1:], "redlock: ", text)
	named := make(map[string]int)
	for _, addr := range regexp.MustCompile(`node\d+:\d+`).FindAllString(text, -1) {
		named[addr]++
		require.Equal(tb, 1, named[addr], text)
	}
}
