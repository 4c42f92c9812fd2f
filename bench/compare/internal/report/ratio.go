package report

import (
	"math"

	"github.com/redmux/redmux/bench/compare"
)

// side is one side of a ratio: the windows of a peer in a case.
type side struct {
	Case
	peer string
}

// level is the spread of a metric over the rounds of a case.
func (d *Data) level(m metric, s side) Spread {
	var values []float64
	for _, w := range d.windows(s.Case, s.peer) {
		if v, known := m.of(w.Result); known && w.Failure == "" {
			values = append(values, v)
		}
	}
	return SpreadOf(values)
}

// ratio divides a by b round by round. The windows of a round follow each other
// closely, so that the rest of the machine's load hits both. A round in which
// one of them is not known gives no ratio.
func (d *Data) ratio(m metric, a, b side) Spread {
	var values []float64
	theirs := d.windows(b.Case, b.peer)
	for round, w := range d.windows(a.Case, a.peer) {
		other, there := theirs[round]
		if !there || w.Failure != "" || other.Failure != "" {
			continue
		}
		above, known := m.of(w.Result)
		below, alsoKnown := m.of(other.Result)
		if q := quotient(above, below, m.trifle); known && alsoKnown && !math.IsNaN(q) {
			values = append(values, q)
		}
	}
	return SpreadOf(values)
}

// quotient treats trifles as zero. Zero by zero is one if the metric has
// trifles, and NaN otherwise: two peers that made no pair are not equally fast.
func quotient(a, b, trifle float64) float64 {
	if a < trifle && b < trifle {
		return 1
	}
	if trifle > 0 && b < trifle {
		return math.Inf(1)
	}
	if trifle > 0 && a < trifle {
		return 0
	}
	return a / b
}

// gain returns by what factor ours is better than theirs in a case. It is above
// 1 if ours is better, also for costs.
func (d *Data) gain(m metric, c Case, ours, theirs string) Spread {
	if m.more {
		return d.ratio(m, side{c, ours}, side{c, theirs})
	}
	return d.ratio(m, side{c, theirs}, side{c, ours})
}

// baseline returns the better of the two baselines with default options, for a
// metric and a case: a careful user would choose it. It is empty if neither was
// measured.
func (d *Data) baseline(m metric, c Case) string {
	atQuorum := d.level(m, side{c, compare.Default})
	forAll := d.level(m, side{c, compare.DefaultAll})
	switch {
	case !atQuorum.Known() && !forAll.Known():
		return ""
	case !forAll.Known():
		return compare.Default
	case !atQuorum.Known():
		return compare.DefaultAll
	case (forAll.Median > atQuorum.Median) == m.more && forAll.Median != atQuorum.Median:
		return compare.DefaultAll
	}
	return compare.Default
}
