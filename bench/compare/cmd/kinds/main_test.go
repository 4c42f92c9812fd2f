package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// A whole run, as small as can be.
func TestATinyRun(t *testing.T) {
	redistest.Require(t)
	f := &flags{
		Clients: 3, Hold: time.Millisecond, For: 200 * time.Millisecond, Rounds: 1, Masters: 3, TTL: 10 * time.Second,
		Out: filepath.Join(t.TempDir(), "page"),
	}
	require.NoError(t, run(t.Context(), f))
	text, err := os.ReadFile(f.Out)
	require.NoError(t, err)
	for _, c := range cases {
		for _, who := range c.contestants {
			assert.Contains(t, string(text), "| "+c.kind+" | "+who.name+" | ")
		}
	}
	assert.Regexp(t, "\\| `Client.RW` \\| the writer \\| \\d", string(text))
}

func TestSums(t *testing.T) {
	f := &flags{For: 2 * time.Second}
	both := &client{class: readersAndWriter}
	assert.Equal(t, map[string]result{
		"the writer": {Grants: 1, P50: 9, P99: 9, Longest: 9, Commands: 10},
		"readers":    {Grants: 1.5, P50: 3, P99: 8, Longest: 8, Commands: 10},
	}, f.sumUp([]*client{both, both}, []seen{{2, []time.Duration{9, 4}}, {3, []time.Duration{3, 1, 2, 8}}}, 50), "the last wait was cut short")
}
