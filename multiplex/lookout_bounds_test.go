package multiplex

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	invalidation = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
	flushPush    = ">2\r\n$10\r\ninvalidate\r\n_\r\n"
)

// lookingOut makes every node track a key, by one question each.
func lookingOut(t *testing.T, c *cluster) {
	c.set("k")
	l := c.lookout("k")
	t.Cleanup(l.Stop)
	require.True(t, l.Ask())
	c.arrive()
}

// A node may push as much as its questions can cause, and a server may push
// twice. More than that ends its connection, and no other (R32).
func TestMoreInvalidationsThanWereAskedFor_R32(t *testing.T) {
	for pushes, deaths := range map[int]int{pushesPerQuestion: 0, pushesPerQuestion + 1: 1} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			lookingOut(t, c)
			c.nodes[0].Push(strings.Repeat(invalidation, pushes))
			c.arrive()
			require.Equal(t, deaths, c.status(0).Deaths, "%d pushes", pushes)
			require.Zero(t, c.status(1).Deaths+c.status(2).Deaths)
		})
	}
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lookingOut(t, c)
		c.nodes[0].Push(">2\r\n$10\r\ninvalidate\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n")
		c.arrive()
		require.Equal(t, uint64(1), c.status(0).Counts.Deaths["unexpected"], "each key counts")
	})
}

// Each FLUSHALL pushes a null, as often as another client flushes; but there is
// a limit (R32).
func TestFlushesAreBounded_R32(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lookingOut(t, c)
		for range 3 {
			c.nodes[0].Push(strings.Repeat(flushPush, flushesPerSecond))
			time.Sleep(time.Second)
		}
		require.Zero(t, c.status(0).Deaths, "a thousand a second")
		c.nodes[0].Push(strings.Repeat(flushPush, flushesPerSecond+100))
		c.arrive()
		require.Equal(t, uint64(1), c.status(0).Counts.Deaths["unexpected"])
	})
}

// After a flush, a lookout that asks again hears of the next one.
func TestEachFlushIsToldAfterAQuestion(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lookout("k")
		defer l.Stop()
		for range 3 {
			c.set("k")
			require.True(t, l.Ask())
			c.arrive()
			require.False(t, told(l))
			for _, n := range c.nodes {
				n.Push(flushPush + flushPush)
			}
			c.arrive()
			require.True(t, told(l))
		}
	})
}

// A reply that is larger than any requested one ends the connection before it
// is complete (R32). One that fits does not.
func TestRepliesAreBounded_R32(t *testing.T) {
	for reply, deaths := range map[string]int{
		"-ERR " + strings.Repeat("x", 4000) + "\r\n": 0,
		"-ERR " + strings.Repeat("x", 4096) + "\r\n": 1,
		"*65\r\n":                        1,
		"*1000000\r\n":                   1,
		"$5000\r\n":                      1,
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n": 1,
	} {
		t.Run(fmt.Sprintf("%.12q and %d bytes", reply, len(reply)), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte(reply), args[0] == "SET" })
				_, err := c.claim(background, "k", "t", long)
				require.NoError(t, err, "two of three")
				c.arrive()
				require.Equal(t, uint64(deaths), c.status(0).Counts.Deaths["protocol"])
			})
		})
	}
}
