package history

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Events come out in order of time, and those of one time as they were pushed.
func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var q Queue
	for i := range 500 {
		q.Push(Event{T: int64(random.IntN(50)), Attempt: uint64(i)})
	}
	last := Event{T: -1}
	for until := range int64(51) {
		for e := range q.Before(until) {
			require.Less(t, e.T, until)
			require.True(t, last.T < e.T || last.T == e.T && last.Attempt < e.Attempt)
			last = e
		}
		for range q.Before(until) {
			t.Fatal("one was left")
		}
	}
	require.Zero(t, q.Len())
}
