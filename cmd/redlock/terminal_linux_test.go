package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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

// A shell with job control: Ctrl-Z brings its prompt back, and fg the command,
// as without a wrapper.
func TestRunUnderJobControl(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	_, nodes := masters(t, 3)
	term := newTerminal(t)
	shell := exec.Command(bash, "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), "TERM=dumb", "HISTFILE=")
	term.start(shell)
	term.types(binary(t) + " run --ttl=1m " + nodes + ` r -- sh -c 'echo re""ady; read line; echo "got $line"; exit 5'` + "\n")
	term.awaits("ready")
	term.types("\x1a")
	term.awaits("Stopped")
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
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	servers, nodes := masters(t, 3)
	term := newTerminal(t)
	dir := t.TempDir()
	shell := exec.Command(bash, "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), "TERM=dumb", "HISTFILE=")
	term.start(shell)
	term.types(binary(t) + " run --ttl=3s " + nodes + ` r -- sh -c 'echo re""ady; read line; touch ` + dir + `/went-on'` + "\n")
	term.awaits("ready")
	term.types("\x1a")
	term.awaits("Stopped")
	eventually(t, "it is renewed", func() bool { n, err := servers[0].Do("EXISTS", "r"); return err == nil && n == int64(0) })
	term.types("fg; echo \"co\"de $?\n")
	term.awaits("code 70")
	require.False(t, exists(filepath.Join(dir, "went-on")))
	term.types("exit\n")
	require.Equal(t, 0, await(t, shell))
}
