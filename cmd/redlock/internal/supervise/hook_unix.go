//go:build unix

package supervise

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// RunHook runs a line of the shell without a lock, and returns its exit code, as
// a shell has it. It has a process group of its own, which is killed after most:
// then the error is context.DeadlineExceeded. What it leaves running in the
// background otherwise is left alone. It reads nothing.
func RunHook(line string, env []string, stdout, stderr *os.File, most time.Duration) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, Shell, ShellFlag, line)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = own.start(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	if err != nil {
		return 0, err
	}
	defer own.forget(cmd.Process.Pid)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		if status := ended.Sys().(syscall.WaitStatus); status.Signaled() {
			return codeSignal + int(status.Signal()), nil
		}
		return ended.ExitCode(), nil
	}
	return 0, err
}
