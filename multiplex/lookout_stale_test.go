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
