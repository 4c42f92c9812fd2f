package multiplex

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every test of Close relies on synctest to find a goroutine that stayed, and
// on closed to find a connection (R28).
func (c *cluster) closed() {
	c.t.Helper()
	time.Sleep(20 * ms)
	synctest.Wait()
	for i, link := range c.links {
		assert.Zero(c.t, link.Conns(), "connections to node %d", i)
		assert.Equal(c.t, Stopped, c.status(i).State)
	}
	assert.NoError(c.t, c.group.flusher.balanced())
	_, err := c.claim(background, "k", "t", long)
	assert.Equal(c.t, ErrClosed, err)
	assert.Equal(c.t, ErrClosed, c.release(background, "k", "t", long, Receipt{}))
	c.group.Tell(releaseKind, &Command{Encoded: raw(releaseCommand("k", "t")), TTL: long})
	assert.ErrorIs(c.t, c.group.waitUntil(background, func() bool { return false }), ErrClosed)
}

func TestCloseIdle(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		c.mustClaim("held")
		time.Sleep(trip)
		assert.Less(t, took(func() { assert.NoError(t, c.group.Close(background)) }), ms)
		c.closed()
		assert.Len(t, c.keys(), 5, "held locks stay (R28)")
	})
}

// After Refuse, a caller can release many locks before Close without new work
// arriving; Close then still does all of its work.
func TestRefuse_R28(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		c.group.Refuse()
		_, err := c.claim(background, "k2", "t", long)
		assert.Equal(t, ErrClosed, err)
		assert.Equal(t, ErrClosed, c.extend(background, "k", "t", long))
		assert.NoError(t, c.release(background, "k", "t", long, receipt))
		assert.NoError(t, c.group.Close(background))
		c.closed()
		assert.Empty(t, c.keys())
	})
}

// Close in every state of a node's life, and before the first of them.
func TestCloseInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		require.NoError(t, c.group.Close(background))
		c.closed()
	})
	states := map[State]func(c *cluster){
		Dialing: func(c *cluster) {
			c.links[0].HoldDials(true)
			c.nodes[0].DropConns()
		},
		Down: func(c *cluster) { c.links[0].Refuse(true); c.nodes[0].DropConns() },
		Fencing: func(c *cluster) {
			c.nodes[0].Delay("CLIENT KILL", time.Hour)
			c.lateSet(0, "k", time.Hour)
		},
		Paying: func(c *cluster) {
			receipt := c.mustClaim("k")
			time.Sleep(trip)
			c.unreachable(0)
			c.nodes[0].Delay("EVALSHA", time.Hour)
			assert.NoError(c.t, c.release(background, "k", "t", long, receipt))
			c.links[0].Refuse(false)
		},
	}
	for state, arrange := range states {
		subBubble(t, state.String(), 3, func(t *testing.T, c *cluster) {
			arrange(c)
			c.eventually(5*time.Second, func() bool { return c.status(0).State == state }, state.String())
			assert.LessOrEqual(t, took(func() { assert.NoError(t, c.group.Close(background)) }), longTimeout)
			c.links[0].HoldDials(false)
			c.nodes[0].Restart() // ends its delays
			c.closed()
		})
	}
}

// R28: waiters fail with ErrClosed, and what they claimed is undone before
// Close returns: no key without a holder is left.
func TestCloseUnderLoad(t *testing.T) {
	for at := range 12 {
		t.Run(fmt.Sprintf("at=%dms/4", at), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				var wg sync.WaitGroup
				var mu sync.Mutex
				held := make(map[string]bool)
				for i := range 50 {
					wg.Go(func() {
						for j := 0; ; j++ {
							key := fmt.Sprint(i, "-", j)
							receipt, err := c.claim(background, key, "t", long)
							if err == ErrClosed {
								return
							}
							if !assert.NoError(t, err) {
								return
							}
							mu.Lock()
							held[key] = true
							mu.Unlock()
							if err := c.release(background, key, "t", long, receipt); err == ErrClosed {
								return // the release may have been too late: then the key may still be held
							}
							mu.Lock()
							delete(held, key)
							mu.Unlock()
						}
					})
				}
				time.Sleep(20*ms + time.Duration(at)*ms/4)
				assert.LessOrEqual(t, took(func() { assert.NoError(t, c.group.Close(background)) }), longTimeout)
				wg.Wait()
				c.closed()
				for _, key := range c.keys() {
					assert.True(t, held[key], "%s has no holder", key)
				}
			}, merging(at%2 == 1))
		})
	}
}

// R28: Close waits for the answers to releases up to the vote timeout, and for
// silent nodes no longer than that.
func TestCloseWithSilentNodes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		pause(c.nodes)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := c.claim(background, "other", "t", long)
			assert.Equal(t, ErrClosed, err)
		})
		time.Sleep(ms)
		wg.Go(func() {
			err := c.release(background, "k", "t", long, receipt)
			assert.True(t, errors.Is(err, ErrUndecided) || err == ErrClosed, "%v", err)
		})
		synctest.Wait()
		spent := took(func() { assert.NoError(t, c.group.Close(background)) })
		assert.LessOrEqual(t, spent, longTimeout)
		assert.GreaterOrEqual(t, spent, longTimeout-2*ms)
		wg.Wait()
		resume(c.nodes)
		c.closed()
		assert.Empty(t, c.keys(), "what was queued was written: the release, and the undo of the other")
	})
}

// R28: a release in flight when Close is called gets its nodes' answer, if that
// comes within the vote timeout.
func TestCloseLetsReleasesComeToTheirEnd_R28(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		latency(c.links, 10*ms, 10*ms)
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, c.release(background, "k", "t", long, receipt)) })
		time.Sleep(5 * ms)
		assert.NoError(t, c.group.Close(background))
		wg.Wait()
		c.closed()
		assert.Empty(t, c.keys())
	})
}

