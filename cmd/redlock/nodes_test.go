package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/redistest"
)

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
	do(t, servers[1:2], "SET", "redlock:seal", strings.ReplaceAll(seal(t, servers[2]), opened.Deployment, strings.Repeat("f", idDigits)))
	r = nodesOf(t, exitOK, flags...)
	assert.Equal(t, "another deployment", r.Nodes[1].QuarantineWhy)
	assert.Equal(t, strings.Repeat("f", idDigits), r.Nodes[1].Deployment)
	do(t, servers[1:2], "DEL", "redlock:seal")
	r = nodesOf(t, exitOK, flags...)
	assert.Equal(t, "no quorum is sealed", r.Nodes[2].QuarantineWhy)
	do(t, servers[1:2], "SET", "redlock:seal", seal(t, servers[2]))
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

func TestNodesOfAStoppedServerAnswersInTime(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	require.NoError(t, servers[0].Stop())
	begun := time.Now()
	r := nodesOf(t, exitOK, nodes, "--observe=0", "--timeout=3s")
	assert.Less(t, time.Since(begun), patience)
	assert.Equal(t, 2, r.Up)
	assert.NotEmpty(t, r.Nodes[0].Error)
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
