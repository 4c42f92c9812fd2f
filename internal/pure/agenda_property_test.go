package pure

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An agenda is what sorting says, whatever was put, moved and dropped in
// whatever order.
func TestAgendaIsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda[byTurn]
		model := make(map[*Debt]time.Duration)
		debts := make([]*Debt, 40)
		for i := range debts {
			debts[i] = &Debt{Index: i}
		}
		someDebt := rapid.SampledFrom(debts)
		someTime := rapid.Map(rapid.IntRange(0, 30), func(n int) time.Duration { return time.Duration(n) * ms })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				d, at := someDebt.Draw(t, "debt"), someTime.Draw(t, "at")
				a.put(d, at)
				model[d] = at
			},
			"drop": func(t *rapid.T) {
				d := someDebt.Draw(t, "debt")
				a.drop(d)
				delete(model, d)
			},
			"": func(t *rapid.T) {
				var times []time.Duration
				for d, at := range model {
					times = append(times, at)
					require.Equal(t, at, a.entries[d.turn-1].at)
				}
				slices.Sort(times)
				require.Len(t, a.entries, len(times))
				for i := 1; i < len(a.entries); i++ {
					require.LessOrEqual(t, a.entries[(i-1)/2].at, a.entries[i].at)
				}
				d, at := a.first()
				require.Equal(t, len(times) == 0, d == nil)
				if d != nil {
					require.Equal(t, times[0], at)
					require.Equal(t, times[0], model[d])
				}
				now, most := someTime.Draw(t, "now"), rapid.IntRange(0, 12).Draw(t, "most")
				due := 0
				for due < len(times) && times[due] <= now {
					due++
				}
				require.Equal(t, min(due, most), a.count(now, most))
			},
		})
	})
}
