//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare/internal/window"
	"github.com/redmux/redmux/internal/redistest"
)

// TestMain lets children of this test program do their jobs.
func TestMain(m *testing.M) {
	window.Main()
	hogMain()
	os.Exit(m.Run())
}

// A whole run, as small as can be, and another that adds a round to its data.
func TestATinyRun(t *testing.T) {
	redistest.Require(t)
	dir := t.TempDir()
	f := &flags{
		Peers: []string{"redlock", "redsync"}, Loads: []int{1}, Callers: []int{2}, Rounds: 1, Window: 200 * time.Millisecond,
		Data: filepath.Join(dir, "data"), Out: filepath.Join(dir, "page"),
	}
	for range 2 {
		require.NoError(t, run(t.Context(), f))
	}
	page, err := os.ReadFile(f.Out)
	require.NoError(t, err)
	for _, peer := range f.Peers {
		assert.Regexp(t, `\n\| 1 × \| 2 \| `+peer+` \| 2 \| [\d,]+ \([\d,]+–[\d,]+\) \| `, string(page), "one row for both runs")
	}
	data, err := os.Open(f.Data)
	require.NoError(t, err)
	defer data.Close()
	samples, err := read(data)
	require.NoError(t, err)
	require.Len(t, samples, 4)
	for _, s := range samples {
		assert.Positive(t, s.Pairs, s.Peer)
	}
}

// The loops take CPU, and end when they should.
func TestHogsTakeCPUAndEnd(t *testing.T) {
	before := childrensCPU(t)
	stop, err := hogs(2)
	require.NoError(t, err)
	time.Sleep(300 * time.Millisecond)
	stop()
	assert.Greater(t, childrensCPU(t)-before, 20*time.Millisecond)
}

// childrensCPU is what children that have ended used up.
func childrensCPU(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u))
	return time.Duration(u.Utime.Nano())
}
