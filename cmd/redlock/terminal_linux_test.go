package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A desk is a terminal with somebody before it.
type desk struct {
	t      *testing.T
	keys   *os.File // what is written here is typed
	tty    *os.File
	screen lockedBuffer
	read   chan struct{} // closed when nothing more is shown
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	d := &desk{t: t, keys: keys, read: make(chan struct{})}
	raw, err := keys.SyscallConn() // Fd would have reads block for ever
	require.NoError(t, err)
	var number int
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
	}))
	d.tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	go func() {
		defer close(d.read)
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			_, _ = d.screen.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = d.tty.Close()
		_ = d.keys.Close()
		<-d.read
	})
	return d
}

// sit starts a process whose controlling terminal this is; its standard streams are the terminal where they are not set.
func (d *desk) sit(cmd *exec.Cmd) {
	d.t.Helper()
	if cmd.Stdin == nil {
		cmd.Stdin = d.tty
	}
	if cmd.Stdout == nil {
		cmd.Stdout = d.tty
	}
	cmd.Stderr = d.tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	require.NoError(d.t, cmd.Start())
	d.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
}

func (d *desk) types(text string) {
	d.t.Helper()
	_, err := d.keys.WriteString(text)
	require.NoError(d.t, err)
}

// sees waits until a text is on the screen.
func (d *desk) sees(text string) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(d.screen.String(), text) {
		if time.Now().After(deadline) {
			require.FailNow(d.t, "not on the screen: "+text, "%q", d.screen.String())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// A command reads from the terminal and is ended by Ctrl-C, as without a wrapper.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	d := newDesk(t)
	// It reads at the end, too: a shell that is just starting another process may lose an interrupt.
	cmd := runs(t, nodes, nil, shell(`echo re""ady; read line; echo "got $line"; read more; echo never`)...)
	d.sit(cmd)
	d.sees("ready")
	d.types("some words\n")
	d.sees("got some words")
	d.types("\x03")
	require.Equal(t, 130, await(t, cmd))
}

// Where standard output goes elsewhere ("redlock run … | less"), who reads that may need the terminal. The command gets it when
// it wants to read.
func TestRunGetsTheTerminalWhenItWantsToRead(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	d := newDesk(t)
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	defer out.Close()
	cmd := runs(t, nodes, nil, shell(`touch "$1/ready"; while ! test -e "$1/go"; do sleep 0.02; done; read line; echo "got $line" >&2`, dir)...)
	cmd.Stdout = out
	d.sit(cmd)
	appears(t, filepath.Join(dir, "ready"))
	require.Equal(t, cmd.Process.Pid, foreground(t, d), "the wrapper's group")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	d.types("words\n")
	d.sees("got words")
	require.Equal(t, 0, await(t, cmd))
}

// A script without job control reads from the terminal when the command has ended.
func TestRunGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	d := newDesk(t)
	script := exec.Command("sh", "-c", `"$@"; read line; echo "then $line"`, "sh",
		binary(t), "run", nodes, "r", "--", "sh", "-c", `echo re""ady; read line; echo "got $line"`)
	d.sit(script)
	d.sees("ready")
	d.types("one\n")
	d.sees("got one")
	d.types("two\n")
	d.sees("then two")
	require.Equal(t, 0, await(t, script))
}

// foreground is the process group in the foreground of the terminal.
func foreground(t *testing.T, d *desk) (group int) {
	t.Helper()
	raw, err := d.keys.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
	}))
	require.NoError(t, err)
	return group
}

// A shell with job control: Ctrl-Z brings its prompt back, fg the command, as without a wrapper.
func TestRunUnderJobControl(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	_, nodes := masters(t, 3)
	d := newDesk(t)
	shell := exec.Command(bash, "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), "TERM=dumb", "HISTFILE=")
	d.sit(shell)
	d.types(binary(t) + " run --ttl=1m " + nodes + ` r -- sh -c 'echo re""ady; read line; echo "got $line"; exit 5'` + "\n")
	d.sees("ready")
	d.types("\x1a")
	d.sees("Stopped")
	d.types("echo still \"he\"re\n")
	d.sees("still here")
	d.types("fg\n")
	d.types("words\n")
	d.sees("got words")
	d.types("echo \"co\"de $?\n")
	d.sees("code 5")
	d.types("exit\n")
	require.Equal(t, 0, await(t, shell))
}

// A command that was stopped for longer than its lock lasts does not go on.
func TestRunUnderJobControlContinuedTooLate_R15(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	servers, nodes := masters(t, 3)
	d := newDesk(t)
	dir := t.TempDir()
	shell := exec.Command(bash, "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), "TERM=dumb", "HISTFILE=")
	d.sit(shell)
	d.types(binary(t) + " run --ttl=3s " + nodes + ` r -- sh -c 'echo re""ady; read line; touch ` + dir + `/went-on'` + "\n")
	d.sees("ready")
	d.types("\x1a")
	d.sees("Stopped")
	eventually(t, "it is renewed", func() bool { n, err := servers[0].Do("EXISTS", "r"); return err == nil && n == int64(0) })
	d.types("fg; echo \"co\"de $?\n")
	d.sees("code 70")
	require.False(t, exists(filepath.Join(dir, "went-on")))
	d.types("exit\n")
	require.Equal(t, 0, await(t, shell))
}
