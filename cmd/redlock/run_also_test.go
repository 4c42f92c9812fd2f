//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/admin"
)

// redlock run --also locks all resources, or none, and says which one is in the
// way.
func TestRunWithSeveralResources(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	dir := t.TempDir()
	begun, end, file := filepath.Join(dir, "begun"), filepath.Join(dir, "end"), filepath.Join(dir, "outcome")
	script := shell(`printf %s "$REDLOCK_RESOURCE" >"$1.part"; mv "$1.part" "$1"; while test ! -e "$2"; do sleep 0.01; done`, begun, end)
	run := spawned(t, runs(t, nodes, []string{"-n", "--also=s,1", "--also=u", "--outcome=" + file}, script...))
	appears(t, begun)
	text, err := os.ReadFile(begun)
	require.NoError(t, err)
	require.Equal(t, "r, s,1, u", string(text))
	for _, resource := range []string{"r", "s,1", "u"} {
		found, err := admin.Inspect(t.Context(), c, resource)
		require.NoError(t, err)
		require.Equal(t, admin.StateHeld, found.State)
	}
	refused := within("run", nodes, "-n", "--also=u", "v", "--", "true")
	require.Equal(t, exitHeld, refused.code)
	require.Contains(t, refused.stderr, `resource "u" is held by `)
	require.Equal(t, exitHeld, within("acquire", nodes, "-n", "s,1").code)
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.NoError(t, run.Wait())
	for _, resource := range []string{"r", "s,1", "u", "v"} {
		eventually(t, resource+" is released", func() bool {
			found, err := admin.Inspect(t.Context(), c, resource)
			return err == nil && found.State == admin.StateFree
		})
	}
	outcome, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(outcome), `"resource":"r, s,1, u","resources":["r","s,1","u"],"outcome":"done"`)
}
