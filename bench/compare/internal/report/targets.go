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

// A target is what was promised, for each number of callers.
type target struct {
	name   string
	wanted [4]float64
	atMost bool
	reach  func(d *Data, callers int) Spread
}

// targets are those of the project's design.
var targets = []target{
	{
		name: "throughput × rueidis, default options", wanted: [4]float64{1.75, 8.5, 11, 14},
		reach: overDefault(throughput),
	},
	{
		name: "throughput × rueidis, best tuning found", wanted: [4]float64{1.65, 3, 3.5, 4.5},
		reach: over(throughput, compare.Tuned),
	},
	{
		name: "throughput × redsync (go-redis)", wanted: [4]float64{2.1, 17, 28, 30},
		reach: over(throughput, compare.Redsync),
	},
	{
		name: "acquire p99 better than rueidis, default options, by", wanted: [4]float64{2, 8, 12, 12},
		reach: overDefault(p99),
	},
	{
		name: "client CPU per pair, less than rueidis, default options, by", wanted: [4]float64{2.2, 11, 24, 30},
		reach: overDefault(clientCPU),
	},
	{
		name: "system calls per pair", wanted: [4]float64{22, 2, 0.5, 0.25}, atMost: true,
		reach: level(Counting, syscalls),
	},
	{
		name: "allocations per pair (below 0.05 is none)", wanted: [4]float64{0.05, 0.05, 0.05, 0.05}, atMost: true,
		reach: level(Healthy, mallocs),
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

func over(m metric, peer string) func(d *Data, callers int) Spread {
	return func(d *Data, callers int) Spread {
		return d.gain(m, targetCase(Healthy, callers), compare.Ours, peer)
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
	t := table{head: []string{"N = 5, TCP"}}
	for _, n := range targetCallers {
		t.head = append(t.head, callersName(n))
	}
	for _, target := range targets {
		row := []string{target.name}
		for i, n := range targetCallers {
			row = append(row, verdict(target.reach(d, n), target.wanted[i], target.atMost))
		}
		t.rows = append(t.rows, row)
	}
	return t.String()
}

// verdict is a cell: yes or no, what was reached, and what was wanted.
func verdict(s Spread, wanted float64, atMost bool) string {
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
