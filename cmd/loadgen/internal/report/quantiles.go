package report

import (
	"math"
	"slices"
	"time"
)

// A point is a latency and the percentage of values that were at most that
// long.
type point struct {
	percentile float64
	latency    time.Duration
}

// points returns the valid quantiles: pairs, from 0 to 100, ascending. A file
// may contain anything.
func (q Quantiles) points() []point {
	var all []point
	last := math.Inf(-1)
	for i := range min(len(q.Percentiles), len(q.Latencies)) {
		p := q.Percentiles[i]
		if p >= 0 && p <= 100 && p > last && q.Latencies[i] >= 0 {
			all = append(all, point{p, q.Latencies[i]})
			last = p
		}
	}
	return all
}

// at returns the latency of a percentile: that of the first point that is not
// below it, as a histogram does, if that point is close. Close means within a
// fifth of what lies above: 99.2 may stand for 99, but 90 not for 75.
func (q Quantiles) at(percentile float64) (time.Duration, bool) {
	for _, p := range q.points() {
		if p.percentile >= percentile-1e-9 {
			return p.latency, p.percentile-percentile <= (100-percentile)/5+1e-9
		}
	}
	return 0, false
}

// percentileRows are the rows of a table, if any run knows them.
var percentileRows = []float64{0, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999, 100}

// A curve is a distribution in the form of the charts. The axis is that of
// HdrHistogram: x = 100/(100−p), so that each nine takes the same space.
type curve struct {
	X []num `json:"x"`
	Y []num `json:"y"`
}

// newCurve places the largest of n latencies at x = n, because it is one in n;
// a percentile beyond that adds nothing. If n is unknown, the largest gets a
// little more space than the previous point.
func newCurve(q Quantiles, n int64) curve {
	all := q.points()
	var c curve
	for i, p := range all {
		x := 100 / (100 - p.percentile)
		if n > 1 && x >= float64(n) {
			c.add(float64(n), all[len(all)-1].latency)
			break
		}
		if p.percentile == 100 {
			x = 2
			if i > 0 {
				x = 2 * 100 / (100 - all[i-1].percentile)
			}
		}
		c.add(x, p.latency)
	}
	return c
}

// add drops values that are not above zero, which a logarithmic axis cannot
// show.
func (c *curve) add(x float64, y time.Duration) {
	if y > 0 && !slices.Contains(c.X, num(x)) {
		c.X, c.Y = append(c.X, num(x)), append(c.Y, micros(y))
	}
}
