//go:build unix

package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A terminal is the controlling terminal. The methods of a nil one do nothing.
// The process group in its foreground may read from it, and gets the signals of
// Ctrl-C and Ctrl-Z.
//
// The command is not in the wrapper's group, since the whole group is stopped
// when the lock is lost. So the command's group must be put in the foreground:
// at the start if standard input and output are terminals, otherwise when the
// command first wants to read. Not earlier, since other processes of the
// wrapper's group ("redlock run … | less") may need the terminal.
type terminal struct {
	file  *os.File
	ours  int // the wrapper's process group
	group int // the command's
}

// openTerminal returns nil if there is no controlling terminal.
func openTerminal(group int) *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &terminal{file: file, ours: syscall.Getpgrp(), group: group}
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

func isTerminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

// giveIfOurs puts the command's group in the foreground if the wrapper's is
// there.
func (t *terminal) giveIfOurs() (given bool) {
	return t != nil && t.foreground() == t.ours && t.set(t.group)
}

// takeBack puts the wrapper's group in the foreground if the command's is
// there.
func (t *terminal) takeBack() {
	if t != nil && t.foreground() == t.group {
		t.set(t.ours)
	}
}

func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// set is tcsetpgrp(3). It stops a process in the background with SIGTTOU unless
// that is ignored (see Run).
func (t *terminal) set(group int) bool {
	return unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) == nil
}
