package load

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// plotWidth is the longest bar, in cells.
const plotWidth = 40

// eighths are bars of less than a cell.
var eighths = []rune(" ▏▎▍▌▋▊▉")

// writePlot draws the distribution of latencies as bars, one for each class up
// to 1, 2, 5, 10, 20, 50 … µs between the fastest and the slowest.
func writePlot(out io.Writer, title string, l latency) {
	total := l.TotalCount()
	if total == 0 {
		return
	}
	classes, counts := classesOf(l)
	most := int64(0)
	for _, n := range counts {
		most = max(most, n)
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for i, n := range counts {
		fmt.Fprintf(out, "%9s │%-*s %6.2f %%\n", "≤ "+classes[i].String(), plotWidth, bar(n, most), 100*float64(n)/float64(total))
	}
}

// classesOf counts latencies by class, from the first to the last that is not
// empty.
func classesOf(l latency) (bounds []time.Duration, counts []int64) {
	at := 0
	steps := classBounds()
	for _, b := range l.Distribution() {
		if b.Count == 0 {
			continue
		}
		for at < len(steps)-1 && time.Duration(b.To) > steps[at] {
			at++
			if len(bounds) > 0 {
				bounds, counts = append(bounds, steps[at]), append(counts, 0)
			}
		}
		if len(bounds) == 0 {
			bounds, counts = append(bounds, steps[at]), append(counts, 0)
		}
		counts[len(counts)-1] += b.Count
	}
	return bounds, counts
}

// classBounds returns 1, 2, 5, 10 … µs up to a bound that no latency exceeds.
func classBounds() (steps []time.Duration) {
	for decade := time.Microsecond; decade <= 2*longest; decade *= 10 {
		steps = append(steps, decade, 2*decade, 5*decade)
	}
	return steps
}

// bar has a length in proportion to n of most; any n above zero is visible.
func bar(n, most int64) string {
	if n == 0 {
		return ""
	}
	cells := max(1, int(float64(n)/float64(most)*plotWidth*8+0.5))
	b := strings.Repeat("█", cells/8)
	if cells%8 > 0 {
		b += string(eighths[cells%8])
	}
	return b
}
