package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
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
	require.Regexp(t, `^redlock: resource "r" is held by [0-9a-f]{16} \(\S+:\d+\) since [-0-9]{10} [:0-9]{8} on 3 of 3 nodes, for 1[0-9.]+s unless it is extended or released\n$`, r.stderr)
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
	require.Regexp(t, `^redlock2\.[0-9A-Za-z_-]{27}:[0-9A-Za-z_-]+\.30000\.\d+\.\d+\.\S*\n$`, r.stdout)

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

// A lock whose token, or the outcome that it is a part of, cannot be delivered is
// released.
func TestAcquireWhoseOutcomeCannotBePrinted_R7(t *testing.T) {
	servers, nodes := masters(t, 3)
	for _, args := range [][]string{{"acquire", nodes, "r"}, {"acquire", "--json", nodes, "r"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitFailed, run(args, nil, brokenWriter{}, &stderr, make(chan os.Signal, 1)))
		require.Contains(t, stderr.String(), "broken pipe")
		require.Equal(t, admin.StateFree, state(t, client(t, servers)))
	}
	require.Equal(t, exitFailed, within("acquire", nodes, "--token-file=/nowhere/at/all/token", "r").code)
	require.Equal(t, exitUsage, within("acquire", nodes, "--token-file="+t.TempDir(), "r").code)
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
	do(t, servers, "SET", "r", "another's")
	require.Equal(t, exitLost, within("extend", nodes, flag, "r").code)
	require.True(t, exists(path))
	r := within("release", nodes, flag, "r")
	require.Equal(t, exitLost, r.code)
	require.Regexp(t, `^redlock: [^\n]*lock is not held\n$`, r.stderr)
	require.False(t, exists(path))
	require.Equal(t, "another's", valueOf(t, servers[0], "r"))
}

