package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
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
	memberMain()
	candidateMain()
	window.Main()
	os.Exit(m.Run())
}

// What one session holds is held for another, and free afterwards.
func TestItIsALock(t *testing.T) {
	for _, n := range []int{1, 3} {
		c, err := startCluster(n, t.TempDir(), false)
		require.NoError(t, err)
		defer c.close()
		var both [2]compare.Pairer
		for i := range both {
			both[i], err = etcd.Open(c.urls)
			require.NoError(t, err)
			defer both[i].Close(context.Background())
		}
		entered := false
		_, err = both[0].Pair(t.Context(), "r", time.Minute, func() {
			entered = true
			_, err := both[1].Pair(t.Context(), "r", time.Minute, func() { t.Error("two hold one resource") })
			assert.Equal(t, "acquire: held", compare.Kind(err))
		})
		require.NoError(t, err)
		assert.True(t, entered)
		_, err = both[1].Pair(t.Context(), "r", time.Minute, nil)
		require.NoError(t, err)
	}
}

// A whole run, as small as can be.
func TestATinyRun(t *testing.T) {
	redistest.Require(t)
	file := filepath.Join(t.TempDir(), "page.md")
	f := &flags{Members: []int{1, 3}, Callers: []int{2}, Rounds: 1, Window: 200 * time.Millisecond, NoFsync: true,
		Takeovers: 1, ElectionTTL: 2 * time.Second, Write: file}
	var data *report.Data
	empty := func(s report.Sample) bool { return s.Pairs == 0 }
	// Where the servers get no processor for a while, there is no pair.
	for try := 0; try == 0 || try < 5 && slices.ContainsFunc(data.Samples, empty); try++ {
		var err error
		data, err = measure(t.Context(), f)
		require.NoError(t, err)
	}
	require.Len(t, data.Samples, 4)
	for _, s := range data.Samples {
		assert.Empty(t, s.Failure)
		assert.Positive(t, s.Pairs, "%s, %s", s.Peer, s.Case)
		assert.NotNil(t, s.ServersCPU)
	}
	var elections []takeovers
	// A busy machine delays renewals and hand-overs.
	for try := 0; try == 0 || try < 5 && slices.ContainsFunc(elections, wrong); try++ {
		var err error
		elections, err = measureTakeovers(t.Context(), f)
		require.NoError(t, err)
	}
	text := page(f, data, elections)
	assert.Regexp(t, `\| TCP, N = 3, 2 callers \| [\d.,]+ \| [\d.,]+ \| [\d.,]+ \|`, text)
	assert.Contains(t, text, "do **not** sync")
	for _, e := range elections {
		require.Len(t, e.next, 1)
		assert.False(t, wrong(e), "%+v", e)
		assert.Contains(t, text, "| "+e.exit+" | "+e.peer+" | ")
	}
	assert.Error(t, run(t.Context(), &flags{}))
}

// wrong reports whether the only takeover came late after its leader stepped
// down, or long before the TTL after its leader died.
func wrong(e takeovers) bool {
	if e.exit == "steps down" {
		return e.next[0] >= 1
	}
	return e.next[0] <= 0.5
}

func TestAMemberThatCannotStartIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err := startCluster(1, dir, false)
	require.ErrorContains(t, err, "did not start")
}
