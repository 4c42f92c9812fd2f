package multiplex

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The ring grows without moving what a reader may be looking at, and each
// position keeps its round.
func TestRingGrows(t *testing.T) {
	g := &Group{config: new(Config), size: 1, quorum: 1}
	g.log.init()
	var rounds []*round
	push := func() {
		r := g.log.take(g)
		r.begin(claimKind.verb(), 0, long, Receipt{}, 1)
		g.log.push(r, []byte("x"))
		rounds = append(rounds, r)
	}
	for range firstRing / 2 {
		push()
	}
	g.log.trim(firstRing / 2) // the ring wraps from here
	kept := len(rounds)
	for range 3 * firstRing {
		push()
	}
	old := g.log.ring.Load()
	require.Equal(t, 3*firstRing, g.log.waiting())
	require.Len(t, old.slots, 4*firstRing)
	for pos := g.log.tail; pos < g.log.head; pos++ {
		require.Same(t, rounds[kept+int(pos)-firstRing/2], old.at(pos))
	}
	require.Len(t, g.log.buf, firstRing/2+3*firstRing)
	g.log.trim(g.log.head)
	require.Zero(t, g.log.live)
	require.Equal(t, g.log.head, g.log.oldest)
}

func TestBatchesAreRecycled(t *testing.T) {
	var l broadcast
	l.buf = append(l.buf, "one"...)
	first := l.swap()
	require.Equal(t, "one", string(first))
	l.buf = append(l.buf, "two"...)
	l.recycle(first)
	second := l.swap()
	require.Equal(t, "two", string(second))
	l.buf = append(l.buf, "!!!"...)
	require.Equal(t, "!!!", string(first[:3]), "the room of the batch before is used")
	require.Equal(t, "two", string(second))

	l.recycle(make([]byte, 0, keepBatch+1))
	require.Nil(t, l.spare, "R26: a huge batch is not kept")
}
