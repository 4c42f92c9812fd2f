//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// The command has no password in its environment, unless that is asked for.
func TestCommandsInheritNoPassword_R27(t *testing.T) {
	t.Parallel()
	servers, _ := mastersWith(t, redlock.Config{MaxTTL: longest}, 3, redistest.Password("s3cret"))
	urls := strings.Join(redistest.URLs(servers), ",")
	require.Contains(t, urls, "s3cret")
	bare, ok := withoutPasswords(urls)
	require.True(t, ok)
	for _, command := range []string{"run", "elect"} {
		for _, test := range []struct {
			nodes string // the variable
			flags []string
			want  string // what the command has
		}{
			{urls, nil, bare},
			{urls, []string{"--pass-credentials"}, urls},
			{bare, []string{"--password-env=MASTERS_PASSWORD"}, bare},
		} {
			cmd := program(t, append(append([]string{command}, test.flags...), append([]string{"r", "--"}, shell("env")...)...)...)
			cmd.Env = append(os.Environ(), "REDLOCK_NODES="+test.nodes, "REDLOCK_DURABLE="+test.nodes, "MASTERS_PASSWORD=s3cret")
			r := finish(t, cmd)
			require.Equal(t, 0, r.code, r.stderr)
			require.Contains(t, r.stdout, "REDLOCK_NODES="+test.want+"\n")
			require.Contains(t, r.stdout, "REDLOCK_DURABLE="+test.want+"\n")
			secrets := strings.Count(strings.ReplaceAll(r.stdout, "MASTERS_PASSWORD=s3cret", ""), "s3cret")
			if test.flags == nil {
				require.Zero(t, secrets, r.stdout)
			}
			require.Equal(t, len(test.flags) == 0 || test.flags[0] == "--pass-credentials", strings.Contains(r.stdout, "MASTERS_PASSWORD="), r.stdout)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	for _, flag := range []string{"--password-file=" + file, "--credentials-command=cat " + file} {
		cmd := program(t, append([]string{"run", flag, "r", "--"}, shell("env; ps -eo args")...)...)
		cmd.Env = append(os.Environ(), "REDLOCK_NODES="+bare)
		r := finish(t, cmd)
		require.Equal(t, 0, r.code, r.stderr)
		require.Contains(t, r.stdout, heldVariable+"=")
		require.Contains(t, r.stdout, flag, "what ps shows")
		require.NotContains(t, r.stdout, "s3cret")
	}
}

// A command, and each hook, has the variables of its own lock, and none that
// this process has inherited from a run around it.
func TestEachChildHasTheVariablesOfItsLock(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	dir := t.TempDir()
	dump := func(name string) string { return "env > " + filepath.Join(dir, name) }
	around := os.Environ()
	for _, name := range ofALock {
		around = append(around, name+"=around")
	}
	for _, words := range [][]string{
		{"elect", nodes, "--on-elected", dump("elected"), "--on-lost", dump("lost"), "r", "--", "sh", "-c", dump("leads")},
		{"run", nodes, "r", "--", "sh", "-c", dump("runs")},
		{"run", "--fenced", nodes, "r", "--", "sh", "-c", dump("fenced")},
	} {
		cmd := program(t, words...)
		cmd.Env = around
		require.Equal(t, result{}, finish(t, cmd))
	}
	for name, want := range map[string]string{
		"elected": "FENCE HELD RESOURCE UNTIL", "leads": "FENCE HELD RESOURCE UNTIL", "lost": "FENCE HELD OUTCOME RESOURCE",
		"runs": "HELD RESOURCE UNTIL", "fenced": "FENCE HELD RESOURCE UNTIL",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		var has []string
		for _, setting := range strings.Fields(string(text)) {
			if of, value, _ := strings.Cut(setting, "="); slices.Contains(ofALock, of) {
				has = append(has, strings.TrimPrefix(of, "REDLOCK_"))
				require.Equal(t, of == heldVariable, strings.HasPrefix(value, "around"), "%s: %s", name, setting) // it adds its own
			}
		}
		slices.Sort(has)
		require.Equal(t, want, strings.Join(has, " "), name)
	}
}

// A run within a run has the masters where they ask for no password. Where they
// do, its error says how it gets one.
func TestARunWithinHasTheMastersWithoutTheirPassword_R27(t *testing.T) {
	t.Parallel()
	open, _ := masters(t, 3)
	closed, _ := mastersWith(t, redlock.Config{MaxTTL: longest}, 3, redistest.Password("s3cret"))
	within := shell(`"$1" run -n inner -- echo within`, binary(t))
	for _, test := range []struct {
		servers []*redistest.Server
		flags   []string
		code    int
		says    string
	}{
		{open, nil, 0, ""},
		{closed, []string{"--pass-credentials"}, 0, ""},
		{closed, nil, exitNoQuorum, "unless they are given --pass-credentials"},
	} {
		cmd := program(t, append(append([]string{"run"}, test.flags...), append([]string{"outer", "--"}, within...)...)...)
		cmd.Env = append(os.Environ(), "REDLOCK_NODES="+strings.Join(redistest.URLs(test.servers), ","))
		r := finish(t, cmd)
		require.Equal(t, test.code, r.code, r.stderr)
		require.Contains(t, r.stderr, test.says)
		require.Equal(t, test.code == 0, r.stdout == "within\n", r.stdout)
	}
	cmd := program(t, append([]string{"run", "--password-env=MASTERS_PASSWORD", "outer", "--"}, shell(`"$1" run -n --password-env=MASTERS_PASSWORD inner -- true`, binary(t))...)...)
	bare, _ := withoutPasswords(strings.Join(redistest.URLs(closed), ","))
	cmd.Env = append(os.Environ(), "REDLOCK_NODES="+bare, "MASTERS_PASSWORD=s3cret")
	r := finish(t, cmd)
	require.Equal(t, exitUsage, r.code, r.stderr)
	require.Contains(t, r.stderr, "MASTERS_PASSWORD is empty (redlock run and elect keep passwords")
}

func TestPasswordsAreTakenOutOfURLs_R27(t *testing.T) {
	for _, test := range []struct {
		list, want string
		ok         bool
	}{
		{"redis://a, redis://b", "redis://a, redis://b", true},
		{"redis://u:p@a:1/2?db=3,rediss://:p@b", "redis://u@a:1/2?db=3,rediss://b", true},
		{`redis://u@a unix://:p@/c\,d`, `redis://u@a,unix:///c\,d`, true},
		{"redis://:p%40q@[::1]:1", "redis://[::1]:1", true},
		{"redis://:p/q@a", "", false},
		{"redis://:p?q@a", "", false},
		{"redis://u:12/q@a", "", false},
		{"redis://u:12?q@a", "", false},
		{"redis://:p#q@a", "", false},
		{"redis://:p%zz@a", "", false},
		{"redis://:p@a,,redis://b", "", false},
		{"redis:p@a", "", false},
		{"redis+sentinel://a/m?sentinel_password=p", "", false},
		{"redis://a,Redis+Sentinel://a/m?s%65ntinel_password=p", "", false},
	} {
		text, ok := withoutPasswords(test.list)
		require.Equal(t, test.want, text)
		require.Equal(t, test.ok, ok, test.list)
	}
}

// A command that waits for a lock that it runs under would wait for ever.
func TestARunDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3, redistest.OverTCP)
	urls := strings.TrimPrefix(nodes, "--nodes=")
	other := strings.ReplaceAll(urls, "127.0.0.1", "localhost")
	require.NotEqual(t, urls, other)
	for _, test := range []struct {
		outer, inner string
		code         int
	}{
		{"run r", `run r -- true`, exitUsage},
		{"run --also s r", `run s -- true`, exitUsage},
		{"run r", `run --also r s -- true`, exitUsage},
		{"run --shared r", `run --exclusive r -- true`, exitUsage},
		{"run --shared r", `run --shared r -- true`, 0},
		{"run --shared r", `run --shared r -- "$1" run r -- true`, exitUsage},
		{"run r", `run --shared r -- true`, exitUsage},
		{"run r", `run --nodes=` + other + ` r -- true`, exitUsage},
		{"run r", `acquire --nodes=` + other + ` r`, exitUsage},
		{"run r", `elect --nodes=` + other + ` r -- true`, exitUsage},
		{"elect r", `run --nodes=` + other + ` r -- true`, exitUsage},
		{"run --permits 1 r", `run --permits 1 r -- true`, exitUsage},
		{"run --permits 2 q", `run --permits 2 q -- true`, 0},
		{"elect r", `run r -- true`, exitUsage},
		{"run r", `elect r -- true`, exitUsage},
		{"run r", `acquire r`, exitUsage},
		{"run r", `run -w 1h r -- true`, exitUsage},
		{"run r", `run -n r -- true`, exitHeld},
		{"run r", `acquire -n r`, exitHeld},
		{"run r", `run s -- "$1" run r -- true`, exitUsage},
		{"run r", `run --prefix=other: -w 300ms r -- true`, exitNoQuorum},
		{"run r", `run s -- true`, 0},
	} {
		args := append(strings.Fields(test.outer), append([]string{"--"}, shell(`"$1" `+test.inner, binary(t))...)...)
		cmd := program(t, args...)
		cmd.Env = append(os.Environ(), "REDLOCK_NODES="+urls)
		r := finish(t, cmd)
		require.Equal(t, test.code, r.code, "%s, %s: %s", test.outer, test.inner, r.stderr)
		if test.code == exitUsage {
			require.Contains(t, r.stderr, "would wait for itself", "%s, %s", test.outer, test.inner)
		}
	}
	// What has left its run waits for its end: here until it is told to end.
	script := `env -u ` + heldVariable + ` "$1" run -v -w 1h "$2" r -- true 2>"$3" & until grep -q waiting: "$3"; do sleep 0.01; done; kill $!; wait $!`
	cmd := program(t, append([]string{"run", nodes, "r", "--"}, shell(script, binary(t), nodes, filepath.Join(t.TempDir(), "said"))...)...)
	require.Equal(t, exitSignal+int(syscall.SIGTERM), finish(t, cmd).code)
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
}

