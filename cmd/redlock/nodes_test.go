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
		assert.False(t, n.Quarantined)
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
	assert.Regexp(t, `^NODE +STATE +ROLE +SERVER +UPTIME +RTT +OFFSET +RATE +EVICTION +PERSISTENCE +QUARANTINE$`, lines[0])
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

func TestNodesShowsQuarantine(t *testing.T) {
	_, nodes := masters(t, 1)
	r := nodesOf(t, exitOK, nodes, "--max-ttl=10m", "--observe=0")
	assert.True(t, r.Nodes[0].Quarantined)
	require.NotNil(t, r.Nodes[0].QuarantineS)
	assert.Greater(t, *r.Nodes[0].QuarantineS, 0.0)
	assert.Equal(t, "first seen", r.Nodes[0].QuarantineWhy)
	assert.Contains(t, within("nodes", nodes, "--max-ttl=10m", "--observe=0").stdout, "first seen")
}

func TestNodesShowsWhatIsNoMaster(t *testing.T) {
	servers, nodes := masters(t, 2, redistest.OverTCP)
	host, port, _ := strings.Cut(servers[0].TCPAddr(), ":")
	_, err := servers[1].Do("REPLICAOF", host, port)
	require.NoError(t, err)
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
