package multiplex

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLaneKeepsItsOrder(t *testing.T) {
	var l lane
	require.True(t, l.idle())
	assert.EqualValues(t, uint64(noLane), l.front())

	require.True(t, l.add(laneEntry{purpose: load}, []byte("a")))
	require.True(t, l.add(laneEntry{purpose: again}, []byte("b"), []byte("c")))
	assert.EqualValues(t, uint64(noLane), l.front(), "nothing is awaited before it is written")
	assert.Equal(t, "abc", string(l.handOut(7)))
	assert.Nil(t, l.handOut(8), "nothing is written twice")
	assert.EqualValues(t, 7, l.front())

	require.True(t, l.add(laneEntry{purpose: probe}, []byte("d")))
	assert.Equal(t, "d", string(l.handOut(9)))
	for _, want := range []struct {
		purpose purpose
		pos     uint64
	}{{load, 7}, {again, 7}, {probe, 9}} {
		assert.Equal(t, want.pos, l.front())
		e := l.pop()
		assert.Equal(t, want.purpose, e.purpose)
		assert.Equal(t, want.pos, e.pos)
	}
	assert.True(t, l.idle())
}

func TestLaneIsBounded(t *testing.T) {
	var l lane
	for i := range maxLane {
		require.True(t, l.add(laneEntry{}, []byte("x")))
		if i == maxLane/2 {
			l.handOut(1) // what was written still counts
		}
	}
	require.False(t, l.add(laneEntry{}, []byte("x")), "R26")
	require.Len(t, l.buf, maxLane-maxLane/2-1)
	require.Len(t, l.empty(), maxLane)
	require.True(t, l.idle())
}

func TestLaneKnowsWhetherScriptsAreOnTheirWay(t *testing.T) {
	var l lane
	require.False(t, l.loading())
	l.add(laneEntry{purpose: load}, nil)
	require.True(t, l.loading())
	l.handOut(1)
	// A load that was written may have been executed before the scripts were
	// lost, so it does not count.
	require.False(t, l.loading())
}
