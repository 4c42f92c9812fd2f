package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The pauses between looks at the seal of a node that joins at 0: 100 ms,
// doubling to a second, and 5 s once it is trusted (R23).
func TestLooks_R23(t *testing.T) {
	l, now := FirstLooks(0), time.Duration(0)
	pause := func(trusted bool) time.Duration {
		before := now
		now = l.Next
		l.Plan(trusted, now)
		return now - before
	}
	for _, want := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second} {
		assert.Equal(t, want, pause(false))
	}
	pause(true)
	assert.Equal(t, 5*time.Second, pause(true))
	assert.Equal(t, 5*time.Second, pause(false))
	assert.Equal(t, time.Second, pause(false), "it is quarantined again")
	l.Hasten(now)
	assert.Equal(t, 100*ms, pause(false))
}