// The context cuts short only what a configured vote timeout allows beyond the
// usual time.
func TestCloseIsCutShort(t *testing.T) {
	table := []struct{ timeout, limit, spent time.Duration }{
		{0, 0, longTimeout},
		{0, 10 * ms, longTimeout},
		{10 * ms, 0, 10 * ms},
		{time.Second, 0, longTimeout},
		{time.Second, 200 * ms, 200 * ms},
	}
	for _, tt := range table {
		subBubble(t, fmt.Sprint(tt.timeout, "/", tt.limit), 3, func(t *testing.T, c *cluster) {
			c.nodes[0].Pause()
			c.mustClaim("k")
			ctx := brief(t, tt.limit)
			spent := took(func() {
				if err := c.group.Close(ctx); tt.timeout > longTimeout {
					assert.Equal(t, context.DeadlineExceeded, err)
				}
			})
			assert.InDelta(t, tt.spent, spent, float64(ms))
			c.nodes[0].Resume()
			c.closed()
		}, withConfig(func(c *Config) { c.VoteTimeout = tt.timeout }))
	}
}

// A context that has ended already (signal.NotifyContext and "defer
// client.Close(ctx)") does not keep attempts in flight from queueing their
// undo, and does not cut short the wait for the answers.
func TestCloseWithAnEndedContext_R7_R28(t *testing.T) {
	for _, latency := range []time.Duration{ms, 10 * ms, 100 * ms} {
		subBubble(t, latency.String(), 3, func(t *testing.T, c *cluster) {
			for i, link := range c.links {
				link.Latency(latency, latency)
				c.group.nodes[i].replyTime.Store(int64(2 * latency))
			}
			ctx, cancel := context.WithCancel(background)
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					_, err := c.claim(ctx, fmt.Sprint("k", i), "t", long)
					assert.True(t, err == context.Canceled || err == ErrClosed, "%v", err)
				})
			}
			time.Sleep(latency / 2)
			cancel()
			spent := took(func() { assert.NoError(t, c.group.Close(ctx)) })
			assert.Less(t, spent, 2*latency+5*ms, "the answers are awaited, and nothing else is")
			wg.Wait()
			time.Sleep(latency) // until the end of the connections arrives
			c.closed()
			assert.Empty(t, c.keys())
		})
	}
}

// Close waits for a release that waits for its script.
func TestCloseInTheMiddleOfACure(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		c.flushScripts()
		c.group.Tell(releaseKind, &Command{Encoded: raw(releaseCommand("k", "t")), TTL: long, Receipt: receipt})
		var wg sync.WaitGroup
		wg.Go(func() { assert.Equal(t, ErrClosed, c.extend(background, "k", "t", long)) })
		time.Sleep(trip + ms)
		assert.Less(t, took(func() { assert.NoError(t, c.group.Close(background)) }), 2*trip)
		wg.Wait()
		c.closed()
		assert.Empty(t, c.keys())
	})
}

func TestCloseTwiceAndConcurrently(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Pause()
		c.mustClaim("k")
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				assert.NoError(t, c.group.Close(background))
				for _, n := range c.group.Nodes() {
					assert.Equal(t, Stopped, n.State, "each call returns when all is over")
				}
			})
		}
		wg.Wait()
		assert.Zero(t, took(func() { assert.NoError(t, c.group.Close(background)) }))
		c.nodes[0].Resume()
		c.closed()
	})
}

// Close waits longer than the vote timeout for a caller that has yet to queue
// the undo of its claim, even if its context has ended (R7, R28): for one that
// the nodes refused, and for one that undoes what they granted.
func TestCloseWaitsForCallersThatHaveToUndo(t *testing.T) {
	ended, cancel := context.WithCancel(background)
	cancel()
	release := raw(releaseCommand("k", "t"))
	callers := map[string]func(c *cluster){
		"refused": func(c *cluster) {
			c.nodes[0].DB().Set("k", "stranger", time.Hour)
			c.nodes[1].DB().Set("k", "stranger", time.Hour)
			_, err := c.group.Claim(background, claimKind, &Claim{
				Bytes: setCommand("k", "t", long), TTL: long,
				Undo: func(dst []byte) Encoded {
					time.Sleep(6 * longTimeout) // this goroutine is not scheduled
					return undoing(release)(dst)
				},
			})
			assert.Equal(c.t, ErrRefused, err)
		},
		"granted": func(c *cluster) {
			c.group.DelayClose(1)
			defer c.group.DelayClose(-1)
			receipt, err := c.group.Claim(background, claimKind, &Claim{Bytes: setCommand("k", "t", long), TTL: long})
			assert.NoError(c.t, err)
			time.Sleep(6 * longTimeout)
			c.group.Tell(releaseKind, &Command{Encoded: release, TTL: long, Receipt: receipt})
		},
	}
	for name, claim := range callers {
		for _, ctx := range []context.Context{background, ended} {
			subBubble(t, fmt.Sprint(name, ", ", ctx.Err()), 3, func(t *testing.T, c *cluster) {
				go claim(c)
				time.Sleep(longTimeout)
				spent := took(func() { assert.NoError(t, c.group.Close(ctx)) })
				assert.GreaterOrEqual(t, spent, 5*longTimeout)
				assert.LessOrEqual(t, spent, 5*longTimeout+20*ms)
				c.closed()
				assert.Empty(t, c.nodes[2].Keys())
			})
		}
	}
}

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
