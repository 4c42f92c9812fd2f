package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// narrow requires lines of at most 80 characters.
func narrow(t *testing.T, text string, of ...string) {
	t.Helper()
	require.NotEmpty(t, text)
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, "%q: %s", of, line)
	}
}

func TestEveryHelpFitsInto80Columns(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, topic := range []string{
		"", "run", "elect", "acquire", "extend", "release", "status", "init", "fence", "fence reset", "nodes", "doctor", "completion",
		"help", "version",
	} {
		words := strings.Fields(topic)
		help := within(append(words, "--help")...)
		require.Equal(t, result{stdout: help.stdout}, help)
		narrow(t, help.stdout, words...)
		require.Equal(t, help, within(append([]string{"help"}, words...)...), topic)
	}
	require.Contains(t, within("help", "fence", "rest").stderr, `no command "fence rest"`)
	require.Contains(t, within("help", "run", "reset").stderr, `no command "run reset"`)
}

func TestNodesFitsInto80Columns(t *testing.T) {
	_, nodes := masters(t, 3)
	wide := within("nodes", nodes, "--observe=0")
	require.Equal(t, exitOK, wide.code, wide.stderr)
	require.Len(t, strings.Split(wide.stdout, "\n"), 5, "one table for programs")
	t.Setenv("COLUMNS", "80")
	r := within("nodes", nodes, "--observe=0")
	require.Equal(t, exitOK, r.code, r.stderr)
	heads := strings.Fields(strings.SplitN(wide.stdout, "\n", 2)[0])
	for _, head := range heads {
		require.Contains(t, r.stdout, head)
	}
	require.Equal(t, strings.Count(r.stdout, "\nNODE")+1, strings.Count(r.stdout, "NODE"))
	require.Greater(t, strings.Count(r.stdout, "NODE"), 1)
}

func TestTablesAreSplitWhereTheScreenEnds(t *testing.T) {
	rows := [][]string{{"A", "B", "CC", "D"}, {"1", "two", "", strings.Repeat("±", 30)}}
	require.Equal(t, "A  B    CC  D\n1  two  -   "+strings.Repeat("±", 30)+"\n", screen{}.table(rows))
	require.Equal(t, screen{}.table(rows), screen{width: 42}.table(rows))
	require.Equal(t, "A  B    CC\n1  two  -\n\nA  D\n1  "+strings.Repeat("±", 30)+"\n", screen{width: 41}.table(rows))
	require.Equal(t, "A  B\n1  two\n\nA  CC\n1  -\n\nA  D\n1  "+strings.Repeat("±", 30)+"\n", screen{width: 1}.table(rows))
	require.Equal(t, "A\n", screen{width: 1}.table([][]string{{"A"}}))
}
