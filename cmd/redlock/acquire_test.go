package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/admin"
)

func TestAcquireExtendReleaseByFile(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	file := "--token-file=" + path

	r := within("acquire", nodes, "-n", "--ttl=20s", file, "r")
	require.Equal(t, result{}, r)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, admin.StateHeld, state(t, c))

	r = within("acquire", nodes, "-n", file, "r")
	require.Equal(t, result{exitHeld, "", r.stderr}, r)
	require.Regexp(t, `^redlock: resource "r" is held by [0-9a-f]{16} on 3 of 3 nodes, for 1[0-9.]+s unless it is extended or released\n$`, r.stderr)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, first, kept, "a lock that was not had costs no token")
	require.Equal(t, result{code: exitHeld}, within("acquire", nodes, "-nq", "r"))

	r = within("extend", nodes, "--ttl=1h", file, "r")
	require.Equal(t, result{}, r)
	all, err := admin.Inspect(context.Background(), c, "r")
	require.NoError(t, err)
	require.Greater(t, all.TTL, 50*time.Minute)
	longer, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEqual(t, first, longer)
	h, err := parseHandover(strings.TrimSpace(string(longer)))
	require.NoError(t, err)
	require.Equal(t, all.Holder, h.token.Fingerprint())
	require.Greater(t, h.until.Sub(clock.Now()), 50*time.Minute)

	r = within("release", nodes, file, "other")
	require.Equal(t, exitLost, r.code, "another resource")
	require.NoError(t, os.WriteFile(path, longer, 0o600)) // the release removed it
	require.Equal(t, result{}, within("release", nodes, file, "r"))
	require.Equal(t, admin.StateFree, state(t, c))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "neither the token nor what it was written to")
}

func TestAcquireExtendReleaseByPipeAndEnvironment(t *testing.T) {
	servers, nodes := masters(t, 3)
	r := within("acquire", nodes, "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^redlock2\.[0-9A-Za-z_-]{27}\.30000\.\d+\.\d+\.\S*\n$`, r.stdout)

	t.Setenv(tokenVariable, strings.TrimSpace(r.stdout))
	r = within("extend", nodes, "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NoError(t, os.Unsetenv(tokenVariable))

	var stdout, stderr bytes.Buffer
	code := run([]string{"release", nodes, "--token-file=-", "r"}, strings.NewReader(r.stdout), &stdout, &stderr, make(chan os.Signal, 1))
	require.Equal(t, exitOK, code, stderr.String())
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}

// brokenWriter is a standard output without a reader.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A lock whose token cannot be delivered is released.
func TestAcquireWhoseTokenCannotBeWritten(t *testing.T) {
	servers, nodes := masters(t, 3)
	var stderr bytes.Buffer
	code := run([]string{"acquire", nodes, "r"}, nil, brokenWriter{}, &stderr, make(chan os.Signal, 1))
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), "broken pipe")
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))

	r := within("acquire", nodes, "--token-file=/nowhere/at/all/token", "r")
	require.Equal(t, exitFailed, r.code)
	r = within("acquire", nodes, "--token-file="+t.TempDir(), "r")
	require.Equal(t, exitUsage, r.code)
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}

// tokenFile acquires r and returns the flag that names its token.
func tokenFile(t *testing.T, nodes, ttl string) (path, flag string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "token")
	r := within("acquire", nodes, "--ttl="+ttl, "--token-file="+path, "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	return path, "--token-file=" + path
}

// A lock that is over by the clocks is lost, even if the masters still have the
// keys. It can be released.
func TestExtendOfWhatIsOver_R10(t *testing.T) {
	servers, nodes := masters(t, 3)
	path, flag := tokenFile(t, nodes, "1m")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	h, err := parseHandover(strings.TrimSpace(string(data)))
	require.NoError(t, err)
	for name, change := range map[string]func(h *handover){
		"by the wall clock":  func(h *handover) { h.until.Wall -= int64(time.Minute) },
		"by the other clock": func(h *handover) { h.until.Boot -= int64(time.Minute) },
		"by another machine": func(h *handover) { h.boot = "elsewhere" },
		"later than its TTL": func(h *handover) { h.until = h.until.Add(time.Hour) },
	} {
		changed := h
		change(&changed)
		require.NoError(t, os.WriteFile(path, []byte(changed.reveal()), 0o600))
		r := within("extend", nodes, flag, "r")
		require.Equal(t, exitLost, r.code, "%s: %s", name, r.stderr)
		require.NotContains(t, r.stderr, changed.reveal())
	}
	require.Equal(t, exitOK, within("release", nodes, flag, "r").code)
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}

