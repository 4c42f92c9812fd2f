package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

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
		do(t, servers, "SET", "job", "x", "PX", "600000")
		s := begin(t, "release", nodes, "--force", "job")
		s.awaits("Delete these keys on 3 nodes? Type yes: ")
		assert.Contains(t, s.screen.String(), fingerprint("x"))
		s.types(answer)
		assert.Equal(t, want, s.end(), answer)
		for _, server := range servers {
			if want == exitOK {
				assert.Nil(t, valueOf(t, server, "job"))
			} else {
				assert.Equal(t, "x", valueOf(t, server, "job"), answer)
			}
		}
	}
}

// A client that gets the lock while the question is open keeps it.
func TestForceLeavesAloneWhatHasChangedSinceItWasShown(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	do(t, servers, "SET", "job", "x", "PX", "600000")
	s := begin(t, "release", nodes, "--force", "job")
	s.awaits("Type yes: ")
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

func TestForceInterruptedWhileItAsks(t *testing.T) {
	servers, nodes := masters(t, 1)
	do(t, servers, "SET", "job", "x", "PX", "600000")
	s := begin(t, "release", nodes, "--force", "job")
	s.awaits("Type yes: ")
	s.signals <- syscall.SIGINT
	assert.Equal(t, signalCode(syscall.SIGINT), s.end())
	assert.NotNil(t, valueOf(t, servers[0], "job"))
	s.types("yes\n") // nothing reads it any more
}

// An interrupt does not undo a yes, and does not wait for a node that hangs.
func TestForceInterruptedWhileItDeletes(t *testing.T) {
	servers, nodes := masters(t, 3)
	do(t, servers, "SET", "job", "x", "PX", "600000")
	s := begin(t, "release", nodes, "--force", "--timeout=1h", "job")
	s.awaits("Type yes: ")
	require.NoError(t, servers[2].Stop())
	s.types("yes\n")
	for _, server := range servers[:2] {
		eventually(t, "the key is deleted", func() bool { return valueOf(t, server, "job") == nil })
	}
	s.signals <- syscall.SIGINT
	assert.Equal(t, exitOK, s.end(), "a quorum is deleted")
	s.awaits("no answer: it may or may not be deleted")
}

// A node that hangs at the interrupt and answers soon after it is still done.
func TestForceInterruptedWhileANodeHangsForAMoment(t *testing.T) {
	servers, nodes := masters(t, 3)
	do(t, servers, "SET", "job", "x", "PX", "600000")
	s := begin(t, "release", nodes, "--force", "--timeout=1h", "job")
	s.awaits("Type yes: ")
	require.NoError(t, servers[2].Stop())
	s.types("yes\n")
	for _, server := range servers[:2] {
		eventually(t, "the key is deleted", func() bool { return valueOf(t, server, "job") == nil })
	}
	s.signals <- syscall.SIGINT
	eventually(t, "the interrupt is taken", func() bool { return len(s.signals) == 0 })
	require.NoError(t, servers[2].Continue())
	assert.Equal(t, exitOK, s.end())
	require.Nil(t, valueOf(t, servers[2], "job"))
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
	do(t, servers, "SET", "job", "x", "PX", "600000")
	s := begin(t, "release", nodes, "--force", "job")
	s.awaits("Type yes: ")
	do(t, servers, "CLIENT", "KILL", "TYPE", "normal")
	s.types("yes\n")
	assert.Equal(t, exitOK, s.end(), s.screen.String())
}
