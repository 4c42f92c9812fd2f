package queue

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

type item struct{ at, order int }

func (i item) Before(other item) bool {
	return i.at < other.at || i.at == other.at && i.order < other.order
}

func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var q Queue[item]
	for i := range 500 {
		q.Push(item{random.IntN(50), i})
	}
	last := item{at: -1}
	for n := 500; n > 0; n-- {
		require.Len(t, q, n)
		e := q.Pop()
		require.True(t, last.Before(e))
		last = e
	}
	require.Empty(t, q)
}
