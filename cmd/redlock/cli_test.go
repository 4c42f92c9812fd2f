package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/resp"
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
		{"a scheme", []string{"run", "--nodes=redis://a,gopher://b", "r", "--", "true"}, "the scheme must be one of"},
		{"readers and a writer", []string{"run", nodes, "--shared", "--exclusive", "r", "--", "true"}, "can't be used together"},
		{"no permits", []string{"run", nodes, "--permits=0", "r", "--", "true"}, "--permits"},
		{"fewer permits", []string{"run", nodes, "--permits=-1", "r", "--", "true"}, "--permits"},
		{"many permits", []string{"run", nodes, "--permits=2000", "r", "--", "true"}, "--permits"},
		{"shared with also", []string{"run", nodes, "--shared", "--also=x", "r", "--", "true"}, "--also"},
		{"fair and fenced", []string{"run", nodes, "--fair", "--fenced", "r", "--", "true"}, "--fenced"},
		{"exclusive with min-hold", []string{"run", nodes, "--exclusive", "--min-hold=1s", "r", "--", "true"}, "--min-hold"},
		{"permits with heal", []string{"run", nodes, "--permits=2", "--heal", "r", "--", "true"}, "--heal"},
		{"init without masters", []string{"init"}, "no masters: name them"},
		{"init of a master twice", []string{"init", "--nodes=unix:///x,unix:///x"}, "is named twice"},
		{"init in place of nothing", []string{"init", nodes, "--replace=x"}, "--replace"},
		{"init of the forgetful", []string{"init", nodes, "--max-ttl=0", "--forgetful"}, "--forgetful"},
		{"doctor without masters", []string{"doctor"}, "no masters: name them"},
		{"doctor of a scheme", []string{"doctor", "--nodes=http://:secret@a"}, "the scheme must be one of"},
		{"doctor of a master twice", []string{"doctor", "--nodes=unix:///x,unix:///x"}, "is named twice"},
		{"doctor of no TTL", []string{"doctor", nodes, "--ttl=0"}, "--ttl must be at least 1ms"},
		{"doctor that observes", []string{"doctor", nodes, "--observe=-1s"}, "--observe is negative"},
		{"nodes that observe", []string{"nodes", nodes, "--observe=-1s"}, "--observe is negative"},
		{"timeout", []string{"run", nodes, "--timeout=0s", "r", "--", "true"}, "--timeout must be more than 0"},
		{"also with min-hold", []string{"run", nodes, "--also=s", "--min-hold=1s", "r", "--", "true"}, "for a single resource"},
		{"also the same", []string{"run", nodes, "--also=r", "r", "--", "true"}, "is named twice"},
		{"also nothing", []string{"run", nodes, "--also=", "r", "--", "true"}, "--also is empty"},
		{"owner", []string{"run", nodes, "--owner=a b", "r", "--", "true"}, "--owner has 3 bytes: they must be 1 to 64"},
		{"negative max-ttl", []string{"run", nodes, "--max-ttl=-1s", "r", "--", "true"}, "--max-ttl is negative: -1s"},
		{"forgetful with max-ttl", []string{"run", nodes, "--forgetful", "r", "--", "true"}, "--forgetful excludes --max-ttl"},
		{"ttl above the default max-ttl", []string{"run", nodes, "--max-ttl=0", "--ttl=31s", "r", "--", "true"}, "set a longer --max-ttl"},
		{"the seal", []string{"acquire", nodes, "redlock:seal"}, "resource must have"},
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
			require.NotContains(t, r.stderr, "secret")
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
	parser, err := kong.New(&line, vars(), kong.TypeMapper(reflect.TypeFor[time.Duration](), durationMapper{}))
	require.NoError(t, err)
	_, err = parser.Parse([]string{"run", "-w", "5", "--ttl=20", "--kill-after", "1.5", "r", "--", "true"})
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, *line.Run.Wait)
	require.Equal(t, 20*time.Second, line.Run.TTL)
	require.Equal(t, 1500*time.Millisecond, line.Run.KillAfter)
	require.Equal(t, 7*time.Second, line.deployment.Timeout)
	require.Equal(t, time.Minute, line.MaxTTL)
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
	parser, err := kong.New(&cli{}, kong.Name("redlock"), vars())
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

func TestExitCode(t *testing.T) {
	deadline := func(last error) error {
		return &redlock.CancelledError{Err: context.DeadlineExceeded, Last: last}
	}
	interrupted := &redlock.CancelledError{Err: context.Canceled, Cause: &errInterrupted{syscall.SIGTERM}, Last: redlock.ErrHeld}
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{redlock.ErrConfig, 64},
		{redlock.ErrTTL, 64},
		{redlock.ErrResource, 64},
		{redlock.ErrHoldOptions, 64},
		{redlock.ErrNoQuorum, 69},
		{redlock.ErrOverloaded, 69},
		{deadline(redlock.ErrNoQuorum), 69},
		{deadline(nil), 69},
		{redlock.ErrLost, 70},
		{redlock.ErrNotHeld, 70},
		{redlock.ErrExpired, 70},
		{redlock.ErrHeld, 75},
		{deadline(redlock.ErrHeld), 75},
		{interrupted, 143},
		{&exitError{42, redlock.ErrHeld}, 42},
		{fmt.Errorf("so: %w", &exitError{code: 3}), 3},
		{usagef("so"), 64},
	} {
		require.Equal(t, test.code, exitCode(test.err), "%v", test.err)
	}
}

