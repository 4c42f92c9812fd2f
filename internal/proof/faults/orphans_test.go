package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What a node keeps for itself is no lock.
func TestOfNode(t *testing.T) {
	for _, name := range []string{"redlock:seal", "redlock:seal:1", "redlock:opening", "redlock:fence", "c:1:fence"} {
		assert.True(t, ofNode(prefix+name), name)
	}
	for _, name := range []string{"c:1", "u:1:2:3", "redlock", "fence"} {
		assert.False(t, ofNode(prefix+name), name)
	}
}

// A key that was there and is gone was released, if its TTL cannot have ended
// it; one that stays is an orphan.
func TestJudgeSuspects_R7_R8(t *testing.T) {
	now := time.Now()
	standing, over := suspect{"standing", now.Add(time.Millisecond)}, suspect{"over", now}
	for _, c := range []struct {
		name         string
		first, again []suspect
		orphans      []string
		unknown      bool
	}{
		{name: "nothing was there", again: []suspect{standing}},
		{name: "released", first: []suspect{standing}},
		{name: "released or expired", first: []suspect{standing, over}, unknown: true},
		{name: "an orphan", first: []suspect{standing, over}, again: []suspect{over, standing}, orphans: []string{"standing", "over"}},
		{name: "one is, another may have been", first: []suspect{standing, over}, again: []suspect{standing}, orphans: []string{"standing"}, unknown: true},
	} {
		orphans, unknown := judgeSuspects(c.first, c.again, now)
		assert.Equal(t, c.orphans, orphans, c.name)
		assert.Equal(t, c.unknown, unknown, c.name)
	}
}
