package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
)

// The table of docs/cli.md says how one event is called everywhere.
func TestEventsAreCalledAsTheDocumentSays_R12(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| error | `Stats`, metrics, spans | `outcome` | code |\n|---|---|---|---|\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, e := range []struct {
		name string
		err  error
	}{
		{"ErrHeld", redlock.ErrHeld}, {"ErrNoQuorum", redlock.ErrNoQuorum}, {"ErrOverloaded", redlock.ErrOverloaded},
		{"ErrNotHeld", redlock.ErrNotHeld}, {"ErrExpired", redlock.ErrExpired}, {"ErrLost", redlock.ErrLost},
	} {
		counted := redlock.Outcome(e.err)
		if e.err == redlock.ErrNoQuorum {
			counted = "no_quorum" // of the error with the nodes, which a test of the library makes
		}
		want = append(want, fmt.Sprintf("| `%s` | `%s` | `%s` | %d |", e.name, counted, outcomeWord(e.err), exitCode(e.err)))
	}
	require.Equal(t, want, strings.Split(strings.TrimSpace(table), "\n"))
}
