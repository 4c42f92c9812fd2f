package report

import (
	"fmt"

	"github.com/redmux/redmux/bench/compare"
)

// targetCallers are the columns of the table of targets, which is about five
// masters over TCP.
var targetCallers = []int{1, 16, 128, 1024}

func targetCase(k Kind, callers int) Case {
	return Case{Kind: k, Network: "tcp", Nodes: 5, Callers: callers}
}

// A target is what was promised, for each number of callers. Where 0 is wanted,
// nothing was, and the figure is shown for comparison.
type target struct {
	name   string
	wanted [4]float64
	atMost bool
	reach  func(d *Data, callers int) Spread
}

// targets are those of the project.
var targets = []target{
	{
		name: "throughput × the best peer's", wanted: [4]float64{1.6, 3, 3, 3},
		reach: overBest(throughput, "tcp"),
	},
	{
		name: "over TLS: throughput × the best peer's", wanted: [4]float64{1.5, 0, 4, 0},
		reach: overBest(throughput, "tls"),
	},
	{
		name: "acquire p99, lower than the best peer's by", wanted: [4]float64{1, 0, 0, 0},
		reach: overBest(p99, "tcp"),
	},
	{
		name: "client CPU per pair, less than the best peer's by", wanted: [4]float64{1, 0, 0, 0},
		reach: overBest(clientCPU, "tcp"),
	},
	{
		name:  "throughput × rueidis, default options",
		reach: overDefault(throughput),
	},
	{
		name: "allocations per pair (below 0.05 is none)", wanted: [4]float64{0.05, 0.05, 0.05, 0.05}, atMost: true,
		reach: level(Healthy, mallocs),
	},
	{
		name: "one master stopped: allocations per pair", wanted: [4]float64{0.05, 0.05, 0.05, 0.05}, atMost: true,
		reach: level(Stopped, mallocs),
	},
	{
		name: "one master stopped: throughput, of the healthy", wanted: [4]float64{0.95, 0.95, 0.95, 0.95},
		reach: ofHealthy(throughput),
	},
	{
		name: "one master stopped: acquire p99, of the healthy", wanted: [4]float64{1.5, 1.5, 1.5, 1.5}, atMost: true,
		reach: ofHealthy(p99),
	},
	{
		name: "longest time without a grant around the stop, ms", wanted: [4]float64{100, 100, 100, 100}, atMost: true,
		reach: level(Stopping, longestGap),
	},
}

func overBest(m metric, network string) func(d *Data, callers int) Spread {
	return func(d *Data, callers int) Spread {
		c := targetCase(Healthy, callers)
		c.Network = network
		s, _ := d.overBest(m, c)
		return s
	}
}

func overDefault(m metric) func(d *Data, callers int) Spread {
	return func(d *Data, callers int) Spread {
		c := targetCase(Healthy, callers)
		return d.gain(m, c, compare.Ours, d.baseline(m, c))
	}
}

func level(k Kind, m metric) func(d *Data, callers int) Spread {
	return func(d *Data, callers int) Spread { return d.level(m, side{targetCase(k, callers), compare.Ours}) }
}

func ofHealthy(m metric) func(d *Data, callers int) Spread {
	return func(d *Data, callers int) Spread {
		return d.ratio(m, side{targetCase(Stopped, callers), compare.Ours}, side{targetCase(Healthy, callers), compare.Ours})
	}
}

// reached judges by the median.
func reached(s Spread, wanted float64, atMost bool) bool {
	if atMost {
		return s.Median <= wanted
	}
	return s.Median >= wanted
}

// targetTable shows each target with what was reached.
func (d *Data) targetTable() string {
	t := Table{Head: []string{"N = 5, TCP unless it says otherwise"}}
	for _, n := range targetCallers {
		t.Head = append(t.Head, callersName(n))
	}
	for _, target := range targets {
		row := []string{target.name}
		for i, n := range targetCallers {
			row = append(row, verdict(target.reach(d, n), target.wanted[i], target.atMost))
		}
		t.Rows = append(t.Rows, row)
	}
	return t.String()
}

// verdict is a cell: yes or no, what was reached, and what was wanted.
func verdict(s Spread, wanted float64, atMost bool) string {
	if wanted == 0 {
		return s.String()
	}
	sign, word := "≥", "**no**"
	if atMost {
		sign = "≤"
	}
	if !s.Known() {
		return fmt.Sprintf("not measured (%s %s)", sign, number(wanted))
	}
	if reached(s, wanted, atMost) {
		word = "yes"
	}
	return fmt.Sprintf("%s: %s, wanted %s %s", word, s, sign, number(wanted))
}