// Masters have one name where a deployment has no id.
func TestADeploymentWithoutAnIDIsNamedByItsMasters(t *testing.T) {
	name := func(urls ...string) string { return (&deployment{Nodes: urls}).urls() }
	one := name("redis://localhost", "redis://b:7000/1")
	for _, same := range [][]string{
		{"redis://127.0.0.1:6379", "redis://B:7000?db=1"},
		{"redis://u:secret@[::1]/0", "redis://b:7000/1"},
		{"rediss://b:7000/1", "redis://LOCALHOST/"},
	} {
		require.Equal(t, one, name(same...), same)
	}
	for _, other := range [][]string{
		{"redis://localhost"}, {"redis://localhost", "redis://b:7000/2"}, {"redis://localhost:1", "redis://b:7000/1"},
		{"redis://127.0.0.2", "redis://b:7000/1"}, {"unix:///localhost", "redis://b:7000/1"},
	} {
		require.NotEqual(t, one, name(other...), other)
	}
}

// A writer that waits for the lock around a command is in the way of a shared
// one within, which does not wait for it.
func TestASharedRunWithinAnotherDoesNotWaitForAWriter(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	script := `"$1" run -w 20s --exclusive "$2" r -- true & until "$1" status "$2" r | grep -q writer; do sleep 0.05; done
		"$1" run --shared "$2" r -- true`
	cmd := program(t, append([]string{"run", "--shared", nodes, "r", "--"}, shell("env -u REDLOCK_HELD "+script, binary(t), nodes)...)...)
	r := finish(t, cmd)
	require.Equal(t, exitUsage, r.code, r.stderr)
	require.Contains(t, r.stderr, "would wait for itself")
	eventually(t, "the writer is done", func() bool { return state(t, client(t, servers)) == admin.StateFree })
}

