package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
	"github.com/redmux/redmux/bench/compare/internal/window"
	"github.com/redmux/redmux/internal/redistest"
)

// TestMain lets children of this test program do their jobs.
func TestMain(m *testing.M) {
	window.Main()
	os.Exit(m.Run())
}

// A whole run, as small as can be, through real servers and real children; and
// the report again from its data.
func TestATinyRun(t *testing.T) {
	redistest.Require(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	var data *report.Data
	works := func(s report.Sample) bool { return s.Peer == compare.Ours || s.Kind == report.Healthy }
	empty := func(s report.Sample) bool { return works(s) && s.Pairs == 0 }
	// Where the masters get no processor for a while, there is no pair.
	for try := 0; try == 0 || try < 10 && slices.ContainsFunc(data.Samples, empty); try++ {
		err := run(t.Context(), []string{
			"--peers", "redlock,redsync", "--nodes", "3", "--callers", "4", "--network", "unix", "--rounds", "1",
			"--window", "200ms", "--warmup", "50ms", "--settle", "1s", "--stop-window", "300ms", // a busy machine stops a master late
			"--json", file("data.json"), "--out", file("R.md"), "--chart", file("c.svg"),
		}, io.Discard, io.Discard)
		require.NoError(t, err)
		data, err = readData([]string{file("data.json")})
		require.NoError(t, err)
	}
	counts := map[string]int{}
	for _, s := range data.Samples {
		counts[s.Peer+" "+string(s.Kind)]++
		assert.Empty(t, s.Failure, "%v", s)
		assert.False(t, empty(s), "%s, %s", s.Peer, s.Kind)
		if s.Peer == compare.Redsync && s.Kind == report.Stopped {
			assert.Zero(t, s.Pairs, "it waits for the stopped master, so one was stopped")
		}
		assert.Equal(t, s.Kind == report.Stopping, s.Gap > 0, "%v", s)
	}
	assert.Equal(t, map[string]int{
		"redlock healthy": 1, "redlock stopped": 1, "redlock stopping": 1,
		"redsync healthy": 1, "redsync stopped": 1,
	}, counts)
	assert.Contains(t, data.Versions[0].Version, ".", "of the servers")

	written := read(t, file("R.md"))
	assert.Contains(t, written, "unix, N = 3, 4 callers")
	assert.NotContains(t, written, dir)
	require.NoError(t, run(t.Context(), []string{"--from-json", file("data.json"), "--out", file("R2.md"), "--chart", file("c2.svg")}, io.Discard, io.Discard))
	assert.Equal(t, written, read(t, file("R2.md")))
	assert.Equal(t, read(t, file("c.svg")), read(t, file("c2.svg")))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// The check for CI in two rounds, without what it asserts. `make quick` runs it
// as it is.
func TestQuickRun(t *testing.T) {
	redistest.Require(t)
	var out strings.Builder
	require.NoError(t, quick(t.Context(), parsed(t, "--quick"), 2, &out))
	assert.Contains(t, out.String(), "rueidis, tuned")
	assert.NotContains(t, out.String(), "–   at least", "something was not measured")
	t.Log(&out)
}

func TestAnInterruptedRunKeepsNothingRunning(t *testing.T) {
	redistest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	err := run(ctx, []string{"--nodes", "1", "--callers", "1", "--window", "1m", "--json", filepath.Join(t.TempDir(), "d")}, io.Discard, io.Discard)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(start), 50*time.Second, "the window is a minute")
}
