package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/faults"
	"github.com/redmux/redmux/proof/history"
)

func TestMain(m *testing.M) {
	faults.WorkerMain()
	os.Exit(m.Run())
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		prints string
	}{
		{[]string{"list"}, exitGood, "client-kill-9"},
		{[]string{"--help"}, exitGood, "list"},
		{[]string{"run", "--help"}, exitGood, "--soak"},
		{[]string{"--nonsense"}, exitUsage, ""},
		{[]string{"--for", "soon"}, exitUsage, ""},
		{[]string{"run", "--nodes", "99"}, exitFailed, ""},
		{[]string{"--nodes", "99"}, exitFailed, ""},
		{[]string{"--kinds", "none-such"}, exitFailed, ""},
	} {
		var out, said bytes.Buffer
		assert.Equal(t, c.code, run(context.Background(), c.args, &out, &said), "%v", c.args)
		assert.Contains(t, out.String(), c.prints)
		assert.Equal(t, c.code != exitGood, said.Len() > 0, said.String())
	}
}

// A good run exits with 0, its report is JSON if that was asked for, and its
// history can be judged again.
func TestGoodRun(t *testing.T) {
	redistest.Require(t)
	file := filepath.Join(t.TempDir(), "history")
	var out, said bytes.Buffer
	args := []string{"--for", "2s", "--callers", "16", "--kinds", "stop,oom,reset", "-o", "json", "--history", file}
	require.Equal(t, exitGood, run(context.Background(), args, &out, &said), said.String())
	var report faults.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	assert.Positive(t, report.Tally[faults.Grants])
	for _, kind := range []string{"stop", "oom", "reset"} {
		assert.Contains(t, report.Faults, kind) // a busy machine adds "repair"
	}
	lines, err := os.Open(file)
	require.NoError(t, err)
	defer lines.Close()
	events := 0
	for _, err := range history.Read(lines) {
		require.NoError(t, err)
		events++
	}
	assert.EqualValues(t, report.Tally[faults.Events], events)
}

// A soak of which no slope can be judged is no success.
func TestSoakThatIsTooShort(t *testing.T) {
	redistest.Require(t)
	var out, said bytes.Buffer
	args := []string{"--soak", "--for", "1s", "--callers", "16", "--kinds", "stop", "-q"}
	assert.Equal(t, exitFailed, run(context.Background(), args, &out, &said))
	assert.Contains(t, said.String(), "too short to judge slopes")
}

// A run that found two holders exits with 3.
func TestViolatedRun(t *testing.T) {
	redistest.Long(t)
	redistest.Require(t)
	var out, said bytes.Buffer
	code, begun := exitGood, time.Now()
	for _, long := range []string{"1s", "5s", "25s"} { // how soon they meet depends on the machine
		out.Reset()
		said.Reset()
		args := []string{"--for", long, "--callers", "16", "--kinds", "stop", "-q", "--broken", "no-quorum"}
		if code = run(context.Background(), args, &out, &said); code == exitViolated {
			t.Logf("found in a run of %s, after %v in all", long, time.Since(begun).Round(time.Millisecond))
			break
		}
	}
	assert.Equal(t, exitViolated, code)
	assert.Contains(t, out.String(), "two holders")
	assert.Contains(t, said.String(), "VIOLATED")
}