func TestExtendAndReleaseOfALockThatIsGone(t *testing.T) {
	servers, nodes := masters(t, 3)
	path, flag := tokenFile(t, nodes, "1m")
	for _, s := range servers {
		_, err := s.Do("SET", "r", "another's")
		require.NoError(t, err)
	}
	require.Equal(t, exitLost, within("extend", nodes, flag, "r").code)
	require.True(t, exists(path))
	r := within("release", nodes, flag, "r")
	require.Equal(t, exitLost, r.code)
	require.Regexp(t, `^redlock: [^\n]*lock is not held\n$`, r.stderr)
	require.False(t, exists(path))
	value, err := servers[0].Do("GET", "r")
	require.NoError(t, err)
	require.Equal(t, "another's", value)
}

// A key with a value of megabytes is a lock that is held (R32).
func TestAcquireOfALargeValue_R32(t *testing.T) {
	servers, nodes := masters(t, 3)
	for _, s := range servers {
		_, err := s.Do("SET", "r", strings.Repeat("x", 3<<20))
		require.NoError(t, err)
	}
	for _, args := range [][]string{{"acquire", nodes, "-n", "r"}, {"run", nodes, "-n", "r", "--", "true"}} {
		r := within(args...)
		require.Equal(t, exitHeld, r.code, "%v: %s", args, r.stderr)
	}
	r := within("status", nodes, "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "a string of 3145728 bytes on 3 of 3 nodes")
}

// Without a quorum nothing is known, and the token is kept so that the user can
// try again.
func TestExtendAndReleaseWithoutQuorum(t *testing.T) {
	servers, nodes := masters(t, 3)
	path, flag := tokenFile(t, nodes, "1m")
	require.NoError(t, servers[0].Stop())
	require.NoError(t, servers[1].Stop())
	for _, verb := range []string{"extend", "release"} {
		r := within(verb, nodes, "--timeout=300ms", flag, "r")
		require.Equal(t, exitNoQuorum, r.code, r.stderr)
		require.True(t, exists(path))
	}
	require.NoError(t, servers[0].Continue())
	require.NoError(t, servers[1].Continue())
	require.Equal(t, exitOK, within("release", nodes, flag, "r").code)
}

func TestTokensThatAreNone(t *testing.T) {
	const nodes = "--nodes=unix:///nowhere"
	path := filepath.Join(t.TempDir(), "token")
	for _, text := range []string{"", "secret", strings.Repeat("secret", 1000)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		r := within("release", nodes, "--token-file="+path, "r")
		require.Equal(t, exitUsage, r.code)
		require.NotContains(t, r.stderr, "secret", "R27")
	}
}

// A file that is not regular, such as /dev/null, is neither replaced nor
// removed.
func TestTokenFilesThatAreNoFiles(t *testing.T) {
	servers, nodes := masters(t, 3)
	dir := t.TempDir()
	file, link, strange := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "strange")
	listener, err := net.Listen("unix", strange)
	require.NoError(t, err)
	defer listener.Close()
	require.Equal(t, exitUsage, within("acquire", nodes, "--token-file="+strange, "r").code)
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
	require.True(t, exists(strange))

	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.Symlink(file, link))
	require.Equal(t, result{}, within("acquire", nodes, "--token-file="+link, "r"))
	require.Equal(t, result{}, within("extend", nodes, "--token-file="+link, "r"))
	info, err := os.Lstat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Equal(t, result{}, within("release", nodes, "--token-file="+link, "r"))
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type(), "as /dev/stdin is")
}
