package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// Masters that were just started do not count. A command that does not wait
// says so and ends, and another says so once, while it waits (R23, R29, R31).
func TestMastersThatWereJustStarted_R31(t *testing.T) {
	_, nodes := unopened(t, 3)
	r := within("acquire", nodes, "--max-ttl=0", "--timeout=1h", "-n", "r")
	require.Equal(t, exitNoQuorum, r.code, "by default")
	require.Regexp(t, `^redlock: no quorum of nodes answered: .*quarantined for another [123]\d\.\d+s: [^\n]+\n$`, r.stderr)

	r = growing(time.Second, saying("waiting"), func(wait string) result {
		return within("acquire", nodes, "--max-ttl=0", "--timeout=1h", "-w", wait, "r")
	})
	require.Equal(t, exitNoQuorum, r.code)
	require.Regexp(t, `^redlock: waiting, since too few nodes count: .*quarantined for another [^\n]+\nredlock: no quorum[^\n]+\n$`, r.stderr)

	r = growing(time.Second, func(r result) bool { return r.code == exitOK }, func(timeout string) result {
		_, nodes = unopened(t, 3)
		return within("acquire", nodes, "--max-ttl=3s", "--timeout="+timeout, "--ttl=1s", "r")
	})
	require.Equal(t, exitOK, r.code, "the timeout is for connecting: %s", r.stderr)
	require.Contains(t, r.stderr, "redlock: waiting")

	r = within("acquire", nodes, "--forgetful", "--max-ttl=0", "-n", "other")
	require.Equal(t, exitOK, r.code, r.stderr)
}

// A TTL above MaxTTL is refused, and so are masters that have another one
// (R23).
func TestMaxTTL_R23(t *testing.T) {
	_, nodes := mastersWith(t, redlock.Config{}, 3)
	r := within("acquire", nodes, "--max-ttl=0", "-n", "--ttl=30s", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	r = within("acquire", nodes, "--max-ttl=0", "--ttl=31s", "other")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "at most --max-ttl, which is 30s")
	r = within("acquire", nodes, "--max-ttl=2m", "--timeout=10s", "r")
	require.Equal(t, exitNoQuorum, r.code, "another MaxTTL")
	require.Contains(t, r.stderr, "MaxTTL")
}

// A lock is released whatever its TTL, and by masters that do not count.
func TestReleaseNeedsNoMaxTTL(t *testing.T) {
	servers, nodes := masters(t, 3)
	r := within("acquire", nodes, "--ttl=1h", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	t.Setenv(tokenVariable, strings.TrimSpace(r.stdout))
	do(t, servers, "DEL", "redlock:seal") // as if it had been flushed
	r = within("release", nodes, "--max-ttl=0", "--timeout=1h", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
}

// A password is taken from the environment, and never shown (R27).
func TestPassword_R27(t *testing.T) {
	const password = "pass/word"
	servers, _ := masters(t, 3, redistest.Password(password))
	var plain []string
	for _, s := range servers {
		u, err := url.Parse(s.URL())
		require.NoError(t, err)
		u.User = nil
		plain = append(plain, u.String())
	}
	nodes := "--nodes=" + strings.Join(plain, ",")
	r := soon(t, "acquire", nodes, "--timeout=1h", "r")
	require.Equal(t, exitNoQuorum, r.code)
	require.Contains(t, r.stderr, "NOAUTH")
	t.Setenv("SECRET", password)
	r = within("acquire", nodes, "--password-env=SECRET", "-v", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, password)
	r = within("acquire", nodes, "--user=default", "--password-env=SECRET", "-n", "r")
	require.Equal(t, exitHeld, r.code, r.stderr)
	t.Setenv("SECRET", "wrong/word")
	r = within("acquire", nodes, "--password-env=SECRET", "--timeout=1s", "-v", "r")
	require.Equal(t, exitNoQuorum, r.code)
	require.NotContains(t, r.stderr, "wrong/word")
}

// A password is taken from a file, or from what a command writes: by clients
// and by probes, and without a trace (R27).
func TestPasswordThatChanges_R27(t *testing.T) {
	servers, _ := masters(t, 3, redistest.Password("hunter2"))
	nodes := "--nodes=" + strings.ReplaceAll(strings.Join(redistest.URLs(servers), ","), ":hunter2@", "")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(file, []byte(text), mode))
		require.NoError(t, os.Chmod(file, mode))
	}
	write("hunter2\n", 0o600)
	n := 0
	for _, c := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{"--password-file=" + file}, exitOK, ""},
		{[]string{"--password-file=" + file, "--user=default"}, exitOK, ""},
		{[]string{"--credentials-command=cat " + file}, exitOK, ""},
		{[]string{`--credentials-command=echo '{"username":"default","password":"hunter2"}'`}, exitOK, ""},
		{[]string{"--credentials-command=echo hunter3 | tee /dev/stderr"}, exitNoQuorum, "WRONGPASS"},
		{[]string{"--credentials-command=echo hunter2; exit 7"}, exitNoQuorum, "exit status 7"},
		{[]string{"--credentials-command=sleep 1000"}, exitNoQuorum, ""},
		{[]string{"--password-file=" + file + "x"}, exitUsage, "no such file"},
		{[]string{"--password-file=" + file, "--credentials-command=true"}, exitUsage, "only one of"},
		{[]string{"--password-file=" + file, "--password-env=HOME"}, exitUsage, "only one of"},
	} {
		n++
		done := func(r result) bool { return r.code == c.code && strings.Contains(r.stderr, c.says) }
		r := growing(2*time.Second, done, func(timeout string) result {
			return within(append([]string{"acquire", nodes, "-v", "--timeout=" + timeout, fmt.Sprint("r", n)}, c.flags...)...)
		})
		require.Equal(t, c.code, r.code, "%v: %s", c.flags, r.stderr)
		require.Contains(t, r.stderr, c.says)
		require.NotContains(t, strings.ReplaceAll(r.stderr, "hunter2; exit", ""), "hunter")
	}
	r := within("nodes", nodes, "--password-file="+file, "--observe=0", "--json")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, `"persistence"`, "the probes have it, too")
	write("hunter2", 0o644)
	r = within("status", nodes, "--password-file="+file, "r1")
	require.Contains(t, r.stderr, "any user of this machine may read")
	write("hunter2", 0o602)
	r = within("status", nodes, "--password-file="+file, "r1")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "any user may write")
}

