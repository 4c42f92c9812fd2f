package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// A wrong command line is reported in one line, and no node is asked.
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
		{"no --", []string{"run", nodes, "r", "true"}, "no -- before the command"},
		{"no -- of elect", []string{"elect", nodes, "r", "env", "--", "true"}, "no -- before the command"},
		{"a master is missing", []string{"run", "--nodes=unix:///a,,unix:///c", "r", "--", "true"}, "between two commas"},
		{"an empty prefix", []string{"run", nodes, "--prefix=", "r", "--", "true"}, "--prefix is empty: leave it out, or set the variable that it stands for (see redlock run --help)"},
		{"an empty token file", []string{"acquire", nodes, "--token-file", "", "r"}, "--token-file is empty"},
		{"an empty owner", []string{"elect", nodes, "--owner", "", "r", "--", "true"}, "--owner is empty"},
		{"timeout", []string{"run", nodes, "--timeout=0s", "r", "--", "true"}, "--timeout must be more than 0"},
		{"also with min-hold", []string{"run", nodes, "--also=s", "--min-hold=1s", "r", "--", "true"}, "for a single resource"},
		{"also the same", []string{"run", nodes, "--also=r", "r", "--", "true"}, "is named twice"},
		{"also nothing", []string{"run", nodes, "--also=", "r", "--", "true"}, "--also is empty"},
		{"owner", []string{"run", nodes, "--owner=a b", "r", "--", "true"}, "--owner must be 1 to 64 bytes"},
		{"negative max-ttl", []string{"run", nodes, "--max-ttl=-1s", "r", "--", "true"}, "--max-ttl is negative: -1s"},
		{"forgetful with max-ttl", []string{"run", nodes, "--forgetful", "r", "--", "true"}, "--forgetful excludes --max-ttl"},
		{"ttl above the default max-ttl", []string{"run", nodes, "--max-ttl=0", "--ttl=31s", "r", "--", "true"}, "set a longer --max-ttl"},
		{"the seal", []string{"acquire", nodes, "redlock:seal"}, "resource must have"},
		{"the opening", []string{"acquire", nodes, "redlock:opening"}, "resource must have"},
		{"a key beside a lock", []string{"run", nodes, "prices:redlock:mark", "--", "true"}, `not contain ":redlock:"`},
		{"user without password", []string{"run", nodes, "--user=u", "r", "--", "true"}, "--user needs --password-env"},
		{"both -n and -w", []string{"run", nodes, "-n", "-w1s", "r", "--", "true"}, "can't be used together"},
		{"negative wait", []string{"run", nodes, "-w-1s", "r", "--", "true"}, "--wait is negative"},
		{"negative wait of acquire", []string{"acquire", nodes, "-w-1s", "r"}, "--wait is negative"},
		{"negative time", []string{"run", nodes, "--max-hold=-1s", "r", "--", "true"}, "--max-hold is negative: -1s"},
		{"min-hold", []string{"run", nodes, "--min-hold=31s", "r", "--", "true"}, "--min-hold is longer"},
		{"ttl", []string{"run", nodes, "--ttl=999us", "r", "--", "true"}, "at least 1ms"},
		{"exit code", []string{"run", nodes, "-E256", "r", "--", "true"}, "between 0 and 255"},
		{"nothing behind --", []string{"run", nodes, "r", "--"}, "no command to run"},
		{"resource", []string{"run", nodes, "", "--", "true"}, "the resource is empty: set the variable that it stands for (see redlock run --help)"},
		{"resource of acquire", []string{"acquire", nodes, ""}, "the resource is empty"},
		{"resource of blanks", []string{"run", nodes, " \t", "--", "true"}, "the resource is empty"},
		{"resource of status", []string{"status", nodes, " "}, "the resource is empty"},
		{"resource of release", []string{"release", nodes, "--force", " "}, "the resource is empty"},
		{"resource of extend", []string{"extend", nodes, ""}, "the resource is empty"},
		{"name of an election", []string{"elect", nodes, " ", "--", "true"}, "the name is empty"},
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

// An error in the arguments of a command refers to the --help of that command.
func TestUsageNamesTheHelpOfTheCommand(t *testing.T) {
	for _, test := range []struct{ args, says string }{
		{"run", `expected "<resource> -- <command> ..." (see redlock run --help)`},
		{"run r", `expected "-- <command> ..." (see redlock run --help)`},
		{"run --foo r -- true", "unknown flag --foo (see redlock run --help)"},
		{"acquire -n -w1 r", "(see redlock acquire --help)"},
		{"status", "(see redlock status --help)"},
		{"--foo", "(see redlock --help)"},
		{"rum", "(see redlock --help)"},
	} {
		r := within(strings.Fields(test.args)...)
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, test.says)
	}
}

