//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the controlling terminal, if there is one; the methods of a nil one do nothing. A process group in its
// foreground may read from it, and gets what Ctrl-C and Ctrl-Z send.
//
// The command has a group of its own, since the whole group must be stopped when the lock is lost, and nobody else. So it has
// to be put in the foreground: at the start where standard input and output are terminals, else when it first wants to read.
// Not earlier, since others of our own group ("redlock run … | less") may need the terminal.
type terminal struct {
	file  *os.File
	ours  int // our process group
	group int // the command's
}

// openTerminal returns nil where there is no controlling terminal.
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

// forStart is the terminal if the command is to begin in its foreground, else nil.
func (t *terminal) forStart(stdio []*os.File) *os.File {
	if t == nil || t.foreground() != t.ours || !isTerminal(stdio[0]) || !isTerminal(stdio[1]) {
		return nil
	}
	return t.file
}

func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// giveIfOurs puts the command's group in the foreground, if ours is there.
func (t *terminal) giveIfOurs() (given bool) {
	return t != nil && t.foreground() == t.ours && t.set(t.group)
}

// takeBack puts our group in the foreground, if the command's is there.
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

// set is tcsetpgrp(3), which stops with SIGTTOU who is in the background and does not ignore that: see supervise.
func (t *terminal) set(group int) bool {
	return unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) == nil
}