// narrow requires lines of at most 80 characters.
func narrow(t *testing.T, text string, of ...string) {
	t.Helper()
	require.NotEmpty(t, text)
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, "%q: %s", of, line)
	}
}

func TestEveryHelpFitsInto80Columns(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, topic := range []string{
		"", "run", "elect", "acquire", "extend", "release", "status", "init", "fence", "fence reset", "nodes", "doctor", "completion",
		"help", "version",
	} {
		words := strings.Fields(topic)
		help := within(append(words, "--help")...)
		require.Equal(t, result{stdout: help.stdout}, help)
		narrow(t, help.stdout, words...)
		require.Equal(t, help, within(append([]string{"help"}, words...)...), topic)
	}
	require.Contains(t, within("help", "fence", "rest").stderr, `no command "fence rest"`)
	require.Contains(t, within("help", "run", "reset").stderr, `no command "run reset"`)
}

func TestNodesFitsInto80Columns(t *testing.T) {
	_, nodes := masters(t, 3)
	wide := within("nodes", nodes, "--observe=0")
	require.Equal(t, exitOK, wide.code, wide.stderr)
	require.Len(t, strings.Split(wide.stdout, "\n"), 5, "one table for programs")
	t.Setenv("COLUMNS", "80")
	r := within("nodes", nodes, "--observe=0")
	require.Equal(t, exitOK, r.code, r.stderr)
	heads := strings.Fields(strings.SplitN(wide.stdout, "\n", 2)[0])
	for _, head := range heads {
		require.Contains(t, r.stdout, head)
	}
	require.Equal(t, strings.Count("\n"+r.stdout, "\nNODE"), strings.Count(r.stdout, "NODE"))
	require.Greater(t, strings.Count(r.stdout, "NODE"), 1)
}

func TestTablesAreSplitWhereTheScreenEnds(t *testing.T) {
	rows := [][]string{{"A", "B", "CC", "D"}, {"1", "two", "", strings.Repeat("±", 30)}}
	require.Equal(t, "A  B    CC  D\n1  two  -   "+strings.Repeat("±", 30)+"\n", screen{}.table(rows))
	require.Equal(t, screen{}.table(rows), screen{width: 42}.table(rows))
	require.Equal(t, "A  B    CC\n1  two  -\n\nA  D\n1  "+strings.Repeat("±", 30)+"\n", screen{width: 41}.table(rows))
	require.Equal(t, "A  B\n1  two\n\nA  CC\n1  -\n\nA  D\n1  "+strings.Repeat("±", 30)+"\n", screen{width: 1}.table(rows))
	require.Equal(t, "A\n", screen{width: 1}.table([][]string{{"A"}}))
}

// A node behind sentinels has a long name: it stands above the tables once.
func TestLongNamesStandAboveTheirTables(t *testing.T) {
	long := "sentinel:" + strings.Repeat("s", 40)
	rows := [][]string{{"A", "B", "CC"}, {long, "two", strings.Repeat("x", 80)}, {"b", "", "y"}}
	require.Contains(t, screen{}.table(rows), long+"  two", "for programs")
	require.Contains(t, screen{width: 100}.table(rows), long+"  two")
	require.Equal(t, "1 is "+long+"\n2 is b\n\nA  B\n1  two\n2  -\n\nA  CC\n1  "+strings.Repeat("x", 80)+"\n2  y\n", screen{width: 80}.table(rows))
	require.Equal(t, long, rows[1][0], "the rows are the caller's")
}

