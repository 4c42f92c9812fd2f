//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
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
	f := &flags{
		Peers: []string{"redlock", "redsync"}, Loads: []int{1}, Callers: []int{2}, Rounds: 1, Window: 200 * time.Millisecond,
	}
	var samples []sample
	empty := func(s sample) bool { return s.Pairs == 0 }
	// Where the masters get no processor for a while, there is no pair.
	for try := 0; try == 0 || try < 10 && slices.ContainsFunc(samples, empty); try++ {
		dir := t.TempDir()
		f.Data, f.Out = filepath.Join(dir, "data"), filepath.Join(dir, "page")
		for range 2 {
			require.NoError(t, run(t.Context(), f))
		}
		data, err := os.Open(f.Data)
		require.NoError(t, err)
		defer data.Close()
		samples, err = read(data)
		require.NoError(t, err)
	}
	page, err := os.ReadFile(f.Out)
	require.NoError(t, err)
	for _, peer := range f.Peers {
		assert.Regexp(t, `\n\| 1 × \| 2 \| `+peer+` \| 2 \| [\d,]+(?: \([\d,]+–[\d,]+\))? \| `, string(page), "one row for both runs")
	}
	require.Len(t, samples, 4)
	for _, s := range samples {
		assert.Positive(t, s.Pairs, s.Peer)
	}
}

// The loops take CPU, and end when they should.
func TestHogsTakeCPUAndEnd(t *testing.T) {
	// The loops of a busy machine begin late.
	const enough = 150 * time.Millisecond // more than two processes take to begin
	took := time.Duration(0)
	for wait := 300 * time.Millisecond; wait < 20*time.Second && took <= enough; wait *= 2 {
		before := childrensCPU(t)
		stop, err := hogs(2)
		require.NoError(t, err)
		time.Sleep(wait)
		stop()
		took = childrensCPU(t) - before
	}
	assert.Greater(t, took, enough)
}

// childrensCPU is what children that have ended used up.
func childrensCPU(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u))
	return time.Duration(u.Utime.Nano())
}
