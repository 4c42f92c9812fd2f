package multiplex

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node with a full table of debts gets no new claims, over however many
// connections, while releases of what it holds are still owed: each key singly,
// none dropped. When it obeys again it has 1.5 s to pay and come back (R8,
// R26).
func TestFullTableOverManyConnections_R8(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(60)
		claims := c.nodes[0].Calls("SET")
		c.nodes[0].Refuse(noReplicas, "EVALSHA")
		var fresh []Receipt
		for wave := range 3 {
			assert.Equal(t, make([]error, 20), l.freeWave(20*wave, 20), "two of three answer")
			time.Sleep(trip)
			s := c.status(0)
			require.Equal(t, 20*(wave+1), s.Debts, "each key is a debt, also where the table is full already")
			require.NotEqual(t, Up, s.State)
			fresh = append(fresh, c.mustClaim(fmt.Sprint("new", wave)))
			assert.False(t, fresh[wave].Sent.Has(0))
			time.Sleep(700 * ms)
			assert.Equal(t, 20*(wave+1), c.status(0).Debts, "refused ones are kept")
			c.nodes[0].DropConns()
			time.Sleep(300 * ms)
		}
		assert.ErrorIs(t, c.status(0).Err, ErrIndebted, "and not that a connection ended some time ago")
		assert.Equal(t, claims, c.nodes[0].Calls("SET"), "no new claim")
		assert.Len(t, c.nodes[0].Keys(), 60)
		assert.GreaterOrEqual(t, c.status(0).Connects, 4)

		c.nodes[0].Refuse("", "EVALSHA")
		spent := c.eventually(3*time.Second, func() bool { return c.status(0).State == Up && c.status(0).Debts == 0 }, "paid")
		assert.LessOrEqual(t, spent, 1500*ms, "R26")
		assert.Empty(t, c.nodes[0].Keys())
		for i, r := range fresh {
			require.NoError(t, c.release(background, fmt.Sprint("new", i), "t", long, r))
		}
		c.settled()
	}, withConfig(func(c *Config) { c.MaxDebts = 16 }))
}

// freeWave releases n of the locks at once, starting with from.
func (l *locks) freeWave(from, n int) []error {
	l.t.Helper()
	return l.gather(n, func(i int) error { return l.free(background, from+i) })()
}
