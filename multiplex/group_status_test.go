package multiplex

import (
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/assert"
)

// The status of a node that is up says whether it counts; that of another says
// whether it will count when it joins.
func TestTrustInAStatus(t *testing.T) {
	state := pure.Trust{Need: 2 * time.Second}.Meet("a", 0)
	for _, c := range []struct {
		state       State
		at, left    time.Duration
		quarantined bool
	}{
		{Up, time.Second, time.Second, true},
		{Up, 3 * time.Second, 0, true}, // until the watch has looked
		{Down, time.Second, time.Second, true},
		{Down, 3 * time.Second, 0, false},
	} {
		s := Status{State: c.state}
		n := &node{group: &Group{config: new(Config)}, trust: nodeTrust{Trust: state}}
		n.group.quarantine.deployment = pure.NewDeployment([]string{"a"})
		n.tellTrustLocked(&s, c.at)
		assert.Equal(t, c.quarantined, s.Quarantined)
		assert.Equal(t, c.left, s.QuarantineLeft)
	}
	s := Status{}
	n := &node{group: &Group{config: new(Config)}}
	n.group.quarantine.deployment = pure.NewDeployment([]string{"a"})
	n.tellTrustLocked(&s, 0)
	assert.False(t, s.Quarantined, "R23 is off")
}
