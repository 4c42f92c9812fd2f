package multiplex

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// losing makes aborted connections lose data in flight, as a kernel discards
// what it has not sent.
func losing(c *cluster) {
	for _, link := range c.links {
		link.AbortsLose(true)
	}
}

// Close ends connections so that what was written still arrives, although no
// caller waits for the answers any more. The release of an attempt that was
// cancelled just before is part of it (R7, R28). An abort would discard it.
func TestCloseLosesNothingThatWasWritten_R28(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, link := range c.links {
			link.Latency(2*longTimeout, oneWay) // longer than Close waits
		}
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(10*ms, cancel)
		_, err := c.claim(ctx, "k", "t", long)
		require.Equal(t, context.Canceled, err)
		require.LessOrEqual(t, took(func() { assert.NoError(t, c.group.Close(background)) }), longTimeout)
		for _, n := range c.nodes {
			require.Empty(t, n.Keys(), "the claim is still under way")
		}
		time.Sleep(3 * longTimeout)
		c.closed()
		for _, n := range c.nodes {
			assert.Equal(t, 1, n.Calls("SET"))
			assert.Equal(t, 1, n.Calls("EVALSHA"))
		}
		assert.Empty(t, c.keys())
	}, losing)
}
