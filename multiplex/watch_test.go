package multiplex

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestVoteTimeout(t *testing.T) {
	table := []struct {
		name                            string
		configured, ttl, reply, timeout time.Duration
	}{
		{"TTL/200", 0, 4 * time.Second, 0, 20 * ms},
		{"at least 5 ms", 0, 200 * ms, 0, 5 * ms},
		{"at most 50 ms", 0, time.Hour, 0, 50 * ms},
		{"4 × the reply time, if that is larger", 0, 10 * time.Second, 30 * ms, 120 * ms},
		{"not if it is smaller", 0, 10 * time.Second, 12 * ms, 50 * ms},
		{"at most TTL/10", 0, 2 * time.Second, 100 * ms, 200 * ms},
		{"TTL/10 is less than 5 ms", 0, 20 * ms, 0, 2 * ms},
		{"TTL/10 beats a slow node", 0, 20 * ms, time.Second, 2 * ms},
		{"configured", 7 * ms, time.Hour, time.Second, 7 * ms},
		{"configured, above TTL/10", time.Second, 20 * ms, 0, time.Second},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.timeout, voteTimeout(c.configured, c.ttl, c.reply), "R6")
		})
	}
}
