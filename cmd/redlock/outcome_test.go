package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock/admin"
)

// reported is the outcome that a command printed.
func reported(t *testing.T, code int, args ...string) (o outcome) {
	t.Helper()
	r := within(append([]string{args[0], "--json"}, args[1:]...)...)
	require.Equal(t, code, r.code, r)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &o), r.stdout)
	require.Equal(t, code, o.ExitCode)
	require.Equal(t, "r", o.Resource)
	require.WithinDuration(t, time.Now(), o.At, time.Minute)
	require.Equal(t, code != exitOK, r.stderr != "", "the message stays")
	return o
}

func TestOutcomesOfLocksAsJSON(t *testing.T) {
	servers, nodes := masters(t, 3)
	path := filepath.Join(t.TempDir(), "token")
	file := "--token-file=" + path

	o := reported(t, exitOK, "acquire", nodes, "--ttl=10m", file, "r")
	require.Equal(t, "acquired", o.Outcome)
	require.Empty(t, o.Token, "R27: it is in the file")
	require.Equal(t, path, o.TokenFile)
	require.Greater(t, *o.ValidityMS, 300_000.0)
	require.WithinDuration(t, time.Now().Add(10*time.Minute), *o.Until, time.Minute)
	require.True(t, exists(path))

	o = reported(t, exitHeld, "acquire", nodes, "-n", "r")
	require.Equal(t, "held", o.Outcome)
	require.Len(t, o.Holder, 16)
	require.Greater(t, *o.HolderTTLMS, 300_000.0)
	require.Contains(t, o.Error, `resource "r" is held by `+o.Holder)
	require.Empty(t, o.Token)

	o = reported(t, exitOK, "extend", nodes, "--ttl=1h", file, "r")
	require.Equal(t, "extended", o.Outcome)
	require.Greater(t, *o.ValidityMS, 3_000_000.0)

	o = reported(t, exitOK, "release", nodes, file, "r")
	require.Equal(t, "released", o.Outcome)

	o = reported(t, exitOK, "acquire", nodes, "r")
	require.NotEmpty(t, o.Token, "there is no other place for it")
	t.Setenv(tokenVariable, o.Token)
	do(t, servers, "DEL", "r")
	require.Equal(t, "lost", reported(t, exitLost, "extend", nodes, "r").Outcome)
	require.Equal(t, "lost", reported(t, exitLost, "release", nodes, "r").Outcome)
	require.Equal(t, "no_quorum", reported(t, exitNoQuorum, "release", "--nodes=unix:///nowhere", "--timeout=100ms", "r").Outcome)
	require.Equal(t, "no_quorum", reported(t, exitNoQuorum, "acquire", "--nodes=unix:///nowhere", "-n", "r").Outcome)

	// Errors of usage have no outcome.
	require.Empty(t, within("acquire", "--json", nodes, "").stdout)
	require.Equal(t, exitUsage, within("release", nodes, "--json", "--force", "--yes", "r").code)
}

// If the token is a part of the outcome, a lock whose outcome cannot be printed
// is released.
func TestAcquireWhoseOutcomeCannotBePrinted_R7(t *testing.T) {
	servers, nodes := masters(t, 3)
	var stderr strings.Builder
	code := run([]string{"acquire", "--json", nodes, "r"}, nil, brokenWriter{}, &stderr, make(chan os.Signal, 1))
	require.Equal(t, exitFailed, code)
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}

// Errors about a token file name it as the user did.
func TestTokenFileErrorsNameTheFileOfTheUser(t *testing.T) {
	_, nodes := masters(t, 1)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("folder", 0o755))
	require.NoError(t, os.Symlink("folder", "link"))
	for _, test := range []struct{ command, file, says string }{
		{"acquire", "nowhere/token", `--token-file "nowhere/token": no file can be created there: no such file or directory`},
		{"acquire", "link", `--token-file "link": it is not a regular file`},
		{"extend", "nowhere/token", `--token-file "nowhere/token": no such file or directory`},
		{"release", "link", `--token-file "link": is a directory`},
	} {
		r := within(test.command, nodes, "--token-file="+test.file, "r")
		require.NotEqual(t, exitOK, r.code)
		require.Equal(t, "redlock: "+test.says+"\n", r.stderr)
	}
}