// A key with a value of megabytes is a lock that is held (R32).
func TestAcquireOfALargeValue_R32(t *testing.T) {
	servers, nodes := masters(t, 3)
	do(t, servers, "SET", "r", strings.Repeat("x", 3<<20))
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

// tokenOf repeats a text to the length of a token.
func tokenOf(text string) redlock.Token {
	token, err := redlock.ParseToken(strings.Repeat(text, 27)[:26] + "A")
	if err != nil {
		panic(err)
	}
	return token
}

func TestHandover(t *testing.T) {
	for _, h := range []handover{
		{tokenOf("A"), 30 * time.Second, 0, clock.Moment{Wall: 1, Boot: 2}, "abc", pure.Labels{}},
		{tokenOf("A"), 30 * time.Second, 7, clock.Moment{Wall: 1, Boot: 2}, "abc", pure.Labels{}},
		{tokenOf("-_"), time.Millisecond, 0, clock.Moment{Wall: -1, Boot: 1 << 62}, "host.example.org", pure.Labels{Owner: "web-1.example.org:17"}},
		{tokenOf("-_"), time.Millisecond, 1<<53 - 1, clock.Moment{Wall: -1, Boot: 1 << 62}, "host.example.org", pure.Labels{Owner: "x", Label: "a b: c."}},
		{tokenOf("-_"), time.Millisecond, 0, clock.Moment{Wall: 1, Boot: 2}, "abc", pure.Labels{Label: "alone"}},
		{tokenOf("z9"), time.Hour, 0, clock.Moment{Wall: 0, Boot: 0}, "", pure.Labels{}},
	} {
		got, err := parseHandover(h.reveal())
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.NotContains(t, h.reveal(), " ")
	}
	good := handover{tokenOf("z9"), time.Hour, 0, clock.Moment{Wall: 5, Boot: 6}, "x", pure.Labels{}}.reveal()
	fenced := handover{tokenOf("z9"), time.Hour, 7, clock.Moment{Wall: 5, Boot: 6}, "x", pure.Labels{}}.reveal()
	for _, bad := range []string{
		"", "redlock2", strings.Repeat(".", 6), "x" + good, strings.Replace(good, "redlock2", "redlock1", 1),
		strings.Replace(good, "z9", "z+", 1), strings.Replace(good, ".3600000.", ".0.", 1),
		strings.Replace(good, ".3600000.", ".-1.", 1), strings.Replace(good, ".3600000.", ".99999999999999999999.", 1),
		strings.Replace(good, ".3600000", ":.3600000", 1), strings.Replace(good, ".3600000", ":YSBiIA.3600000", 1), // "" and "a b "
		strings.Replace(good, ".3600000", ":+.3600000", 1),
		strings.Replace(good, ".5.", ".5s.", 1), strings.Replace(good, ".6.", "..", 1), "redlock2 " + good,
		strings.Replace(good, "redlock2", "redlock3", 1), strings.Replace(fenced, ".7.", ".0.", 1), strings.Replace(fenced, ".7.", ".-7.", 1),
		strings.Replace(fenced, ".7.", ".9007199254740992.", 1), strings.Replace(fenced, ".7.", ".", 1),
	} {
		_, err := parseHandover(bad)
		require.ErrorIs(t, err, errHandover, "%q", bad)
	}
}

// Formatting shows no token (R27).
func TestHandoverIsNotPrinted_R27(t *testing.T) {
	h := handover{tokenOf("abcd"), time.Hour, 0, clock.Moment{Wall: 5, Boot: 6}, "x", pure.Labels{}}
	for _, verb := range []string{"%v", "%+v", "%s", "%x"} {
		require.NotContains(t, strings.ToLower(fmt.Sprintf(verb, h)), "abcd", verb)
	}
	_, err := parseHandover(h.reveal() + "\n" + strings.Repeat("z", 10) + ".")
	if err != nil {
		require.NotContains(t, err.Error(), "abcd")
	}
}

// The owner is a part of what acquire hands over: another process extends and
// releases the lock, whatever its own --owner says.
func TestOwnerIsHandedOver(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	path := filepath.Join(t.TempDir(), "token")
	file := "--token-file=" + path
	require.Equal(t, result{}, within("acquire", nodes, "-n", "--ttl=20s", "--owner=web-1:17", file, "r"))
	token, err := os.ReadFile(path)
	require.NoError(t, err)

	eventually(t, "a key on all nodes", func() bool { return statusOf(t, nodes, "r", exitOK).Agree == 3 })
	r := statusOf(t, nodes, "r", exitOK)
	require.Equal(t, "web-1:17", r.Owner)
	require.Equal(t, "web-1:17", r.Nodes[1].Owner)
	h, err := parseHandover(string(token[:len(token)-1]))
	require.NoError(t, err)
	require.Equal(t, h.token.Fingerprint(), r.Holder)
	held := func(nodes string) string {
		return `held by ` + r.Holder + ` \(web-1:17\) since \S+ \S+ on ` + nodes + ` of 3 nodes, for [0-9.]+s unless it is extended or released\n`
	}
	text := within("status", nodes, "r").stdout
	require.Regexp(t, `^"r": `+held("3"), text)
	require.NotContains(t, text, h.token.Reveal())
	refused := within("acquire", nodes, "-n", "--owner=web-2", "r")
	require.Equal(t, result{exitHeld, "", refused.stderr}, refused)
	require.Regexp(t, `^redlock: resource "r" is `+held("[23]")+`$`, refused.stderr)
	require.Equal(t, "web-1:17", asJSON[outcome](t, exitHeld, "acquire", nodes, "-n", "--json", "r").HolderOwner)
	forced := within("release", nodes, "--force", "--yes", "none")
	require.NotContains(t, forced.stdout, h.token.Reveal())

	require.Equal(t, result{}, within("extend", nodes, "--ttl=25s", "--owner=web-2", file, "r"))
	require.Equal(t, result{}, within("release", nodes, file, "r"))
	require.Equal(t, admin.StateFree, state(t, c))

	require.Equal(t, result{}, within("acquire", nodes, "-n", "--owner=web-1", file, "r"))
	forced = within("release", nodes, "--force", "--yes", "r")
	require.Zero(t, forced.code)
	require.Regexp(t, `(?m)^[^\n]*[0-9a-f]{16} \(web-1\)`, forced.stdout)
	require.Equal(t, admin.StateFree, state(t, c))
}

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
	require.Equal(t, "not_held", reported(t, exitLost, "extend", nodes, "r").Outcome)
	require.Equal(t, "not_held", reported(t, exitLost, "release", nodes, "r").Outcome)
	require.Equal(t, "no_quorum", reported(t, exitNoQuorum, "release", "--nodes=unix:///nowhere", "--timeout=100ms", "r").Outcome)
	require.Equal(t, "no_quorum", reported(t, exitNoQuorum, "acquire", "--nodes=unix:///nowhere", "-n", "r").Outcome)

	// Errors of usage have no outcome.
	require.Empty(t, within("acquire", "--json", nodes, "").stdout)
	require.Equal(t, exitUsage, within("release", nodes, "--json", "--force", "--yes", "r").code)
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
