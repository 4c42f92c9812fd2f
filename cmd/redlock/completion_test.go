package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// completed returns what a real bash would offer. The last word is under the
// cursor.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	script := within("completion", "bash")
	require.Equal(t, exitOK, script.code, script.stderr)
	const ask = `
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_redlock
printf '%s\n' "${COMPREPLY[@]}"`
	cmd := exec.Command("bash", append([]string{"--norc", "-c", script.stdout + ask, "bash"}, words...)...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.Fields(string(out))
}

func TestCompletionOfBash(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	require.Subset(t, completed(t, "redlock", ""), []string{"run", "acquire", "extend", "release"})
	require.Equal(t, []string{"acquire"}, completed(t, "redlock", "ac"))
	require.Equal(t, []string{"--min-hold"}, completed(t, "redlock", "run", "--min"))
	require.Empty(t, completed(t, "redlock", "acquire", "--min"), "a flag of another command")
	require.Equal(t, []string{"--nodes"}, completed(t, "redlock", "--no"), "a flag of all")
	require.Subset(t, completed(t, "redlock", "acquire", "-n", "--no"), []string{"--nodes", "--nonblock"})
	require.Contains(t, completed(t, "redlock", "run", "r", "--", "prin"), "printf", "the command's name")
	require.Equal(t, []string{"fish"}, completed(t, "redlock", "completion", "fi"))
}

// If the other shells are installed, they parse their scripts. The scripts have
// flags in any case.
func TestCompletionOfOthers(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		r := within("completion", shell)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stdout, "min-hold")
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(r.stdout)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.Equal(t, exitUsage, within("completion", "csh").code)
}

func TestQuote(t *testing.T) {
	out, err := exec.Command("sh", "-c", "printf %s "+quote(`it's $HOME "\`)).Output()
	if err != nil {
		t.Skip("needs sh")
	}
	require.Equal(t, `it's $HOME "\`, string(out))
}
