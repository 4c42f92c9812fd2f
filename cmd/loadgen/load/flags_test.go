package load

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Prefixes, files and passwords are bytes, which need not be UTF-8.
func TestTextsAreTakenByteForByte_R19(t *testing.T) {
	const odd = "caf\xe9\xff"
	t.Setenv("REDLOCK_NODES", "unix:///"+odd+"/1, unix:///"+odd+`/2\,`)
	f, err := parse([]string{"--nodes=env", "--prefix=" + odd, "--history", odd}, &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, []string{odd, odd}, []string{f.Prefix, f.History})
	require.Equal(t, []string{"unix:///" + odd + "/1", "unix:///" + odd + "/2,"}, f.Nodes)
	f, err = parse([]string{"--nodes=unix:///" + odd + "/1,unix:///" + odd + "/2"}, &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, []string{"unix:///" + odd + "/1", "unix:///" + odd + "/2"}, f.Nodes)
}

func TestUsageErrors(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "")
	t.Setenv("EMPTY", "")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"unknown flag", []string{"--frob"}},
		{"unexpected argument", []string{"5"}},
		{"--impl redsync", []string{"--impl", "redlock,redsync"}},
		{"twice", []string{"--impl", "redlock,redlock"}},
		{"exclude", []string{"--embedded", "--nodes", "redis://127.0.0.1:1"}},
		{"exclude", []string{"--embedded", "--server", "redis-server"}},
		{"exclude", []string{"--server", "redis-server", "--nodes", "redis://127.0.0.1:1"}},
		{"exclude", []string{"--spawn", "5", "--nodes", "redis://127.0.0.1:1"}},
		{"--spawn 0", []string{"--spawn", "0"}},
		{"--spawn 17", []string{"--spawn", "17"}},
		{"REDLOCK_NODES is empty", []string{"--nodes", "env"}},
		{"--clients 0", []string{"-c", "0"}},
		{"--runs", []string{"--runs", "0"}},
		{"--duration", []string{"-d", "0s"}},
		{"--duration", []string{"-d", "10"}},
		{"--ttl", []string{"--ttl", "1us"}},
		{"negative", []string{"--keys=-1"}},
		{"negative", []string{"--wait=-1s"}},
		{"--kind fenced: only", []string{"--kind=fenced", "--impl=redlock,rueidis"}},
		{"--rate -1", []string{"--rate=-1"}},
		{"--rate NaN", []string{"--rate=NaN"}},
		{"--rate +Inf", []string{"-rInf"}},
		{"--dist needs --keys", []string{"--dist=zipf:1.1"}},
		{"zipf:1.1", []string{"--keys=5", "--dist=zipf:1"}},
		{"longer than --max-ttl", []string{"--ttl=10s", "--max-ttl=9s"}},
		{"negative", []string{"--max-ttl=-1s"}},
		{"p99>+10%", []string{"--fail-if=p99"}},
		{"exp:5ms", []string{"--hold", "zipf:5ms"}},
		{"--output", []string{"-o", "xml"}},
		{"--password-env", []string{"--user", "me"}},
		{"EMPTY is empty", []string{"--password-env", "EMPTY"}},
		{"number 1: conn: URL: the scheme", []string{"--nodes", "http://127.0.0.1:1"}},
		{"number 2: conn: URL: malformed", []string{"--nodes", "redis://h,redis://u:s3cret@h:x%zz"}},
		{"number 1: conn: URL: the port", []string{"--nodes", "redis://h:99999"}},
		{"named twice", []string{"--nodes", "redis://127.0.0.1:1,redis://127.0.0.1:1"}},
		{"between two commas", []string{"--nodes", "redis://a,,redis://b"}},
		{"--prefix is empty", []string{"--prefix="}},
		{"at most 16", []string{"--nodes", strings.TrimSuffix(strings.Repeat("redis://h,", 17), ",")}},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, Run(c.args, &stdout, &stderr, nil), "%q: %s", c.args, &stderr)
		require.Contains(t, stderr.String(), c.says, "%q", c.args)
		require.NotContains(t, stderr.String(), "s3cret")
		require.Empty(t, stdout.String())
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitGood, Run([]string{"--help"}, &stdout, &stderr, nil))
	for _, flag := range []string{
		"--nodes", "REDLOCK_NODES", "--spawn", "--server", "--embedded", "-d,", "-n,", "-c,", "--keys", "--ttl", "--hold", "--wait", "--node-timeout",
		"--cancel-after", "--impl", "--runs", "--warmup", "--seed", "--password-env", "--user", "--history", "-o,", "-q,", "-r,", "--dist", "--max-ttl", "--fault",
		"--prefix", "--stats", "--html", "--compare", "--fail-if", "release_p999", "CLIENT PAUSE", "99",
	} {
		require.Contains(t, stdout.String(), flag)
	}
	require.Empty(t, stderr.String())
}
