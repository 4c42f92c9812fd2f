package report

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// The most samples of a run in a chart, and in the table below it. More than a
// screen has pixels, or than a person reads, only make the page slow.
const (
	mostPoints = 2000
	mostRows   = 60
)

// thin merges neighbors until at most that many samples are left. Counts add
// up; of latencies and reply times the largest stays, so that no spike is lost
// and no figure looks better than it was.
func thin(all []Sample, most int) []Sample {
	if len(all) <= most {
		return all
	}
	per := (len(all) + most - 1) / most
	var thinned []Sample
	for chunk := range slices.Chunk(all, per) {
		thinned = append(thinned, merge(chunk))
	}
	return thinned
}

// merge combines consecutive samples.
func merge(all []Sample) Sample {
	sum := Sample{At: all[len(all)-1].At, Outcomes: map[string]int64{}}
	for _, s := range all {
		sum.Length += s.Length
		sum.Pairs += s.Pairs
		sum.P50, sum.P99, sum.Max = max(sum.P50, s.P50), max(sum.P99, s.P99), max(sum.Max, s.Max)
		for name, n := range s.Outcomes {
			sum.Outcomes[name] += n
		}
		for i, d := range s.ReplyTimes {
			if i == len(sum.ReplyTimes) {
				sum.ReplyTimes = append(sum.ReplyTimes, 0)
			}
			sum.ReplyTimes[i] = max(sum.ReplyTimes[i], d)
		}
	}
	return sum
}

// rate returns n per second of an interval, or a gap if the interval has no
// length.
func rate(n int64, length time.Duration) num {
	if length <= 0 {
		return gap()
	}
	return num(float64(n) / length.Seconds())
}

// The outcomes of an attempt, in the order in which they are shown; others
// follow by name.
var outcomeOrder = []string{"granted", "held", "noquorum", "expired", "cancelled", "error"}

// outcomeNames returns the outcomes to show: the usual ones for a table, only
// those that occurred for a chart.
func outcomeNames(all ...map[string]int64) []string {
	seen := map[string]bool{}
	for _, outcomes := range all {
		for name, n := range outcomes {
			seen[name] = seen[name] || n != 0
		}
	}
	maps.DeleteFunc(seen, func(_ string, happened bool) bool { return !happened })
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return cmp.Or(cmp.Compare(outcomePlace(a), outcomePlace(b)), cmp.Compare(a, b))
	})
}

func outcomePlace(name string) int {
	if i := slices.Index(outcomeOrder, name); i >= 0 {
		return i
	}
	return len(outcomeOrder)
}

// outcomeTitle returns the outcome as it is shown.
func outcomeTitle(name string) string {
	if name == "noquorum" {
		return "no quorum"
	}
	return clip(name, 40)
}

// outcomesOf returns each interval's outcomes.
func outcomesOf(series []Sample) (all []map[string]int64) {
	for _, s := range series {
		all = append(all, s.Outcomes)
	}
	return all
}

// nodesIn returns for how many nodes a run knows a reply time.
func nodesIn(series []Sample) (n int) {
	for _, s := range series {
		for i, d := range s.ReplyTimes {
			if d > 0 {
				n = max(n, i+1)
			}
		}
	}
	return n
}

// replyTime returns node i's reply time, or zero if it is unknown.
func (s Sample) replyTime(i int) time.Duration {
	if i >= len(s.ReplyTimes) {
		return 0
	}
	return s.ReplyTimes[i]
}