// A number without a unit counts seconds in each flag and variable.
func TestDurationsWithoutAUnitAreSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, "1e1": 10 * time.Second, "-2": -2 * time.Second,
		"250ms": 250 * time.Millisecond, "1h30m": 90 * time.Minute,
	} {
		d, err := parseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "5x", "NaN", "Inf", "1e30", "five"} {
		_, err := parseDuration(text)
		require.Error(t, err, text)
	}
	t.Setenv("REDLOCK_TIMEOUT", "7")
	t.Setenv("REDLOCK_MAX_TTL", "60")
	var line cli
	parser, err := kong.New(&line, kong.Vars{"version": ""}, kong.TypeMapper(reflect.TypeFor[time.Duration](), durationMapper{}))
	require.NoError(t, err)
	_, err = parser.Parse([]string{"run", "-w", "5", "--ttl=20", "--kill-after", "1.5", "r", "--", "true"})
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, *line.Run.Wait)
	require.Equal(t, 20*time.Second, line.Run.TTL)
	require.Equal(t, 1500*time.Millisecond, line.Run.KillAfter)
	require.Equal(t, 7*time.Second, line.deployment.Timeout)
	require.Equal(t, time.Minute, line.MaxTTL)
}

// URLs are separated as suits the place where they are written.
func TestNodesAreSeparatedByBlanksAndLineBreaks(t *testing.T) {
	_, nodes := masters(t, 3)
	t.Setenv("REDLOCK_NODES", "\n "+strings.ReplaceAll(strings.TrimPrefix(nodes, "--nodes="), ",", ",\n ")+"\n")
	require.Equal(t, exitOK, within("status", "r").code)
	t.Setenv("REDLOCK_NODES", " \n")
	require.Contains(t, within("status", "r").stderr, "no masters: name them")
}

// An unset variable in place of the resource must not make a resource of the
// first word behind the --: "redlock run $JOB -- nice CMD" would lock "nice".
func TestNoResourceIsTakenFromBehindTheDashes(t *testing.T) {
	for _, command := range []string{"run", "elect"} {
		for _, test := range []struct {
			args string
			says string
		}{
			{"-- nice true", "is missing before --"},
			{"-- env -- true", "is missing before --"},
			{"--ttl=20s -- nice true", "is missing before --"},
			{"--owner a -- nice true", "is missing before --"},
			{"-- nice", "expected"},
			{"--owner -- a nice true", "expected"},
			{"nice true", "no -- before the command"},
			{"nice env -- true", "no -- before the command"},
		} {
			r := within(append([]string{command, "--nodes=unix:///nowhere"}, strings.Fields(test.args)...)...)
			require.Equal(t, exitUsage, r.code, "%s %s: %s", command, test.args, r.stderr)
			require.Contains(t, r.stderr, test.says, "%s %s", command, test.args)
		}
		for _, args := range []string{"r -- there-is-no-such-command -- x", "r --ttl=20s -- there-is-no-such-command", "--owner=a r -- there-is-no-such-command"} {
			r := within(append([]string{command, "--nodes=unix:///nowhere"}, strings.Fields(args)...)...)
			require.Equal(t, exitNotFound, r.code, "%s %s: %s", command, args, r.stderr)
		}
	}
}

// Where a variable of the shell is not set, the rest of the list, or this
// machine, would be another set of masters (R1).
func TestAMissingURLOrHostIsAnError_R1(t *testing.T) {
	for list, says := range map[string]string{
		"redis://a:1,,redis://c:1": "there is no URL", "redis://a:1,redis://b:1,": "there is no URL", ",redis://b:1": "there is no URL",
		"redis://a:1,redis://:6379": "host is empty", "redis://:6379,redis://:6380,redis://:6381": "host is empty", "redis://a:": "port is empty",
		"redis://a:1,redis://a:1;b:1": "several hosts", "redis://::1": "[2001:db8::5]:6379",
	} {
		for _, args := range [][]string{{"run", "r", "--", "true"}, {"init"}, {"doctor"}, {"status", "r"}} {
			r := within(append(args[:1:1], append([]string{"--nodes=" + list}, args[1:]...)...)...)
			require.Equal(t, exitUsage, r.code, "%s %v: %s", args[0], list, r.stderr)
			require.Contains(t, r.stderr, says, args[0])
		}
	}
	r := within("status", "--nodes=redis://a:1", "--durable=redis://a:1,,", "r")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "there is no URL")
}

// A wrong URL may have a password in the wrong place (R27).
func TestUsageShowsNoPassword_R27(t *testing.T) {
	r := within("run", "--nodes=redis://:sec/ret@host:1", "r", "--", "true")
	require.Equal(t, exitUsage, r.code)
	require.NotContains(t, r.stderr, "ret@")
	require.NotContains(t, r.stderr, "sec")
}

// The --help of every command has examples that begin as a user types them.
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
	for _, args := range [][]string{{"help", "run"}, {"run", "--help"}} {
		help := within(args...)
		require.Equal(t, result{code: exitOK, stdout: help.stdout}, help, args)
		require.Contains(t, help.stdout, "Usage: redlock run [flags] <resource> -- <command> ...\n")
	}
	require.Equal(t, within("--help"), within("help"))
	r = within("help", "rum")
	require.Equal(t, result{exitUsage, "", "redlock: there is no command \"rum\" (see redlock --help)\n"}, r)
	require.Equal(t, within("--version"), within("version"))
	r = within("--version")
	require.Equal(t, exitOK, r.code)
	require.Regexp(t, `^redlock .*\(go.*\)\n$`, r.stdout)
}

// Flags can be set in the environment too.
func TestEnvironmentNamesTheMasters(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "redis://a,gopher://b")
	r := within("run", "r", "--", "true")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "the scheme must be one of")
	require.NoError(t, os.Unsetenv("REDLOCK_NODES"))
}
