package multiplex

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
)

// How long a silent node is waited for (R26): the plain age if others are ahead
// of it, five times that if none is, since a machine on which every server is
// late is starved.
func TestShedAge(t *testing.T) {
	const plain = 4 * longTimeout
	for name, c := range map[string]struct {
		silent   []int
		config   time.Duration
		earliest time.Duration
	}{
		"one of three":                {[]int{2}, 0, plain},
		"all of three":                {[]int{0, 1, 2}, 0, 5 * plain},
		"all, with an age configured": {[]int{0, 1, 2}, 300 * ms, 300 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, k *cluster) {
				for _, i := range c.silent {
					k.nodes[i].Pause()
				}
				begun := time.Now()
				_, _ = k.claim(background, "k", "t", long)
				k.eventually(10*time.Second, func() bool { return k.status(c.silent[0]).Sheds > 0 }, "shed")
				age := time.Since(begun)
				assert.GreaterOrEqual(t, age, c.earliest)
				assert.LessOrEqual(t, age, c.earliest+20*ms)
				for _, i := range c.silent {
					k.nodes[i].Resume()
				}
			}, withConfig(func(config *Config) { config.ShedAfter = c.config }))
		})
	}
}

// A node that fell far behind at full load is given up long before the log is
// full: its queue, and then its debts, cost memory (R26). A node that is only
// distant is not, however much is in flight to it.
func TestCostlyLagIsShed_R26(t *testing.T) {
	const callers = 512
	for name, c := range map[string]struct {
		stall func(*redistest.Node, *redistest.Link)
		away  time.Duration // of the node, each way, from the start
		shed  bool
	}{
		"silent":   {stall: func(n *redistest.Node, _ *redistest.Link) { n.Pause() }, shed: true},
		"dripping": {stall: func(_ *redistest.Node, l *redistest.Link) { l.Drip(redistest.Down, ms/10) }, shed: true},
		"far away": {stall: func(*redistest.Node, *redistest.Link) {}, away: 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, k *cluster) {
				node, link := k.nodes[2], k.network.At(k.nodes[2].Addr())
				link.Latency(max(oneWay, c.away), max(oneWay, c.away))
				k.mustClaim("first")
				k.eventually(time.Second, func() bool { return k.status(2).ReplyTime >= 2*c.away }, "its reply time is known")
				c.stall(node, link)
				lag := k.load(callers, 60) // 120 ms
				t.Logf("a lag of at most %d; %d debts", lag, k.status(2).Debts)
				// If it is given up exactly when the last callers came, they
				// need not have been seen here.
				assert.GreaterOrEqual(t, lag, pure.LagCostly-callers, "else nothing is tested")
				assert.Equal(t, c.shed, k.status(2).Sheds > 0)
				if c.shed {
					// Plus what comes between two looks, or before it is
					// overdue.
					assert.LessOrEqual(t, lag, pure.LagCostly+callers*int((pure.OverdueLeast+tickMost)/trip))
				}
				node.Resume()
				link.Drip(redistest.Down, 0)
			}, withConfig(func(config *Config) { config.ShedAfter, config.VoteTimeout = time.Minute, time.Second }))
		})
	}
}

// load lets a number of callers claim keys one after the other, and returns by
// how many rounds at most the last node was behind the first.
func (c *cluster) load(callers, each int) (most int) {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range each {
				_, _ = c.claim(background, fmt.Sprint("load:", i, ":", j), "t", long)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return most
		case <-time.After(ms / 2):
		}
		c.group.mu.Lock()
		if last := c.group.nodes[len(c.nodes)-1]; last.inLog.attached {
			most = max(most, int(c.group.fastestLocked()-last.answered.Load()))
		}
		c.group.mu.Unlock()
	}
}