// What a node says reaches a terminal only as printable text, and no command
// that shows it waits for ever.
func TestHostileNodesDoNotReachTheTerminal(t *testing.T) {
	redistest.NoLeaks(t)
	const evil = "\x1b]0;evil\x07\x1b[2J\u202e\u009b31m\xff"
	for name, hook := range map[string]redistest.Hook{
		"texts": func(_ int, args []string) ([]byte, bool) {
			switch command := strings.ToUpper(args[0]); {
			case command == "EVALSHA" && slices.Contains(args, "x"): // status reads the key by a script
				return resp.AppendBulkString(nil, evil), true
			case slices.Contains([]string{"INFO", "GET", "ACL", "CONFIG"}, command):
				return resp.AppendBulkString(nil, "redis_version:"+evil+"\r\nrole:"+evil+"\r\nrun_id:"+evil+"\r\nmaxmemory_policy:"+evil+"\r\n"), true
			}
			return nil, false
		},
		"holders": func(_ int, args []string) ([]byte, bool) {
			switch command := strings.ToUpper(args[0]); {
			case command == "SET" && slices.Contains(args, "GET"):
				return resp.AppendBulkString(nil, evil+" "+strings.Repeat("A", 27)), true
			case command == "SET":
				return resp.AppendNull(nil), true
			case command == "EVALSHA" && slices.Contains(args, "x"):
				return resp.AppendBulkString(nil, "1 "+evil), true
			}
			return nil, false
		},
		"errors": func(_ int, args []string) ([]byte, bool) {
			switch strings.ToUpper(args[0]) {
			case "HELLO", "CLIENT", "INFO":
				return nil, false
			}
			return resp.AppendSimpleError(nil, "ERR "+evil), true
		},
		"refusals": func(int, []string) ([]byte, bool) { return resp.AppendSimpleError(nil, "NOAUTH "+evil), true },
		"no RESP":  func(int, []string) ([]byte, bool) { return []byte(evil + "\r\n"), true },
		"silence":  func(int, []string) ([]byte, bool) { return nil, true },
	} {
		t.Run(name, func(t *testing.T) {
			node, url := lying(t, hook)
			defer node.Close()
			nodes := "--nodes=" + url
			for _, command := range [][]string{
				{"status", "x"}, {"status", "--json", "x"}, {"nodes", "--observe=0"}, {"nodes", "--json", "--observe=0"},
				{"doctor", "--observe=0"}, {"doctor", "--json", "--observe=0"}, {"release", "--force", "--yes", "x"},
				{"acquire", "-n", "-v", "--owner=a", "x"}, {"acquire", "-w300ms", "--fenced", "x"}, {"acquire", "-n", "--json", "x"},
				{"run", "-n", "--shared", "x", "--", "true"}, {"init"},
			} {
				got := within(append([]string{nodes, "--timeout=300ms"}, command...)...)
				assert.NotEmpty(t, got.stdout+got.stderr, command)
				for _, r := range got.stdout + got.stderr {
					require.True(t, r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar, "%v prints %q: %q", command, r, got)
				}
			}
		})
	}
}

// What is on the command line may come from elsewhere, too. JSON shows bytes
// that are no UTF-8, so that no two names look the same.
func TestMessagesAboutTheCommandLineArePrintable(t *testing.T) {
	_, nodes := masters(t, 3)
	const evil = "\x1b[2J\u202e\xff"
	for _, args := range [][]string{
		{evil}, {"status", "--" + evil}, {"run", "--ttl=" + evil, "r", "--", "true"}, {"run", nodes, evil, "--", evil},
		{"status", nodes, evil}, {"acquire", nodes, "-n", "--token-file=/" + evil + "/x", "r"}, {"help", evil},
		{"run", "--nodes=redis://" + evil, "r", "--", "true"}, {"run", nodes, "--password-env=" + evil, "r", "--", "true"},
		{"status", nodes, "--password-file=" + evil, "r"},
	} {
		got := within(args...)
		require.NotEmpty(t, got.stdout+got.stderr, "%q", args)
		for _, r := range got.stdout + got.stderr {
			require.True(t, r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar, "%q prints %q: %q", args, r, got)
		}
	}
	printed := asJSON[outcome](t, exitOK, "acquire", nodes, "-n", "caf\xe9")
	require.Equal(t, `caf\xe9`, printed.Resource)
	require.Equal(t, `caf\xe9`, asJSON[statusReport](t, exitOK, "status", nodes, "caf\xe9").Resource)
}

// completed returns what a real bash would offer. The last word is under the
// cursor.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	const ask = `
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_redlock
printf '%s\n' "${COMPREPLY[@]}"`
	cmd := exec.Command("bash", append([]string{"--norc", "-c", within("completion", "bash").stdout + ask, "bash"}, words...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.Fields(string(out))
}

// The script of bash asks the program. Scripts of shells that are installed are
// parsed.
func TestCompletion(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	require.Subset(t, completed(t, "redlock", ""), []string{"run", "acquire", "extend", "release"})
	require.Equal(t, []string{"acquire"}, completed(t, "redlock", "ac"))
	require.Equal(t, []string{"--min-hold"}, completed(t, "redlock", "run", "--min"))
	require.Empty(t, completed(t, "redlock", "acquire", "--min"), "a flag of another command")
	require.Equal(t, []string{"--nodes", "--no-owner"}, completed(t, "redlock", "--no"), "flags of all")
	require.Subset(t, completed(t, "redlock", "acquire", "-n", "--no"), []string{"--nodes", "--nonblock"})
	require.Contains(t, completed(t, "redlock", "run", "r", "--", "prin"), "printf", "the command's name")
	require.Equal(t, []string{"fish"}, completed(t, "redlock", "completion", "fi"))
	require.Equal(t, []string{"reset"}, completed(t, "redlock", "fence", "re"))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := within("completion", shell)
		require.Equal(t, exitOK, script.code, script.stderr)
		require.Contains(t, script.stdout, "redlock completion words --")
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("NOT COVERED: %s is not installed", shell)
			continue
		}
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(script.stdout)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.Equal(t, exitUsage, within("completion", "csh").code)
}
