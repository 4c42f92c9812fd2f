package supervise

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func isZombie(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return bytes.Contains(stat, []byte(") Z "))
}

// A process that others wait for keeps its end for them, even if it ends at
// once; any other child's end is taken in.
func TestOnlyOrphansAreReaped(t *testing.T) {
	var c children
	path, err := exec.LookPath("false")
	require.NoError(t, err)
	start := func() (int, error) {
		process, err := os.StartProcess(path, []string{"false"}, &os.ProcAttr{})
		if err != nil {
			return 0, err
		}
		defer process.Release()
		return process.Pid, nil
	}
	ours := 0
	require.NoError(t, c.start(func() (pid int, err error) {
		ours, err = start()
		return ours, err
	}))
	orphan, err := start()
	require.NoError(t, err)
	for _, pid := range []int{ours, orphan} {
		require.Eventually(t, func() bool { return isZombie(pid) }, patience, time.Millisecond)
		c.reap(pid)
	}
	require.True(t, isZombie(ours))
	require.False(t, isZombie(orphan))
	var status syscall.WaitStatus
	_, err = syscall.Wait4(ours, &status, 0, nil)
	require.NoError(t, err)
	require.Equal(t, 1, status.ExitStatus())
	c.forget(ours)
	require.Empty(t, c.pids)
	require.Error(t, c.start(func() (int, error) { return 0, os.ErrNotExist }))
	require.Empty(t, c.pids)
	c.reap(os.Getpid()) // none of our children
}
