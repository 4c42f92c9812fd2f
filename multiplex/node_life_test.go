package multiplex

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node that joins while commands wait to be written gets none of them, not
// even a part: those rounds have its vote as failed, and their replies would be
// surplus (docs/internals/design.md, "A join is at the head").
func TestJoinWithUnflushedBytes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.unreachable(0)
		c.eventually(time.Second, func() bool { return c.status(0).State == Down }, "down")

		// The test takes the flusher's role, so that appended commands wait.
		c.group.mu.Lock()
		require.True(t, c.group.takeFlushLocked())
		c.group.mu.Unlock()
		var wg sync.WaitGroup
		claim := func(when string, sent bool) {
			for i := range 10 {
				wg.Go(func() {
					receipt, err := c.claim(background, fmt.Sprint(when, i), "t", long)
					assert.NoError(t, err)
					assert.Equal(t, sent, receipt.Sent.Has(0))
				})
			}
			synctest.Wait()
		}
		claim("before", false)
		c.links[0].Refuse(false)
		c.waitUp(3)
		claim("after", true)
		c.group.flush()
		wg.Wait()
		time.Sleep(trip)
		assert.Len(t, c.nodes[0].Keys(), 10)
		assert.Len(t, c.nodes[1].Keys(), 20)
		assert.Equal(t, 1, c.status(0).Deaths)

		// Nothing is out of step afterwards.
		for _, key := range c.nodes[0].Keys() {
			assert.NoError(t, c.release(background, key, "t", long, Receipt{Sent: All(3)}))
		}
		assert.Equal(t, 1, c.status(0).Deaths)
	}, withConfig(func(c *Config) { c.VoteTimeout = time.Minute }))
}

// A node that is given up gets no new rounds from that moment. Those that come
// before its connection is buried are owed once (R8), and not again by the
// burial.
func TestReleaseBetweenShedAndBurialIsOwedOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.links[0].Refuse(true)
		g := c.group
		g.mu.Lock()
		g.nodes[0].shedLocked(ErrSilent) // its reader wakes, and waits for the mutex
		require.True(t, g.takeFlushLocked())
		r := g.log.take(g)
		g.admitLocked(noCaller, r, releaseKind.verb(), &Command{
			Encoded: raw(releaseCommand("k", "t")), TTL: long, Receipt: receipt,
		}, 1)
		g.mu.Unlock()
		g.flush()
		time.Sleep(10 * ms)
		assert.Equal(t, Down, c.status(0).State)
		assert.Equal(t, 1, c.status(0).Debts)
		c.links[0].Refuse(false)
		c.waitUp(3)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
	})
}
