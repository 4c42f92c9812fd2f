package multiplex

import (
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
