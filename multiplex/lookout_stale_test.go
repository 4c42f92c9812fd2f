package multiplex

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A signal that was not taken before the next Ask belongs to the previous
// question. If Ask left it, the caller would take it for an answer, and the
// next signal would find no room: the goroutine that reads the node would wait
// for room under the tracker's mutex, and the client with it, forever.
func TestAskForgetsASignalThatWasNotTaken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lookout("k")
		defer l.Stop()
		for range 3 {
			require.True(t, l.Ask())
			assert.False(t, told(l), "no node has answered yet") // this also makes room
			c.arrive()
			assert.Len(t, l.Signal(), 1, "the key is free, and the signal stays where it is")
			l.Rest() // as a caller does that was woken otherwise meanwhile
		}
	})
}

// A node that has refused to push, but has yet to answer the question, is not
// asked again by the next Ask, which must not forget the refusal: the answer
// alone would count, and the lookout would wait for pushes that never come.
func TestAskRemembersWhoWillNotPush(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.set("k")
		for _, n := range c.nodes[:2] {
			n.Refuse("-NOPERM no", "CLIENT CACHING")
			n.Handle(func(_ int, args []string) ([]byte, bool) { return nil, args[0] == "PTTL" })
		}
		l := c.lookout("k")
		defer l.Stop()
		require.True(t, l.Ask())
		c.arrive()
		require.True(t, l.Ask(), "their answers are on their way")
		for _, n := range c.nodes[:2] {
			n.Push(":60000\r\n")
		}
		c.arrive()
		require.True(t, told(l), "too few will push")
		require.Zero(t, c.status(0).Deaths)
	})
}
