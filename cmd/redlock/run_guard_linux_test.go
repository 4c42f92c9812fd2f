package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the guard is killed too, the kernel kills the command, but not what that
// has started.
func TestRunThatIsKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	dir := t.TempDir()
	cmd := spawned(t, runs(t, nodes, nil, shell(`echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; exec sleep 1000`, dir)...))
	appears(t, filepath.Join(dir, "pid"))
	group := groupOf(t, dir)
	require.NoError(t, syscall.Kill(group, syscall.SIGKILL)) // the guard alone
	require.True(t, alive(group))
	require.NoError(t, cmd.Process.Kill())
	require.Equal(t, 137, await(t, cmd))
	eventually(t, "the command is there", func() bool { return !alive(group) })
}
