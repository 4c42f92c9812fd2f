package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// TestMain lets children of this test program do their jobs.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "--join") {
		main()
		return
	}
	os.Exit(m.Run())
}

// A whole run, as small as can be, in one process and in two.
func TestATinyRun(t *testing.T) {
	redistest.Require(t)
	f := &flags{
		Impl: []string{"do", "acquire", "off", "rueidis", "redsync"}, Hold: []time.Duration{time.Millisecond}, Goroutines: 4, Processes: []int{1, 2},
		For: 200 * time.Millisecond, Rounds: 1, Masters: 3, TTL: 10 * time.Second, Out: filepath.Join(t.TempDir(), "page"),
	}
	var page []byte
	// Where the masters get no processor for a while, nothing is granted.
	for try := 0; try == 0 || try < 10 && strings.Contains(string(page), "| – | – |"); try++ {
		require.NoError(t, run(t.Context(), f))
		var err error
		page, err = os.ReadFile(f.Out)
		require.NoError(t, err)
	}
	for _, impl := range f.Impl {
		assert.Regexp(t, `\n\| 1 \| 1ms \| `+impl+` \| `, string(page))
	}
	// Two equal values have no range.
	figure := `\d[\d,.]*(?: \([\d,.]+–[\d,.]+\))?`
	for _, impl := range []string{"do", "acquire"} {
		assert.Regexp(t, `\n\| 1 \| 1ms \| `+impl+` \| `+figure+` \| `+figure+` \| `+figure+` \| `+figure+` \| – \|`, string(page))
		assert.Regexp(t, `\n\| 2 \| 1ms \| `+impl+` \| `+figure+` \| .* \| 50(?:\.0)?(?: \([\d.]+–\d[\d.]+\))? \|\n`, string(page), "the shares of two have their median there")
	}
}

func TestTogether(t *testing.T) {
	assert.Equal(t, result{Grants: 4, Held: 4, P50: 3, P99: 9, Shares: []float64{0.25, 0.75, 0}}, together([]result{
		{Grants: 1, Held: 2, P50: 3, P99: 4}, {Grants: 3, Held: 6, P50: 1, P99: 9}, {},
	}))
	assert.Equal(t, result{}, together([]result{{}, {}}), "nothing was granted")
}
