package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock/admin"
)

// The number of a lock is printed, and passes through extend.
func TestAcquireFenced(t *testing.T) {
	_, nodes := masters(t, 3)
	token := "--token-file=" + filepath.Join(t.TempDir(), "token")
	got := within("acquire", nodes, "-n", "--fenced", token, "r")
	require.Equal(t, exitOK, got.code, got)
	first, err := strconv.ParseUint(strings.TrimSpace(got.stdout), 10, 64)
	require.NoError(t, err, "the number alone")
	got = within("extend", nodes, token, "r")
	require.Equal(t, exitOK, got.code, got)
	require.Equal(t, strconv.FormatUint(first, 10)+"\n", got.stdout)
	extended := asJSON[outcome](t, exitOK, "extend", nodes, token, "r")
	require.Equal(t, first, extended.Fence)
	require.Equal(t, exitOK, within("release", nodes, token, "r").code)

	second := asJSON[outcome](t, exitOK, "acquire", nodes, "-n", "--fenced", token, "r")
	require.Greater(t, second.Fence, first)
	require.Equal(t, exitOK, within("release", nodes, token, "r").code)
	got = within("acquire", nodes, "-n", token, "r")
	require.Equal(t, exitOK, got.code, got)
	require.Empty(t, got.stdout, "no number")
}

// A deployment without floors refuses fenced locks, and says how to go on.
func TestFenceReset(t *testing.T) {
	servers, nodes := masters(t, 3)
	do(t, servers[:2], "DEL", "redlock:fence")
	got := within("acquire", nodes, "-n", "--fenced", "r")
	require.Equal(t, exitNoQuorum, got.code, got)
	require.Contains(t, got.stderr, "redlock fence reset")
	got = within("doctor", nodes, "--observe=0")
	require.Contains(t, got.stdout, "redlock fence reset")

	got = within("fence", "reset", nodes, "--least=9007199254740992")
	require.Equal(t, exitUsage, got.code, got)
	got = within("fence", "reset", nodes, "--forgetful", "--max-ttl=0")
	require.Equal(t, exitUsage, got.code, got)
	const future = uint64(1) << 52
	got = within("fence", "reset", nodes, "--least="+strconv.FormatUint(future, 10))
	require.Equal(t, exitOK, got.code, got)
	require.Regexp(t, `^all fencing numbers are above 4503599627370496 from now on\n\nNODE +HIGHEST BEFORE +COUNTED\n(\S+ +0 +no\n){2}\S+ +\d+ +yes\n$`, got.stdout)
	require.Greater(t, asJSON[outcome](t, exitOK, "acquire", nodes, "-n", "--fenced", "r").Fence, future)

	require.NoError(t, servers[2].Kill())
	got = within("fence", "reset", nodes, "--json")
	require.Equal(t, exitNoQuorum, got.code, got)
	require.Contains(t, got.stdout, `"outcome": "no_quorum"`)
	require.Contains(t, got.stderr, "needs all nodes")
	require.Equal(t, admin.StateHeld, state(t, client(t, servers)), "locks stay")
}
