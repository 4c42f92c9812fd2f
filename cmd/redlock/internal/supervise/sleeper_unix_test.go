//go:build unix

package supervise

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// A sleeper is a process that does nothing.
type sleeper struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// sleeps starts a process that leads a group.
func sleeps(t *testing.T) *sleeper {
	t.Helper()
	s := &sleeper{exec.Command("sleep", "1000"), make(chan struct{})}
	require.NoError(t, redistest.Spawn(s.cmd))
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	return s
}
