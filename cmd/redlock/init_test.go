package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

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
	assert.Contains(t, r.Nodes[0].Found, "hold something else")

	require.NoError(t, servers[0].Kill())
	r = initAs(t, exitNoQuorum, "no_quorum", nodes, "--timeout=1s")
	assert.Contains(t, r.Nodes[0].Found, "not reached")
	assert.Contains(t, r.Error, "1 of 3 masters")
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

func TestInitUsage(t *testing.T) {
	for _, args := range [][]string{
		{"init"}, {"init", "--nodes=unix:///x", "--replace=x"}, {"init", "--nodes=unix:///x", "--max-ttl=0", "--forgetful"},
		{"init", "--nodes=unix:///x,unix:///x"},
	} {
		got := within(args...)
		assert.Equal(t, exitUsage, got.code, args)
		assert.Empty(t, got.stdout)
	}
}
