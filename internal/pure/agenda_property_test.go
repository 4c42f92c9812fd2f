package pure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An agenda agrees with sorting, whatever was put, moved and dropped, in any
// order.
func TestAgendaIsASortedList(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		someTime := func() time.Duration { return time.Duration(rng.IntN(31)) * ms }
		var a agenda[byTurn]
		model := make(map[*Debt]time.Duration)
		debts := make([]*Debt, 40)
		for i := range debts {
			debts[i] = &Debt{Index: i}
		}
		for range 100 {
			d := debts[rng.IntN(len(debts))]
			if rng.IntN(2) == 0 {
				at := someTime()
				a.put(d, at)
				model[d] = at
			} else {
				a.drop(d)
				delete(model, d)
			}
			requireSorted(t, &a, model, seed)
			now, most := someTime(), rng.IntN(13)
			due := 0
			for _, at := range model {
				if at <= now {
					due++
				}
			}
			require.Equal(t, min(due, most), a.count(now, most), "seed %d", seed)
		}
	}
}

// requireSorted compares an agenda with the debts and times in model.
func requireSorted(t *testing.T, a *agenda[byTurn], model map[*Debt]time.Duration, seed uint64) {
	t.Helper()
	var times []time.Duration
	for d, at := range model {
		times = append(times, at)
		require.Equal(t, at, a.entries[d.turn-1].at, "seed %d", seed)
	}
	slices.Sort(times)
	require.Len(t, a.entries, len(times), "seed %d", seed)
	for i := 1; i < len(a.entries); i++ {
		require.LessOrEqual(t, a.entries[(i-1)/2].at, a.entries[i].at, "seed %d", seed)
	}
	d, at := a.first()
	require.Equal(t, len(times) == 0, d == nil, "seed %d", seed)
	if d != nil {
		require.Equal(t, times[0], at, "seed %d", seed)
		require.Equal(t, times[0], model[d], "seed %d", seed)
	}
}
