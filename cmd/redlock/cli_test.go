package main

import (
	"os"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// What makes no sense on the command line is told in a line, and nothing is asked of anybody.
func TestUsage(t *testing.T) {
	const nodes = "--nodes=unix:///nowhere/0,unix:///nowhere/1,unix:///nowhere/2"
	for _, test := range []struct {
		name string
		args []string
		says string
	}{
		{"no command", nil, "expected"},
		{"unknown command", []string{"rum"}, "unexpected argument rum"},
		{"unknown flag", []string{"run", "--ttl-max=3s", "r", "--", "true"}, "unknown flag --ttl-max"},
		{"no masters", []string{"run", "r", "--", "true"}, "no masters: name them"},
		{"no resource", []string{"run", nodes}, "expected"},
		{"no command to run", []string{"run", nodes, "r"}, "expected"},
		{"timeout", []string{"run", nodes, "--timeout=0s", "r", "--", "true"}, "--timeout must be more than 0"},
		{"negative max-ttl", []string{"run", nodes, "--max-ttl=-1s", "r", "--", "true"}, "--max-ttl is negative"},
		{"new deployment without max-ttl", []string{"run", nodes, "--new-deployment", "r", "--", "true"}, "need --max-ttl"},
		{"user without password", []string{"run", nodes, "--user=u", "r", "--", "true"}, "--user needs --password-env"},
		{"both -n and -w", []string{"run", nodes, "-n", "-w1s", "r", "--", "true"}, "can't be used together"},
		{"negative wait", []string{"run", nodes, "-w-1s", "r", "--", "true"}, "--wait is negative"},
		{"negative wait of acquire", []string{"acquire", nodes, "-w-1s", "r"}, "--wait is negative"},
		{"negative time", []string{"run", nodes, "--max-hold=-1s", "r", "--", "true"}, "is negative"},
		{"min-hold", []string{"run", nodes, "--min-hold=31s", "r", "--", "true"}, "--min-hold is longer"},
		{"ttl", []string{"run", nodes, "--ttl=999us", "r", "--", "true"}, "at least 1ms"},
		{"exit code", []string{"run", nodes, "-E256", "r", "--", "true"}, "between 0 and 255"},
		{"nothing behind --", []string{"run", nodes, "r", "--"}, "no command to run"},
		{"resource", []string{"run", nodes, "", "--", "true"}, "resource must have"},
		{"resource of acquire", []string{"acquire", nodes, ""}, "resource must have"},
		{"no token", []string{"release", nodes, "r"}, "no token"},
		{"no token file", []string{"extend", nodes, "--token-file=/nowhere/at/all", "r"}, "no such file"},
		{"empty password", []string{"run", nodes, "--password-env=REDLOCK_NOTHING", "r", "--", "true"}, "REDLOCK_NOTHING is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := within(test.args...)
			require.Equal(t, exitUsage, r.code, r.stderr)
			require.Contains(t, r.stderr, test.says)
			require.Regexp(t, `^redlock: [^\n]+\n$`, r.stderr)
			require.Empty(t, r.stdout)
		})
	}
}

// A URL that is wrong may have a password in the wrong place (R27).
func TestUsageShowsNoPassword_R27(t *testing.T) {
	r := within("run", "--nodes=redis://:sec/ret@host:1", "r", "--", "true")
	require.Equal(t, exitUsage, r.code)
	require.NotContains(t, r.stderr, "ret@")
	require.NotContains(t, r.stderr, "sec")
}

// Every command explains itself, with examples that begin as one types them.
func TestEveryCommandHasExamples(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Name("redlock"), kong.Vars{"version": ""})
	require.NoError(t, err)
	for _, command := range parser.Model.Leaves(true) {
		t.Run(command.FullPath(), func(t *testing.T) {
			require.NotEmpty(t, command.Help)
			require.Contains(t, command.Detail, "Examples:\n\n    "+command.FullPath())
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	r := within("--help")
	require.Equal(t, result{code: exitOK, stdout: r.stdout}, r)
	require.Contains(t, r.stdout, "Usage: redlock <command>")
	r = within("run", "--help")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stdout, "Examples:")
	r = within("--version")
	require.Equal(t, exitOK, r.code)
	require.Regexp(t, `^redlock .*\(go.*\)\n$`, r.stdout)
}

// The flags can be given by the environment, too.
func TestEnvironmentNamesTheMasters(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "redis://a,gopher://b")
	r := within("run", "r", "--", "true")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "the scheme must be one of")
	require.NoError(t, os.Unsetenv("REDLOCK_NODES"))
}
