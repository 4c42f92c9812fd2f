package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A release is owed to the process that got the SET. Another one that answers
// in its place settles nothing (failover.pml: paid-elsewhere).
func TestAReleaseIsOwedToTheProcessOfItsSET_R8(t *testing.T) {
	for name, merged := range map[string]bool{"alone": false, "merged": true} {
		t.Run(name, func(t *testing.T) {
			inFailover(t, 2, func(t *testing.T, g *replicated) {
				g.counts()
				receipts := []Receipt{g.mustClaim("k0"), g.mustClaim("k1")}
				g.lead(1)
				for i, key := range []string{"k0", "k1"} {
					go func() { _ = g.release(background, key, "t", long, receipts[i]) }()
				}
				synctest.Wait()
				time.Sleep(100 * ms)
				assert.Zero(t, g.debts(), "the new process owes nothing")
				assert.Contains(t, g.nodes[0].Keys(), "k0")
				assert.EqualValues(t, 2, g.status(0).Counts.DebtsMade)
				g.lead(0)
				time.Sleep(100 * ms)
				assert.NotContains(t, g.nodes[0].Keys(), "k0")
				assert.NotContains(t, g.nodes[0].Keys(), "k1")
				counts := g.status(0).Counts
				assert.Equal(t, []uint64{2, 2, 0}, []uint64{counts.DebtsMade, counts.DebtsPaid, counts.DebtsExpired})
			}, merging(merged))
		})
	}
}

// What was sent to the new process alone, the former one does not owe.
func TestTheFormerProcessOwesNoLaterRelease_R8(t *testing.T) {
	inFailover(t, 2, func(t *testing.T, g *replicated) {
		g.counts()
		g.lead(1)
		g.counts()
		require.NoError(t, g.release(background, "k", "t", long, g.mustClaim("k")))
		assert.Zero(t, g.status(0).Counts.DebtsMade)
	})
}

// A process that does not return owes until its keys must have ended.
func TestDebtsOfAProcessThatIsGoneEnd_R8(t *testing.T) {
	inFailover(t, 2, func(t *testing.T, g *replicated) {
		g.counts()
		receipt := g.mustClaim("k")
		g.lead(1)
		_ = g.release(background, "k", "t", long, receipt)
		time.Sleep(long)
		require.Zero(t, g.status(0).Counts.DebtsExpired)
		time.Sleep(long)
		assert.EqualValues(t, 1, g.status(0).Counts.DebtsExpired)
	})
}

// The fence belongs to the process of the connection: another one cannot end
// it, and before it is answered there, nothing else is sent there
// (failover.pml: fenced-elsewhere).
func TestTheFenceIsForTheProcessOfTheConnection_R8(t *testing.T) {
	inFailover(t, 2, func(t *testing.T, g *replicated) {
		g.counts()
		g.nodes[0].Delay("SET", time.Second)
		_, err := g.claim(background, "k", "t", long)
		require.Error(t, err)
		old := g.nodes[0].Conns()
		g.present.Store(1)
		g.nodes[1].Succeed(g.nodes[0])
		g.links[0].Reset()
		g.eventually(5*time.Second, func() bool { return g.status(0).Connects == 2 && g.up() == 1 }, "it leads elsewhere")
		assert.Zero(t, g.nodes[1].Calls("CLIENT KILL"))
		assert.Equal(t, 1, old)
		g.nodes[0].Delay("SET", 0)
		g.lead(0)
		time.Sleep(100 * ms)
		assert.Equal(t, 1, g.nodes[0].Calls("CLIENT KILL"))
		time.Sleep(2 * time.Second)
		assert.NotContains(t, g.nodes[0].Keys(), "k")
		assert.Zero(t, g.debts())
	})
}
