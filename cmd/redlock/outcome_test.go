package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
)

// documentedOutcomes returns the words of the table in docs/cli.md with their
// exit codes, and the text of the document.
func documentedOutcomes(t *testing.T) (codes map[string]string, document string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| code | outcome | |\n|---|---|---|\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	codes = make(map[string]string)
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		words, of := strings.Split(cells[2], ", "), strings.Split(cells[1], ", ")
		for i, word := range words {
			if word = strings.Trim(word, " `"); word != "" {
				require.NotContains(t, codes, word)
				codes[word] = strings.TrimSpace(of[min(i, len(of)-1)])
			}
		}
	}
	return codes, string(text)
}

// An event has one word everywhere (R12): the command's is the library's, from
// which Stats, metrics and spans have it, and the document has them all.
func TestEventsAreCalledAsTheDocumentSays_R12(t *testing.T) {
	documented, text := documentedOutcomes(t)
	library := map[string]error{
		"held": redlock.ErrHeld, "not_held": redlock.ErrNotHeld, "no_quorum": redlock.ErrNoQuorum, "expired": redlock.ErrExpired,
		"overloaded": redlock.ErrOverloaded, "invalid": redlock.ErrTTL, "lost": redlock.ErrLost,
	}
	own := map[string]error{
		"in_use": &exitError{exitInUse, errors.New("in use")}, "max_hold": &exitError{code: exitTooLong},
		"not_executable": &exitError{code: exitNotExecutable}, "not_found": &exitError{code: exitNotFound},
		"interrupted": &errInterrupted{syscall.SIGTERM}, "failed": errors.New("anything else"),
	}
	for word, err := range library {
		require.Equal(t, word, redlock.Outcome(err))
		require.Equal(t, word, outcomeWord(err))
		require.Equal(t, word, outcomeWord(&redlock.CancelledError{Err: context.Canceled, Last: err}), "what the last attempt found")
		require.Equal(t, word, outcomeWord(errors.Join(fmt.Errorf("so: %w", err), errors.New("something else"))))
		require.Equal(t, documented[word], strconv.Itoa(exitCode(err)), word)
	}
	require.Equal(t, "lost", outcomeWord(&redlock.LostError{Nodes: []redlock.NodeAnswer{{Err: redlock.ErrNotHeld}}}))
	for word, err := range own {
		require.Equal(t, word, initWord(err))
		require.Equal(t, strings.NewReplacer("128 + N", "143").Replace(documented[word]), strconv.Itoa(exitCode(err)), word)
	}
	words := slices.Concat(slices.Collect(maps.Keys(library)), slices.Collect(maps.Keys(own)), []string{"done"})
	require.ElementsMatch(t, words, slices.Collect(maps.Keys(documented)))

	for word := range maps.Collect(redlock.CallCounts{}.All()) {
		if documented[word] == "" {
			require.Contains(t, []string{"granted", "cancelled", "closed"}, word)
			require.Contains(t, text, "`"+word+"`")
		}
	}
}

// The helps and the document name the outcomes of each command in these words,
// beside those of success.
func TestHelpHasTheWordsOfTheDocument_R12(t *testing.T) {
	documented, text := documentedOutcomes(t)
	success := []string{"acquired", "extended", "released", "opened", "already_open", "reset"}
	known := func(listed string, of any) {
		t.Helper()
		listed = regexp.MustCompile(`\([^)]*\)|`+"`").ReplaceAllString(listed, "")
		words := regexp.MustCompile(`\s*(?:,| and | or )\s*`).Split(strings.TrimSpace(listed), -1)
		require.Contains(t, words, "interrupted", "%v", of)
		for _, word := range words {
			if !slices.Contains(success, word) {
				require.Contains(t, documented, word, "%v", of)
			}
		}
	}
	for _, c := range []interface{ Help() string }{
		&acquireCommand{}, &extendCommand{}, &releaseCommand{}, &runCommand{}, &electCommand{}, &initCommand{}, &fenceResetCommand{},
	} {
		listed := regexp.MustCompile(`(?:outcome is .*?\bone of |REDLOCK_OUTCOME: )(.*?)\.`).FindStringSubmatch(c.Help())
		require.NotNil(t, listed, "%T", c)
		known(listed[1], fmt.Sprintf("%T", c))
	}
	rows := regexp.MustCompile("\\| `outcome` \\((`[^)]*`)\\)").FindAllStringSubmatch(text, -1)
	require.Len(t, rows, 2, "init and fence reset")
	for _, row := range rows {
		known(row[1], row[0])
	}
}
