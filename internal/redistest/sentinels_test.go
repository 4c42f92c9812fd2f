package redistest_test

import (
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each way to lose a primary makes another server the primary, and the former
// comes back as its replica.
func TestSentinelsFailOver(t *testing.T) {
	redistest.Long(t)
	redistest.NoLeaks(t)
	g := redistest.Sentinels(t, redistest.Password("hunter/2@?"))
	require.Same(t, g.Servers[0], g.Primary())
	second, err := g.Failover()
	require.NoError(t, err)
	require.NotSame(t, g.Servers[0], second)
	await(t, func() bool { return g.Servers[0].Info("replication", "master_link_status") == "up" })

	require.NoError(t, second.Kill())
	third, err := g.AwaitFailover(second)
	require.NoError(t, err)
	require.NoError(t, g.Rejoin(second))

	require.NoError(t, third.Stop())
	fourth, err := g.AwaitFailover(third)
	require.NoError(t, err)
	require.NotSame(t, third, fourth)
	assert.NoError(t, third.Continue())
	await(t, func() bool { return third.Info("replication", "role") == "slave" })
}

// A slot is served by one master at each time, moved or failed over.
func TestClusterMovesAndFailsOver(t *testing.T) {
	redistest.NoLeaks(t)
	g := redistest.Cluster(t, redistest.Password("hunter/2@?"))
	owner := g.Owner(100)
	require.Same(t, g.Servers[0], owner)
	_, err := owner.Do("SET", "{06S}:k", "v") // of slot 0
	require.NoError(t, err)
	migrating := false
	require.NoError(t, g.MoveSlot(0, g.Servers[1], func() {
		_, err := owner.Do("GET", "{06S}:missing")
		migrating = err != nil
	}))
	assert.True(t, migrating, "ASK")
	v, err := g.Servers[1].Do("GET", "{06S}:k")
	require.NoError(t, err)
	assert.Equal(t, "v", v)

	now, err := g.Failover(100)
	require.NoError(t, err)
	assert.Same(t, g.Servers[3], now)
	await(t, g.Agree) // a replica that never was in touch takes no place
	require.NoError(t, now.Kill())
	now, err = g.AwaitFailover(100, now)
	require.NoError(t, err)
	assert.Same(t, owner, now)
}

// A master that is cut off from the cluster loses its slots, and clients still
// reach it.
func TestClusterCutsAMasterOff(t *testing.T) {
	redistest.NoLeaks(t)
	g := redistest.Cluster(t, redistest.Fronted)
	former := g.Servers[0]
	heal := g.CutOff(former)
	now, err := g.AwaitFailover(0, former)
	require.NoError(t, err)
	assert.Same(t, g.Servers[3], now)
	assert.Equal(t, "master", former.Info("replication", "role"), "it has not heard of it")
	heal()
	await(t, g.Agree)
	assert.Equal(t, "slave", former.Info("replication", "role"))
}

// await polls until something holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, 20*time.Millisecond)
}
