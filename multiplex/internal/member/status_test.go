package member

import (
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/assert"
)

// The status of a node that is up says whether it counts; that of another says
// whether it will count when it joins.
func TestTrustInAStatus(t *testing.T) {
	one := Config{Nodes: []Address{{Addr: "a"}}}
	m := New(one, nil)
	m.nodes[0].trust = pure.Trust{Need: 2 * time.Second}.Meet("a", 0)
	for _, c := range []struct {
		up          bool
		at, left    time.Duration
		quarantined bool
	}{
		{true, time.Second, time.Second, true},
		{true, 3 * time.Second, 0, true}, // until the watch has looked
		{false, time.Second, time.Second, true},
		{false, 3 * time.Second, 0, false},
	} {
		s := m.Status(0, c.up, c.at)
		assert.Equal(t, c.quarantined, s.Quarantined)
		assert.Equal(t, c.left, s.Left)
	}
	assert.False(t, New(one, nil).Status(0, false, 0).Quarantined, "R23 is off")
}
