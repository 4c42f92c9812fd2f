package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/internal/redistest"
)

// A command reads from the terminal and is ended by Ctrl-C, as without a
// wrapper.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	term := newTerminal(t)
	// It reads at the end too: a shell that is just starting a process may lose
	// an interrupt.
	cmd := runs(t, nodes, nil, shell(`echo re""ady; read line; echo "got $line"; read more; echo never`)...)
	term.start(cmd)
	term.awaits("ready")
	term.types("some words\n")
	term.awaits("got some words")
	term.types("\x03")
	require.Equal(t, 130, await(t, cmd))
}

// If standard output goes elsewhere ("redlock run … | less"), its reader may
// need the terminal. The command gets the terminal when it wants to read.
func TestRunGetsTheTerminalWhenItWantsToRead(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	term := newTerminal(t)
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	defer out.Close()
	cmd := runs(t, nodes, nil, shell(`touch "$1/ready"; while ! test -e "$1/go"; do sleep 0.02; done; read line; echo "got $line" >&2`, dir)...)
	cmd.Stdout = out
	term.start(cmd)
	appears(t, filepath.Join(dir, "ready"))
	require.Equal(t, cmd.Process.Pid, term.foreground(), "the wrapper's group")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	term.types("words\n")
	term.awaits("got words")
	require.Equal(t, 0, await(t, cmd))
}

// A script without job control can read from the terminal when the command has
// ended.
func TestRunGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	term := newTerminal(t)
	script := exec.Command("sh", "-c", `"$@"; read line; echo "then $line"`, "sh",
		binary(t), "run", nodes, "r", "--", "sh", "-c", `echo re""ady; read line; echo "got $line"`)
	term.start(script)
	term.awaits("ready")
	term.types("one\n")
	term.awaits("got one")
	term.types("two\n")
	term.awaits("then two")
	require.Equal(t, 0, await(t, script))
}

// interactive starts a shell with job control at a terminal, and what it is to
// run.
func interactive(t *testing.T, line string) (shell *exec.Cmd, term *terminal) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	term = newTerminal(t)
	shell = exec.Command(bash, "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), "TERM=dumb", "HISTFILE=")
	term.start(shell)
	term.types(line + "\n")
	term.awaits("ready")
	term.types("\x1a")
	term.awaits("Stopped")
	return shell, term
}

// A shell with job control: Ctrl-Z brings its prompt back, and fg the command,
// as without a wrapper.
func TestRunUnderJobControl(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	shell, term := interactive(t, binary(t)+" run --ttl=1m "+nodes+` r -- sh -c 'echo re""ady; read line; echo "got $line"; exit 5'`)
	term.types("echo still \"he\"re\n")
	term.awaits("still here")
	term.types("fg\n")
	term.types("words\n")
	term.awaits("got words")
	term.types("echo \"co\"de $?\n")
	term.awaits("code 5")
	term.types("exit\n")
	require.Equal(t, 0, await(t, shell))
}

// A command that was stopped for longer than its lock lasts is not continued.
func TestRunUnderJobControlContinuedTooLate_R15(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	dir := t.TempDir()
	shell, term := interactive(t, binary(t)+" run --ttl=3s "+nodes+` r -- sh -c 'echo re""ady; read line; touch `+dir+`/went-on'`)
	eventually(t, "it is renewed", func() bool { n, err := servers[0].Do("EXISTS", "r"); return err == nil && n == int64(0) })
	term.types("fg; echo \"co\"de $?\n")
	term.awaits("code 70")
	require.False(t, exists(filepath.Join(dir, "went-on")))
	term.types("exit\n")
	require.Equal(t, 0, await(t, shell))
}

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

// A session is a program that runs at a terminal.
type session struct {
	*terminal
	signals chan os.Signal
	stderr  bytes.Buffer
	code    int
	running sync.WaitGroup
}

func begin(t *testing.T, args ...string) *session {
	t.Helper()
	s := &session{terminal: newTerminal(t), signals: make(chan os.Signal, 1)}
	s.running.Go(func() { s.code = run(args, s.tty, s.tty, &s.stderr, s.signals) })
	return s
}

// end waits for the program, and returns its exit code.
func (s *session) end() int {
	s.running.Wait()
	return s.code
}

