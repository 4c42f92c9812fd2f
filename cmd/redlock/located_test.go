package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The commands ask the server to which sentinels or a cluster lead, and say
// which it is.
func TestNodesBehindSentinelsAndClusters(t *testing.T) {
	t.Parallel()
	sentinels, cluster := redistest.Sentinels(t), redistest.Cluster(t)
	for _, test := range []struct {
		url, prefix string
		server      *redistest.Server
	}{
		{sentinels.URL(), "x:", sentinels.Servers[0]},
		{cluster.URL(), "{06S}:", cluster.Owner(0)},
		{cluster.URL(), "{123456789}:", cluster.Owner(12739)},
	} {
		r := within("nodes", "--nodes="+test.url, "--prefix="+test.prefix, "--json")
		var all nodesReport
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &all), r.stderr)
		require.Len(t, all.Nodes, 1)
		assert.Equal(t, test.server.TCPAddr(), all.Nodes[0].Found)
		assert.Equal(t, "up", all.Nodes[0].State, r.stdout)
		r = within("nodes", "--nodes="+test.url, "--prefix="+test.prefix)
		assert.Contains(t, r.stdout, " at "+test.server.TCPAddr())
		assert.True(t, all.Nodes[0].FailsOver)
		r = within("doctor", "--nodes="+test.url, "--prefix="+test.prefix)
		assert.Contains(t, r.stdout, "1 node, ", r.stderr)
		assert.NotContains(t, r.stdout, "belongs to a cluster")
		assert.NotContains(t, r.stdout, "UNSAFE")
		assert.Contains(t, within("status", "--nodes="+test.url, "--prefix="+test.prefix, "x").stdout, "free on 1 of 1 node")
		do(t, []*redistest.Server{test.server}, "SET", test.prefix+"x", strings.Repeat("x", pure.TokenText), "PX", "600000")
		r = within("list", "--nodes="+test.url, "--prefix="+test.prefix)
		assert.Equal(t, exitOK, r.code, r.stderr)
		assert.Regexp(t, `(?m)^"x"\s+lock\s+held\s[^\n]* all nodes\n\n1 held\n$`, r.stdout)
	}
}
