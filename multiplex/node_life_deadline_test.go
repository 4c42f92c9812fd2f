package multiplex

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R12: a caller uses errors.Is to ask whether its own context ended. Nodes
// whose dials, fences and payments hang have deadlines of ours. None of them
// may match, although each node's own cause is reported.
func TestNodesDeadlinesAreNotTheCallers_R12(t *testing.T) {
	short := withConfig(func(c *Config) {
		for i := range c.Nodes {
			c.Nodes[i].Endpoint.DialTimeout = 50 * ms
		}
	})
	t.Run("dial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3, short, func(c *cluster) { c.nodes[0].Pause(); c.nodes[1].Pause() })
			c.waitUp(1)
			time.Sleep(time.Second)
			_, err := c.claim(background, "k", "t", long)
			assert.Equal(t, []int{0, 1}, undecided(t, err))
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "why is told all the same")
		})
	})
	for name, hangs := range map[string]string{"fence": "CLIENT", "payment": "EVALSHA"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, short)
				c.waitUp(3)
				receipt := c.mustClaim("k")
				c.nodes[0].Pause()
				c.nodes[1].Pause()
				_ = c.release(background, "k", "t", long, receipt)
				c.eventually(2*time.Second, func() bool { return c.up() == 1 }, "shed")
				for _, n := range c.nodes[:2] {
					n.Handle(func(_ int, args []string) ([]byte, bool) {
						return nil, args[0] == hangs && (hangs != "CLIENT" || args[1] == "KILL")
					})
					n.Resume()
				}
				time.Sleep(time.Second)
				_, err := c.claim(background, "other", "t", long)
				require.Equal(t, []int{0, 1}, undecided(t, err))
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, ErrSilent)
			})
		})
	}
}