func TestForceAsks(t *testing.T) {
	servers, nodes := masters(t, 3)
	for answer, want := range map[string]int{"yes\n": exitOK, "YES\n": exitOK, "y\n": exitFailed, "no\n": exitFailed, "\n": exitFailed, "\x04": exitFailed,
		"yes\x04\x04": exitFailed, "yes" + strings.Repeat(" ", 70) + "but no\n": exitFailed} {
		s := asks(t, servers, nodes)
		s.awaits("Delete these keys on 3 nodes? Type yes: ")
		assert.Contains(t, s.screen.String(), fingerprint("x"))
		s.types(answer)
		assert.Equal(t, want, s.end(), answer)
		for _, server := range servers {
			assert.Equal(t, want == exitOK, valueOf(t, server, "job") == nil, answer)
		}
	}
}

// A client that gets the lock while the question is open keeps it.
func TestForceLeavesAloneWhatHasChangedSinceItWasShown(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	s := asks(t, servers, nodes)
	do(t, servers[:1], "SET", "job", "another's", "PX", "600000")
	do(t, servers[1:2], "DEL", "job")
	s.types("yes\n")
	assert.Equal(t, exitHeld, s.end())
	s.awaits("changed since it was shown: left alone")
	s.awaits("gone before")
	s.awaits("deleted")
	assert.Equal(t, "another's", valueOf(t, servers[0], "job"))
	assert.Nil(t, valueOf(t, servers[2], "job"))
	assert.NotContains(t, s.screen.String(), "another's", "R27")
}

// asks has redlock release --force ask whether to delete a key of all servers.
func asks(t *testing.T, servers []*redistest.Server, nodes string, flags ...string) *session {
	t.Helper()
	do(t, servers, "SET", "job", "x", "PX", "600000")
	s := begin(t, append([]string{"release", nodes, "--force", "job"}, flags...)...)
	s.awaits("Type yes: ")
	return s
}

func TestForceInterruptedWhileItAsks(t *testing.T) {
	servers, nodes := masters(t, 1)
	s := asks(t, servers, nodes)
	s.signals <- syscall.SIGINT
	assert.Equal(t, signalCode(syscall.SIGINT), s.end())
	assert.NotNil(t, valueOf(t, servers[0], "job"))
	s.types("yes\n") // nothing reads it any more
}

// An interrupt does not undo a yes, and does not wait for a node that hangs. A
// node that answers soon after the interrupt is still done.
func TestForceInterruptedWhileANodeHangsForAMoment(t *testing.T) {
	for _, moment := range []bool{true, false} {
		servers, nodes := masters(t, 3)
		s := asks(t, servers, nodes, "--timeout=1h")
		require.NoError(t, servers[2].Stop())
		s.types("yes\n")
		for _, server := range servers[:2] {
			eventually(t, "the key is deleted", func() bool { return valueOf(t, server, "job") == nil })
		}
		s.signals <- syscall.SIGINT
		if moment {
			eventually(t, "the interrupt is taken", func() bool { return len(s.signals) == 0 })
			require.NoError(t, servers[2].Continue())
		}
		assert.Equal(t, exitOK, s.end(), "a quorum is deleted")
		if moment {
			require.Nil(t, valueOf(t, servers[2], "job"))
		} else {
			s.awaits("no answer: it may or may not be deleted")
		}
	}
}

// On a terminal a watch is redrawn in place, in colours unless NO_COLOR is set.
func TestWatchOnATerminal(t *testing.T) {
	_, nodes := masters(t, 1)
	t.Setenv("TERM", "xterm")
	for noColour, painted := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", noColour)
		s := begin(t, "status", nodes, "--watch", "--every=100ms", "job")
		eventually(t, "it is drawn again", func() bool { return strings.Count(s.screen.String(), "\x1b[H") > 2 })
		s.signals <- syscall.SIGINT
		assert.Equal(t, exitOK, s.end())
		assert.Equal(t, painted, strings.Contains(s.screen.String(), "\x1b[32mfree"))
	}
	t.Setenv("TERM", "dumb")
	t.Setenv("NO_COLOR", "")
	s := begin(t, "status", nodes, "--watch", "--every=100ms", "job")
	s.awaits("free on 1 of 1 node")
	s.signals <- syscall.SIGINT
	assert.Equal(t, exitOK, s.end())
	assert.NotContains(t, s.screen.String(), "\x1b")
}

func TestNullIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	assert.False(t, onTerminal(null))
	assert.True(t, onTerminal(newTerminal(t).tty))
}

// A node may close an idle connection while the question is open.
func TestForceAfterALongQuestion(t *testing.T) {
	servers, nodes := masters(t, 3)
	s := asks(t, servers, nodes)
	do(t, servers, "CLIENT", "KILL", "TYPE", "normal")
	s.types("yes\n")
	assert.Equal(t, exitOK, s.end(), s.screen.String())
}