func TestTLS(t *testing.T) {
	servers, nodes := unopened(t, 3, redistest.OverTLS)
	r := soon(t, "acquire", nodes, "--timeout=1h", "r")
	require.Equal(t, exitNoQuorum, r.code, "the certificate is verified")
	require.Contains(t, r.stderr, "certificate signed by unknown authority")
	var known []string
	for _, s := range servers {
		known = append(known, s.URL()+"?tls_ca_file="+url.QueryEscape(s.CAFile()))
	}
	_, err := admin.Init(t.Context(), redlock.Config{Nodes: redlock.Nodes(known...), MaxTTL: longest})
	require.NoError(t, err)
	r = within("acquire", "--nodes="+strings.Join(known, ","), "r")
	require.Equal(t, exitOK, r.code, r.stderr)
}

// The prefix and the URLs may come from the environment, as in a crontab. URLs are
// separated as suits the place where they are written.
func TestEnvironment(t *testing.T) {
	servers, nodes := mastersWith(t, redlock.Config{MaxTTL: longest, Prefix: "lock:"}, 3)
	t.Setenv("REDLOCK_NODES", "\n "+strings.ReplaceAll(strings.TrimPrefix(nodes, "--nodes="), ",", ",\n ")+"\n")
	t.Setenv("REDLOCK_PREFIX", "lock:")
	r := within("acquire", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotNil(t, valueOf(t, servers[0], "lock:r"))
	t.Setenv("REDLOCK_NODES", " \n")
	require.Contains(t, within("status", "r").stderr, "no masters: name them")
}

// initAs opens a deployment as a program would.
func initAs(t *testing.T, code int, outcome string, args ...string) initReport {
	t.Helper()
	r := asJSON[initReport](t, code, append([]string{"init"}, args...)...)
	require.Equal(t, outcome, r.Outcome, "%+v", r)
	require.Equal(t, code, r.ExitCode)
	require.Equal(t, code != exitOK, r.Error != "")
	return r
}

// A deployment is opened once, and its locks can be taken at once.
func TestInit_R30(t *testing.T) {
	redistest.NoLeaks(t)
	_, nodes := unopened(t, 3)
	got := within("init", nodes, "--max-ttl=0")
	require.Equal(t, exitOK, got.code, got)
	require.Empty(t, got.stderr)
	require.Regexp(t, `^opened deployment [0-9a-f]{32}\n3 nodes, quorum 2, MaxTTL 30s\n\nNODE +FOUND\n(unix:\S+ +deployment [0-9a-f]{32} of 3 nodes\n){3}$`, got.stdout)
	got = within("acquire", nodes, "--max-ttl=0", "-n", "r")
	require.Equal(t, exitOK, got.code, got.stderr)

	r := initAs(t, exitOK, "already_open", nodes, "--max-ttl=0")
	assert.Len(t, r.Deployment, idDigits)
	assert.Equal(t, 3, r.Size)
	assert.EqualValues(t, 30, *r.MaxTTL)
	got = within("init", nodes, "--max-ttl=0")
	require.Equal(t, exitOK, got.code, got)
	require.Contains(t, got.stdout, "deployment "+r.Deployment+" was open already\n")
}

// Init changes nothing unless all masters can be reached and are free, and says
// what each is.
func TestInitOfMastersInUse_R30(t *testing.T) {
	servers, nodes := masters(t, 3)
	two := nodes[:strings.LastIndex(nodes, ",")]
	id := initAs(t, exitOK, "already_open", nodes).Deployment

	r := initAs(t, exitInUse, "in_use", two)
	assert.Regexp(t, "of 3 nodes, .* and this client has 2", r.Error)
	require.Len(t, r.Nodes, 2)
	assert.Contains(t, r.Nodes[0].Found, id)
	r = initAs(t, exitInUse, "in_use", nodes, "--max-ttl=1m")
	assert.Contains(t, r.Nodes[0].Found, "MaxTTL 24h")

	do(t, servers[:1], "DEL", "redlock:seal")
	r = initAs(t, exitInUse, "in_use", nodes)
	assert.Contains(t, r.Error, "only some of the masters")
	assert.Equal(t, "free", r.Nodes[0].Found)
	do(t, servers[:1], "SET", "redlock:seal", "something")
	r = initAs(t, exitInUse, "in_use", nodes)
	assert.Contains(t, r.Nodes[0].Found, "the key redlock:seal holds something else")

	do(t, servers[:1], "DEL", "redlock:seal")
	do(t, servers[1:2], "CONFIG", "SET", "min-replicas-to-write", "1")
	r = initAs(t, exitNoQuorum, "no_quorum", nodes, "--timeout=20s")
	assert.Contains(t, r.Error, "NOREPLICAS")

	require.NoError(t, servers[0].Kill())
	r = initAs(t, exitNoQuorum, "no_quorum", nodes, "--timeout=20s")
	assert.Contains(t, r.Nodes[0].Found, "not reached")
	assert.Contains(t, r.Error, "2 of 3 masters")
}

// Masters of a deployment that is over are used anew, and count once no lock of
// it can be valid.
func TestInitReplaces_R30(t *testing.T) {
	_, nodes := mastersWith(t, redlock.Config{}, 3)
	two := nodes[:strings.LastIndex(nodes, ",")]
	old := initAs(t, exitOK, "already_open", nodes, "--max-ttl=0").Deployment
	r := initAs(t, exitOK, "opened", two, "--max-ttl=0", "--replace="+old)
	require.NotEqual(t, old, r.Deployment)
	for _, n := range r.Nodes {
		require.NotNil(t, n.QuarantineS, n)
		require.Greater(t, *n.QuarantineS, 10.0)
		require.Contains(t, n.Found, "counts in ")
	}
	got := within("acquire", two, "--max-ttl=0", "-n", "r")
	require.Equal(t, exitNoQuorum, got.code)
	require.Contains(t, got.stderr, "quarantined for another ")
	got = within("acquire", nodes, "--max-ttl=0", "-n", "r")
	require.Equal(t, exitNoQuorum, got.code)
	require.Contains(t, got.stderr, "another deployment")
}

// Masters of a deployment with a longer MaxTTL are taken over once its locks last
// no longer than the clients of the new one wait, and the command says so.
func TestInitReplacesALongerMaxTTL_R30(t *testing.T) {
	_, nodes := unopened(t, 3)
	old := initAs(t, exitOK, "opened", nodes, "--max-ttl=4s").Deployment
	start := time.Now()
	got := within("init", nodes, "--max-ttl=1s", "--replace="+old)
	require.Equal(t, exitOK, got.code, got)
	require.Contains(t, got.stdout, "MaxTTL 1s")
	require.GreaterOrEqual(t, time.Since(start), 3*time.Second)
	require.Regexp(t, `^redlock: waiting, since the deployment that is replaced has a longer MaxTTL: [123][.0-9]*s\n$`, got.stderr)
}

// nodesOf asks for the nodes as a program would.
func nodesOf(t *testing.T, code int, args ...string) nodesReport {
	t.Helper()
	return asJSON[nodesReport](t, code, append([]string{"nodes"}, args...)...)
}

func TestNodes(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	_, err := servers[1].Do("CONFIG", "SET", "appendonly", "yes")
	require.NoError(t, err)
	_, err = servers[1].Do("CONFIG", "SET", "appendfsync", "always")
	require.NoError(t, err)
	_, err = servers[1].Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	require.NoError(t, err)
	require.NoError(t, servers[2].Kill())

	r := nodesOf(t, exitOK, nodes, "--observe=200ms")
	assert.Equal(t, 2, r.Quorum)
	assert.Equal(t, 2, r.Up)
	require.Len(t, r.Nodes, 3)
	for i, n := range r.Nodes[:2] {
		product, version, err := servers[i].Introduction()
		require.NoError(t, err)
		assert.Equal(t, "up", n.State)
		assert.Equal(t, "master", n.Role)
		assert.Equal(t, product, n.Product)
		assert.Equal(t, version, n.Version)
		assert.Len(t, n.RunID, 40)
		require.NotNil(t, n.UptimeS)
		require.NotNil(t, n.RoundTripMS)
		require.NotNil(t, n.OffsetMS)
		require.NotNil(t, n.Rate)
		assert.LessOrEqual(t, *n.OffsetMS, *n.OffsetErrMS+1, "one machine, one clock")
		assert.Empty(t, n.Error)
		assert.False(t, n.Quarantined, n.QuarantineWhy)
	}
	assert.Equal(t, "none", r.Nodes[0].Persistence)
	assert.Equal(t, "noeviction", r.Nodes[0].Eviction)
	assert.Equal(t, "aof always", r.Nodes[1].Persistence)
	do(t, servers[1:2], "CONFIG", "SET", "no-appendfsync-on-rewrite", "yes")
	assert.Equal(t, "aof always but in saves", nodesOf(t, exitOK, nodes, "--observe=0").Nodes[1].Persistence)
	assert.Equal(t, "allkeys-lru", r.Nodes[1].Eviction)
	assert.NotEmpty(t, r.Nodes[1].Warnings)
	assert.NotEqual(t, "up", r.Nodes[2].State)
	assert.NotEmpty(t, r.Nodes[2].Error)

	text := within("nodes", nodes, "--observe=0")
	assert.Equal(t, exitOK, text.code)
	lines := strings.Split(text.stdout, "\n")
	assert.Regexp(t, `^NODE +STATE +ROLE +SERVER +STARTED +RTT +OFFSET +RATE +EVICTION +PERSISTENCE +DEPLOYMENT +QUARANTINE$`, lines[0])
	assert.Contains(t, lines[2], "allkeys-lru")
	assert.Contains(t, text.stdout, "may evict the keys")

	require.NoError(t, servers[1].Kill())
	assert.Equal(t, 1, nodesOf(t, exitNoQuorum, nodes, "--observe=0").Up)
}

func TestNodesTellsAStepFromACorrection(t *testing.T) {
	for gained, want := range map[time.Duration]string{300 * time.Microsecond: "+0.015% ±0.000", -time.Second: "stepped -1s"} {
		_, _, rate := new(nodeView).showClock(probe.Clock{Span: 2 * time.Second, Gained: gained, Stepped: true})
		assert.Equal(t, want, rate)
	}
}

// A master that has an id alone is not sealed, also where no run id is known.
func TestAMasterOfNoDeploymentIsNotSealed_R30(t *testing.T) {
	var n nodeView
	named := probe.Seal{State: probe.SealThere, Seal: pure.Seal{Seat: pure.Seat{Member: "0123456789abcdef"}}}
	id, why := n.showDeployment(&probe.Facts{Seal: named}, &observer{outlook: outlook.New([]string{""}, []bool{false}, time.Minute)}, 0)
	assert.Equal(t, []any{false, "", ""}, []any{n.Sealed, id, why})
}

// The table has the deployment, and how long and why a master does not count;
// the JSON has the whole id. Nothing is written.
func TestNodesShowsDeploymentAndQuarantine_R30(t *testing.T) {
	servers, nodes := unopened(t, 3)
	flags := []string{nodes, "--max-ttl=10m", "--observe=0"}
	r := nodesOf(t, exitOK, flags...)
	for _, n := range r.Nodes {
		assert.True(t, n.Quarantined)
		assert.Equal(t, "not opened yet", n.QuarantineWhy)
		assert.Greater(t, *n.QuarantineS, 300.0)
		assert.Empty(t, n.Deployment)
		assert.WithinDuration(t, time.Now(), *n.Started, patience)
	}
	for _, s := range servers {
		keys, err := s.Do("DBSIZE")
		require.NoError(t, err)
		require.Zero(t, keys)
	}
	eventually(t, "its uptime proves for how long a master was not restarted", func() bool {
		return *nodesOf(t, exitOK, flags...).Nodes[0].QuarantineS < 606
	})

	opened := initAs(t, exitOK, "opened", nodes, "--max-ttl=10m")
	for _, n := range nodesOf(t, exitOK, flags...).Nodes {
		assert.False(t, n.Quarantined, n.QuarantineWhy)
		assert.True(t, n.Sealed)
		assert.Equal(t, opened.Deployment, n.Deployment)
		assert.Equal(t, 3, n.Size)
		assert.Empty(t, n.Warnings)
	}
	assert.Contains(t, within(append([]string{"nodes"}, flags...)...).stdout, opened.Deployment[:shownDigits]+" of 3  -\n")
	assert.NotEmpty(t, nodesOf(t, exitOK, nodes, "--max-ttl=0", "--forgetful", "--observe=0").Nodes[0].Warnings)

	require.NoError(t, servers[0].Restart())
	was := seal(t, servers[1])
	do(t, servers[1:2], "SET", "redlock:seal", strings.ReplaceAll(was, opened.Deployment, strings.Repeat("f", idDigits)))
	r = nodesOf(t, exitOK, flags...)
	assert.Equal(t, "another deployment", r.Nodes[1].QuarantineWhy)
	assert.Equal(t, strings.Repeat("f", idDigits), r.Nodes[1].Deployment)
	do(t, servers[1:2], "DEL", "redlock:seal")
	r = nodesOf(t, exitOK, flags...)
	assert.Equal(t, "no quorum is sealed", r.Nodes[2].QuarantineWhy)
	do(t, servers[1:2], "SET", "redlock:seal", was)
	r = nodesOf(t, exitOK, flags...)
	assert.Empty(t, r.Nodes[2].QuarantineWhy)
	assert.Equal(t, "first seen", r.Nodes[0].QuarantineWhy, "it has lost its seal")
	assert.Greater(t, *r.Nodes[0].QuarantineS, 600.0)
	assert.Regexp(t, `-  +10m\S+, first seen\n`, within(append([]string{"nodes"}, flags...)...).stdout)
}

// seal returns a master's seal.
func seal(t *testing.T, s *redistest.Server) string {
	t.Helper()
	text, err := s.Do("GET", "redlock:seal")
	require.NoError(t, err)
	require.NotNil(t, text)
	return text.(string)
}

func TestNodesShowsWhatIsNoMaster(t *testing.T) {
	servers, nodes := masters(t, 2, redistest.OverTCP)
	do(t, servers[1:], "REPLICAOF", "127.0.0.1", "1") // of a master that is away: it never loads keys
	r := nodesOf(t, exitNoQuorum, nodes, "--observe=0")
	assert.Equal(t, "replica", r.Nodes[1].Role)
	assert.Contains(t, r.Nodes[1].Error, "role is replica")
}

// The name of a sealed process is long, and read as a whole: otherwise every
// master would look like one that was a replica meanwhile.
func TestSealsAreReadAsAWhole_R23(t *testing.T) {
	_, nodes := masters(t, 3)
	r := asJSON[nodesReport](t, exitOK, "nodes", nodes, "--observe=0")
	require.Len(t, r.Nodes, 3)
	for _, n := range r.Nodes {
		require.True(t, n.Sealed)
		require.NotContains(t, n.QuarantineWhy, "history")
	}
}

// miniredis tells no run id, so that each client waits, not only the first. The
// log, the status and a call that ends while it waits say why, and what to do
// (R23, R31).
func TestMiniredisSaysWhyEachClientWaits_R23_R31(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	for range 2 {
		var log bytes.Buffer
		c, err := redlock.New(t.Context(), redlock.Config{
			Nodes: redlock.Nodes(url), NodeTimeout: patience, MaxTTL: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		_, err = c.TryAcquire(t.Context(), "r", 500*time.Millisecond)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
		require.ErrorContains(t, err, "tells no run id")
		require.Contains(t, c.Nodes()[0].Warnings[0], "redlocktest")
		require.NoError(t, c.Ready(t.Context()))
		lock, err := c.Acquire(t.Context(), "r", 500*time.Millisecond) // it tries again on a busy machine
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		require.Contains(t, log.String(), "tells no run id")
	}
	c, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(url), NodeTimeout: patience, Forgetful: true})
	require.NoError(t, err)
	defer c.Close(t.Context())
	lock, err := c.TryAcquire(t.Context(), "r", 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}
