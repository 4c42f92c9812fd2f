package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A terminal is a pseudo-terminal: the test types at one end, and the program
// runs at the other.
type terminal struct {
	t      *testing.T
	keys   *os.File // the test's end
	tty    *os.File // the program's end
	screen lockedBuffer
	read   chan struct{} // closed when nothing more is shown
}

// newTerminal opens a terminal, which is closed with the test.
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals here: ", err)
	}
	term := &terminal{t: t, keys: keys, read: make(chan struct{})}
	number := term.control(func(fd int) (int, error) {
		require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
		return unix.IoctlGetInt(fd, unix.TIOCGPTN)
	})
	term.tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	go func() {
		defer close(term.read)
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			_, _ = term.screen.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = term.tty.Close()
		_ = term.keys.Close()
		<-term.read
	})
	return term
}

// control calls ask with the descriptor of the test's end. Fd would make reads
// block for ever.
func (term *terminal) control(ask func(fd int) (int, error)) (answer int) {
	term.t.Helper()
	raw, err := term.keys.SyscallConn()
	require.NoError(term.t, err)
	var failed error
	require.NoError(term.t, raw.Control(func(fd uintptr) { answer, failed = ask(int(fd)) }))
	require.NoError(term.t, failed)
	return answer
}

// foreground is the process group in the foreground.
func (term *terminal) foreground() (group int) {
	term.t.Helper()
	return term.control(func(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCGPGRP) })
}

// start starts a process that has this controlling terminal. Its standard
// streams are the terminal unless they are set.
func (term *terminal) start(cmd *exec.Cmd) {
	term.t.Helper()
	if cmd.Stdin == nil {
		cmd.Stdin = term.tty
	}
	if cmd.Stdout == nil {
		cmd.Stdout = term.tty
	}
	cmd.Stderr = term.tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	require.NoError(term.t, cmd.Start())
	term.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
}

func (term *terminal) types(text string) {
	term.t.Helper()
	_, err := term.keys.WriteString(text)
	require.NoError(term.t, err)
}

// awaits waits until a text is on the screen.
func (term *terminal) awaits(text string) {
	term.t.Helper()
	eventually(term.t, "not on the screen: "+text, func() bool { return strings.Contains(term.screen.String(), text) })
}
