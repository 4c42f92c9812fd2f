package multiplex

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var pingAndGet = [][]byte{resp.AppendCommand(nil, "PING"), resp.AppendCommand(nil, "GET", "k")}

func TestQueryGivesEachReplyOfEachNode(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.mustClaim("k")
		time.Sleep(trip)
		got := make(map[[2]int]string)
		errs := c.group.Query(background, pingAndGet, func(node, i int, v resp.Value) error {
			got[[2]int{node, i}] = string(v.Bytes())
			return nil
		})
		assert.Equal(t, []error{nil, nil, nil}, errs)
		for node := range 3 {
			assert.Equal(t, "PONG", got[[2]int{node, 0}])
			assert.Equal(t, "t", got[[2]int{node, 1}])
		}
	})
}

func TestQueryNamesWhoDidNotAnswer(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Close()
		c.eventually(time.Second, func() bool { return c.up() == 2 }, "one node down")
		c.nodes[1].Pause()
		ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		var calls atomic.Int32
		errs := c.group.Query(ctx, pingAndGet, func(_, _ int, _ resp.Value) error {
			calls.Add(1)
			return nil
		})
		assert.ErrorIs(t, errs[0], ErrDown)
		assert.ErrorIs(t, errs[1], context.DeadlineExceeded)
		assert.NoError(t, errs[2])
		c.nodes[1].Resume()
		time.Sleep(time.Second)
		assert.EqualValues(t, len(pingAndGet), calls.Load(), "replies after the return of Query are dropped")
		assert.Equal(t, Up, c.status(1).State, "a late answer is an answer (R16)")
	})
}

func TestQueryThatFindsAnAnomalyEndsTheConnection(t *testing.T) {
	for at := range pingAndGet {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			odd := errors.New("odd")
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			var errs []error
			spent := took(func() {
				errs = c.group.Query(ctx, pingAndGet, func(node, i int, _ resp.Value) error {
					if node == 1 && i == at {
						return odd
					}
					return nil
				})
			})
			assert.Equal(t, trip, spent, "also after the last reply, when nothing is in the lane any more")
			assert.NoError(t, errs[0])
			require.ErrorIs(t, errs[1], odd)
			assert.NoError(t, errs[2])
			c.eventually(time.Second, func() bool { return c.status(1).Deaths == 1 && c.up() == 3 }, "a death and a new connection")
		})
	}
}

func TestQueryEndsWithItsConnectionsAndItsGroup(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			n.Pause()
		}
		time.AfterFunc(trip, c.nodes[0].DropConns)
		time.AfterFunc(10*time.Millisecond, func() { _ = c.group.Close(background) })
		var errs []error
		none := func(_, _ int, _ resp.Value) error { return nil }
		require.Less(t, took(func() { errs = c.group.Query(background, pingAndGet, none) }), time.Second)
		for _, err := range errs {
			assert.Error(t, err)
		}
		for _, err := range c.group.Query(background, pingAndGet, none) {
			assert.ErrorIs(t, err, ErrClosed)
		}
	})
}

func TestQueryFindsAFullLane(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		c.group.mu.Lock()
		for c.group.nodes[0].lane.room() > 1 {
			c.group.nodes[0].lane.add(laneEntry{purpose: probe}, ping)
		}
		c.group.mu.Unlock()
		errs := c.group.Query(background, pingAndGet, func(_, _ int, _ resp.Value) error { return nil })
		assert.ErrorIs(t, errs[0], ErrOverloaded, "half of it would be no use")
	})
}
