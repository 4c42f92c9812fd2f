package load

import (
	"bytes"
	"io"
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

// If no server is installed, the first result is not full of errors: a few
// callers do not make in-process servers too slow to vote.
func TestWithoutAServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout bytes.Buffer
	require.Equal(t, exitGood, Run([]string{"-q", "-n200", "--warmup=0s"}, &stdout, io.Discard, nil))
	first, rest, _ := strings.Cut(stdout.String(), "\n")
	require.Contains(t, first, "redis-server and valkey-server are not on PATH")
	require.Contains(t, first, "4 callers by default and not 64, since they are slow")
	require.Contains(t, rest, "4 callers in a closed loop")

	// An explicit number of callers is kept.
	require.Equal(t, 3, measure(t, openSystem, exitGood, "-c3", "-n10", "--warmup=0s").Runs[0].Clients)
	require.Equal(t, embeddedCallers, measure(t, openSystem, exitGood, "--embedded", "-n10", "--warmup=0s").Runs[0].Clients)
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
