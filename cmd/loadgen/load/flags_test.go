package load

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
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
	t.Setenv("SECRET", "s3cret")
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
		{"AT:KIND:NODE:FOR", []string{"--fault=3s:drop:2:1s"}},
		{"started here", []string{"--fault=1s:stop:0:1s", "--embedded"}},
		{"started here", []string{"--fault=1s:stop:0:1s", "--nodes=redis://127.0.0.1:1"}},
		{"numbered from 0 to 4", []string{"--fault=1s:stop:5:1s"}},
		{"after the run's end", []string{"--fault=10s:stop:0:1s"}},
		{"hit one node", []string{"--fault=1s:stop:0:2s", "--fault=2s:kill:0:1s"}},
		{"forgets --user", []string{"--fault=1s:kill:0:1s", "--user=me", "--password-env=SECRET"}},
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

// The settings of the command line and the environment take effect: one test
// for each option that is not tested elsewhere.

// An operator's shell names masters in use: they are loaded only on request.
func TestNodesFromTheEnvironment(t *testing.T) {
	nodes := redistest.Servers(t, 2)
	opened(t, redlock.Config{}, redistest.URLs(nodes)...)
	t.Setenv("REDLOCK_NODES", "\n"+strings.Join(redistest.URLs(nodes), ", \n")+"\n")
	r := measure(t, openSystem, exitGood, "--nodes=env", "-n10", "--warmup=0s").Runs[0]
	require.Equal(t, "remote", r.Backend)
	require.Equal(t, 2, r.N)
}

func TestNodesOfTheEnvironmentAreNotLoadedUnasked(t *testing.T) {
	for _, c := range []struct {
		variable, says string
		args           []string
	}{
		{"redis://u:s3cret@127.0.0.1:1", "REDLOCK_NODES is set and not used", []string{"--embedded"}},
		{"\n", "", []string{"--embedded"}},
		{"redis://127.0.0.1:1", "", []string{"--nodes=" + embeddedNode(t)}},
	} {
		t.Setenv("REDLOCK_NODES", c.variable)
		var stdout, stderr bytes.Buffer
		args := append([]string{"-q", "-n10", "-c1", "--warmup=0s", "-ojson"}, c.args...)
		require.Equal(t, exitGood, runWith((&fakeLocker{ttl: time.Hour}).opens, args, &stdout, &stderr, nil), &stderr)
		require.NotContains(t, stdout.String(), "127.0.0.1:1\"")
		require.NotContains(t, stderr.String(), "s3cret")
		if c.says == "" {
			require.NotContains(t, stderr.String(), "REDLOCK_NODES")
			continue
		}
		require.Contains(t, stderr.String(), c.says)
		require.Contains(t, stderr.String(), "--nodes env")
		require.Equal(t, 1, strings.Count(stderr.String(), "REDLOCK_NODES"), "one line")
	}
}

// embeddedNode is the URL of a server in this process.
func embeddedNode(t *testing.T) string {
	return "redis://" + miniredis.RunT(t).Addr()
}

func TestServer(t *testing.T) {
	redistest.Require(t)
	path, _ := redistest.Find()
	used := filepath.Join(t.TempDir(), "used")
	wrapper := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(wrapper, []byte("#!/bin/sh\n: >'"+used+"'\nexec '"+path+"' \"$@\"\n"), 0o700))
	r := measure(t, openSystem, exitGood, "--server", wrapper, "--spawn=2", "-n10", "--warmup=0s").Runs[0]
	require.FileExists(t, used)
	require.Equal(t, "spawned", r.Backend)
	require.Equal(t, 2, r.N)
}

// TLS comes with the URL, for every implementation, and is verified.
func TestTLS(t *testing.T) {
	nodes := redistest.Servers(t, 1, redistest.OverTLS)
	u := nodes[0].URL()
	require.True(t, strings.HasPrefix(u, "rediss://"), u)
	separator := "?"
	if strings.Contains(u, "?") {
		separator = "&"
	}
	trusting := u + separator + "tls_ca_file=" + url.QueryEscape(nodes[0].CAFile())
	opened(t, redlock.Config{}, trusting)
	for _, run := range measure(t, openSystem, exitGood, "--nodes", trusting, "-n10", "-c2", "--warmup=0s", "--impl=redlock,rueidis").Runs {
		require.EqualValues(t, 10, run.Outcomes.Granted, run.Impl)
	}
	r := measure(t, openSystem, exitFailed, "--nodes", u, awhile, "-c2", "--warmup=0s").Runs[0]
	require.Zero(t, r.Outcomes.Granted)
}

// --node-timeout is how long a stopped node is waited for. With the shorter
// default the node would soon be taken for stalled, and attempts would fail at
// once, by the hundred.
func TestNodeTimeout(t *testing.T) {
	redistest.Require(t)
	r := measure(t, openSystem, exitGood, "--spawn=1", "-c1", "-d1900ms", "--warmup=0s", "--ttl=10s", "--node-timeout=1s", "--fault=1s:stop:0:1h").Runs[0]
	require.Positive(t, r.Pairs)
	require.LessOrEqual(t, r.Outcomes.NoQuorum, int64(2))
}

