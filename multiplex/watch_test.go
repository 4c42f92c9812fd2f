package multiplex

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// starve makes the next look of the watch late, as it is in a process that gets
// no CPU.
func (c *cluster) starve() {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.group.watcher.at.Add(-int64(5 * ms))
}

// A client that gets no CPU waits for the votes on which its outcome hinges,
// until they are there, or their nodes are shed, or a tenth of the TTL is over
// (R6). Otherwise it does not, so a lone dead node costs as little as ever.
func TestStarvedClientWaits_R6(t *testing.T) {
	const late = 100 * ms
	const silent = time.Minute
	table := []struct {
		name    string
		away    []time.Duration // how late each node is
		starved bool
		ttl     time.Duration
		took    time.Duration
		err     error // nil: granted
	}{
		{"late", []time.Duration{0, 0, late, late, late}, true, long, late, nil},
		{"all late", []time.Duration{late, late, late, late, late}, true, long, late, nil},
		{"late, and it had CPU", []time.Duration{0, 0, late, late, late}, false, long, longTimeout, ErrTimeout},
		{"three are silent", []time.Duration{0, 0, silent, silent, silent}, true, long, longShed, ErrSilent},
		{"all are silent", []time.Duration{silent, silent, silent}, true, time.Second, 100 * ms, ErrTimeout},
		{"two refuse, one is silent", []time.Duration{0, 0, 0, 0, silent}, true, long, longTimeout, ErrRefused},
	}
	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, len(tt.away), func(t *testing.T, c *cluster) {
				if tt.err == ErrRefused {
					for _, node := range c.nodes[:2] {
						node.Handle(func(_ int, args []string) ([]byte, bool) {
							return []byte("_\r\n"), args[0] == "SET" // another holds it
						})
					}
				}
				for i, away := range tt.away {
					c.links[i].Latency(oneWay, oneWay+away)
				}
				if tt.starved {
					time.AfterFunc(trip+ms, c.starve)
				}
				var err error
				spent := took(func() { _, err = c.claim(background, "k", "t", tt.ttl) })
				require.ErrorIs(t, err, tt.err)
				assert.InDelta(t, tt.took, spent, float64(tickMost+trip))
			})
		})
	}
}

// What was before a command was queued excuses nothing, and a configured
// timeout is used as it is (R6).
func TestStarvedClientDoesNotWait_R6(t *testing.T) {
	for configured, want := range map[time.Duration]time.Duration{0: longTimeout, 20 * ms: 20 * ms} {
		t.Run(fmt.Sprint("configured=", configured), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				c.mustClaim("before")
				c.starve()
				time.Sleep(time.Minute)
				for _, l := range c.links {
					l.Latency(oneWay, time.Minute)
				}
				if configured > 0 {
					time.AfterFunc(ms, c.starve)
				}
				var err error
				spent := took(func() { _, err = c.claim(background, "k", "t", long) })
				require.ErrorIs(t, err, ErrTimeout)
				assert.InDelta(t, want, spent, float64(tickMost))
			}, withConfig(func(config *Config) { config.VoteTimeout = configured }))
		})
	}
}

// A call whose nodes are silent returns when its context's deadline is over,
// and not at the next regular look.
func TestACallEndsWithItsDeadline_R5(t *testing.T) {
	for _, after := range []time.Duration{300 * time.Microsecond, 700 * time.Microsecond, 2200 * time.Microsecond, 7900 * time.Microsecond, 13100 * time.Microsecond, 40300 * time.Microsecond} {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			for _, l := range c.links {
				l.Latency(time.Minute, 0)
			}
			ctx, cancel := context.WithTimeout(background, after)
			defer cancel()
			var err error
			spent := took(func() { _, err = c.claim(ctx, "k", "t", long) })
			require.ErrorIs(t, err, context.DeadlineExceeded, after)
			require.GreaterOrEqual(t, spent, after)
			require.Less(t, spent-after, ms, after)
		})
	}
}

// A release that is sent after its context's deadline waits for the answers for
// as long as one whose context was cancelled.
func TestAReleaseAfterItsDeadlineMayBeAnswered_R9(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		receipt := c.mustClaim("k")
		ctx, cancel := context.WithTimeout(background, 10*ms)
		defer cancel()
		time.Sleep(10*ms + trip) // and nothing is unanswered
		require.NoError(t, c.release(ctx, "k", "t", long, receipt))
	})
}