// A run outlasts its password: the file has another one, with which open
// connections authenticate, and those that come after them.
func TestARunOutlastsItsPassword(t *testing.T) {
	t.Parallel()
	servers, _ := masters(t, 3, redistest.Password("admin"))
	nodes := "--nodes=" + strings.ReplaceAll(strings.Join(redistest.URLs(servers), ","), ":admin@", "")
	rule := func(rules ...string) {
		for _, s := range servers {
			_, err := s.Do(append([]string{"ACL", "SETUSER", "app"}, rules...)...)
			require.NoError(t, err)
		}
	}
	auths := func() (least int) {
		for i, s := range servers {
			stats, err := s.Do("INFO", "commandstats")
			require.NoError(t, err)
			_, after, _ := strings.Cut(fmt.Sprint(stats), "cmdstat_auth:calls=")
			calls, _, _ := strings.Cut(after, ",")
			n, _ := strconv.Atoi(calls)
			if i == 0 || n < least {
				least = n
			}
		}
		return least
	}
	rule("on", ">first", "~*", "&*", "+@all")
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	write := func(text string) {
		require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	write("first")
	cmd := spawned(t, runs(t, nodes, []string{"--ttl=3s", "--user=app", "--password-file=" + file},
		shell(`touch "$1/runs"; while ! test -e "$1/end"; do sleep 0.02; done`, dir)...))
	appears(t, filepath.Join(dir, "runs"))

	rule(">second")
	write("second")
	before := auths()
	// Our own look is an AUTH, too.
	eventually(t, "open connections keep the old password", func() bool { before++; return auths() > before })
	rule("<first")
	for _, s := range servers {
		_, err := s.Do("CLIENT", "KILL", "USER", "app")
		require.NoError(t, err)
	}
	time.Sleep(3500 * time.Millisecond) // longer than the TTL
	status := within("status", nodes, "--user=app", "--password-file="+file, "r")
	require.Contains(t, status.stdout, "held", status.stderr)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	require.Equal(t, 0, await(t, cmd))
}