func TestDurationAndWarmup(t *testing.T) {
	began := time.Now()
	f := &fakeLocker{ttl: time.Hour}
	r := measure(t, f.opens, exitGood, "--embedded", "--spawn=1", "-c1", "--hold=1ms", "-d100ms", "--warmup=200ms").Runs[0]
	require.GreaterOrEqual(t, r.DurationS, 0.1)
	require.Less(t, r.DurationS, time.Since(began).Seconds()-0.2, "the warm-up is not in it")
}

// --ttl is the TTL of the locks, and --clients the number of callers.
func TestTTLAndClients(t *testing.T) {
	remote := redistest.Servers(t, 1)
	opened(t, redlock.Config{MaxTTL: time.Hour}, redistest.URLs(remote)...)
	nodes := "--nodes=" + remote[0].URL()
	name := filepath.Join(t.TempDir(), "history")
	measure(t, openSystem, exitGood, nodes, "-n30", "-c3", "--warmup=0s", "--ttl=1h", "--max-ttl=1h", "--history", name)
	clients := map[int]bool{}
	for _, l := range readHistory(t, name) {
		clients[l.Client] = true
		if l.Event == evGrant {
			require.InDelta(t, time.Hour.Seconds()*0.99, time.Duration(l.Until-l.T).Seconds(), 60)
		}
	}
	require.LessOrEqual(t, len(clients), 3)
	require.Equal(t, 3, measure(t, openSystem, exitGood, nodes, "-n30", "-c3", "--warmup=0s", "--max-ttl=1h").Runs[0].Clients)
}

// A file that cannot be written fails the command.
func TestFilesThatCannotBeWritten(t *testing.T) {
	for _, flag := range []string{"--history", "--stats", "--html"} {
		for _, name := range []string{t.TempDir(), "/dev/full"} {
			if _, err := os.Stat(name); err == nil {
				args := []string{"-q", "--embedded", "--spawn=1", "-n1", "--warmup=0s", flag, name}
				require.Equal(t, exitFailed, Run(args, io.Discard, io.Discard, nil), args)
			}
		}
	}
}

func TestDist(t *testing.T) {
	for _, text := range []string{"uniform", "zipf:1.1", "zipf:100"} {
		var d dist
		require.NoError(t, d.UnmarshalText([]byte(text)))
		require.Equal(t, text, d.String())
		choose := d.chooser(rand.New(rand.NewPCG(1, 2)), 1)
		require.Zero(t, choose(), "one resource is the only choice")
	}
	for _, bad := range []string{"", "zipf", "zipf:", "zipf:1", "zipf:0.9", "zipf:NaN", "zipf:Inf", "zipf:101", "1.1", "uniform:2"} {
		var d dist
		require.Error(t, d.UnmarshalText([]byte(bad)), bad)
	}
}

// With Zipf the first resource is chosen most, with the share that the law
// gives it; all choices are in range, and each resource is chosen.
func TestDistShares(t *testing.T) {
	shares := func(d dist) []float64 {
		choose := d.chooser(rand.New(rand.NewPCG(1, 2)), 10)
		share := make([]float64, 10)
		for range 100_000 {
			share[choose()] += 1e-5
		}
		return share
	}
	uniform, zipf := shares(dist{}), shares(dist{2})
	for i := range 10 {
		require.InDelta(t, 0.1, uniform[i], 0.01)
		require.Positive(t, zipf[i])
	}
	require.InDelta(t, 0.645, zipf[0], 0.02, "1 / Σ k⁻² for ten")
	require.InDelta(t, 4, zipf[0]/zipf[1], 0.5)
}

// The flags reach the callers: --dist, --seed, --prefix and --keys.
func TestChoiceOfResources(t *testing.T) {
	chosen := func(args ...string) (names []string) {
		name := filepath.Join(t.TempDir(), "history")
		measure(t, (&fakeLocker{ttl: time.Hour}).opens, exitGood,
			append(args, "--embedded", "--spawn=1", "--warmup=0s", "-c1", "-n200", "--prefix=p:", "--keys=100", "--history", name)...)
		for _, l := range readHistory(t, name) {
			if l.Event == evStart {
				names = append(names, l.Resource)
			}
		}
		return names
	}
	count := func(names []string, name string) (n int) {
		for _, x := range names {
			if x == name {
				n++
			}
		}
		return n
	}
	uniform, zipf := chosen("--seed=7"), chosen("--seed=7", "--dist=zipf:3")
	require.Less(t, count(uniform, "p:k0"), 20)
	require.Greater(t, count(zipf, "p:k0"), 100)
	require.Equal(t, uniform, chosen("--seed=7"))
	require.NotEqual(t, uniform, chosen("--seed=8"))
	require.NotEqual(t, chosen(), chosen(), "without a seed each time is another")
}
