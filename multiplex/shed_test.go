package multiplex

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// How long a silent node is waited for (R26): the plain age where others are ahead of it, five times that where none is,
// since a machine on which every server is late is starved.
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
