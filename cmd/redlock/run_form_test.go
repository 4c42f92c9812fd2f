//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// redlock run with the flags of locks that are not plain: what runs beside a
// command, and what is refused.
func TestRunWithOtherForms(t *testing.T) {
	redistest.NoLeaks(t)
	_, nodes := masters(t, 3)
	code := func(wait string, flags []string) int {
		cmd := spawned(t, runs(t, nodes, append([]string{wait}, flags...), "true"))
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		name            string
		first           []string
		beside, refused []string
	}{
		{"shared", []string{"--shared"}, []string{"--shared"}, []string{"--exclusive"}},
		{"exclusive", []string{"--exclusive"}, nil, []string{"--shared"}},
		{"permits", []string{"--permits=2"}, []string{"--permits=2"}, []string{"--permits=1"}},
		{"fair", []string{"--fair"}, nil, []string{"--fair"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			begun, end := filepath.Join(dir, "begun"), filepath.Join(dir, "end")
			script := shell(`: >"$1"; while test ! -e "$2"; do sleep 0.01; done`, begun, end)
			run := spawned(t, runs(t, nodes, append([]string{"-n"}, c.first...), script...))
			appears(t, begun)
			if c.beside != nil {
				require.Zero(t, code("-n", c.beside))
			}
			require.Equal(t, exitHeld, code("-n", c.refused))
			time.AfterFunc(100*time.Millisecond, func() { _ = os.WriteFile(end, nil, 0o600) })
			require.Zero(t, code("-w10s", c.refused))
			require.NoError(t, run.Wait())
		})
	}
	for _, args := range [][]string{
		{"--shared", "--exclusive"}, {"--permits=0", "--fair"}, {"--permits=0"}, {"--permits=-1"}, {"--permits=2000"},
		{"--shared", "--also=x"}, {"--fair", "--fenced"}, {"--exclusive", "--min-hold=1s"}, {"--permits=2", "--heal"},
	} {
		require.Equal(t, exitUsage, code("-n", args), "%q", args)
	}
}
