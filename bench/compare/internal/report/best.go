package report

import (
	"cmp"
	"slices"

	"github.com/redmux/redmux/bench/compare"
)

// best returns the name of the peer that is the best in a case, by the median
// of a figure, and what it reached. It is none of ours. The name is empty if no
// peer has the figure: a peer that made no pair has no latency, and is not the
// best in throughput.
func (d *Data) best(m metric, c Case) (name string, reached Spread) {
	for _, p := range d.opponents(c.Kind) {
		s := d.level(m, side{c, p.Name})
		if !s.Known() || m.more && s.Median == 0 {
			continue
		}
		if name == "" || (s.Median > reached.Median) == m.more && s.Median != reached.Median {
			name, reached = p.Name, s
		}
	}
	return name, reached
}

// overBest returns by what factor ours is better than the best peer of a case.
func (d *Data) overBest(m metric, c Case) (Spread, string) {
	name, _ := d.best(m, c)
	return d.gain(m, c, compare.Ours, name), name
}

// headline shows our throughput by that of the best peer, with the most masters
// that were measured: a row for each network and kind.
func (d *Data) headline() string {
	cases := d.cases(Healthy, Stopped)
	most := 0
	for _, c := range cases {
		most = max(most, c.Nodes)
	}
	cases = slices.DeleteFunc(cases, func(c Case) bool { return c.Nodes != most })
	t := Table{Head: []string{"N = " + number(float64(most))}}
	var callers []int
	for _, c := range cases {
		callers = append(callers, c.Callers)
	}
	slices.Sort(callers)
	callers = slices.Compact(callers)
	for _, n := range callers {
		t.Head = append(t.Head, callersName(n))
	}
	slices.SortStableFunc(cases, func(a, b Case) int { return cmp.Compare(a.Network, b.Network) })
	seen := map[string]bool{}
	for _, c := range cases {
		row := []string{networkName(c.Network) + ", " + condition(c.Kind)}
		if seen[row[0]] {
			continue
		}
		seen[row[0]] = true
		for _, n := range callers {
			c.Callers = n
			row = append(row, d.overBestCell(throughput, c))
		}
		t.Rows = append(t.Rows, row)
	}
	return t.String()
}

func condition(k Kind) string {
	if k == Stopped {
		return "one master stopped"
	}
	return "all masters up"
}

// overBestCell is the factor and the name.
func (d *Data) overBestCell(m metric, c Case) string {
	switch s, name := d.overBest(m, c); {
	case len(d.windows(c, compare.Ours)) == 0:
		return absent
	case name == "":
		return "no peer has any"
	default:
		return s.String() + ", " + name
	}
}

// bestTable has the best peer of each case, for throughput, latency and cost.
func (d *Data) bestTable() string {
	t := Table{Head: []string{
		"case", "ours, pairs/s", "best peer, pairs/s", "ours × the best peer's", "p99 lower than the best peer's by", "client CPU per pair, less than the best peer's by",
	}}
	for _, c := range d.cases(Healthy, Stopped) {
		ours := d.level(throughput, side{c, compare.Ours})
		if !ours.Known() {
			continue
		}
		name, theirs := d.best(throughput, c)
		t.Rows = append(t.Rows, []string{
			kindName(c.Kind) + c.String(), median(ours), median(theirs) + ", " + name,
			d.overBestCell(throughput, c), d.overBestCell(p99, c), d.overBestCell(clientCPU, c),
		})
	}
	return t.String()
}

// Against is a table of ours against one other, in all cases with all masters
// up.
func (d *Data) Against(peer string) string {
	t := Table{Head: []string{
		"case", "ours, pairs/s", peer + ", pairs/s", "ours × " + peer, "p50 lower by", "p99 lower by", "client CPU per pair, less by", "servers' CPU per pair, less by",
	}}
	for _, c := range d.cases(Healthy) {
		row := []string{c.String(), median(d.level(throughput, side{c, compare.Ours})), median(d.level(throughput, side{c, peer}))}
		for _, m := range []metric{throughput, p50, p99, clientCPU, serversCPU} {
			row = append(row, d.gain(m, c, compare.Ours, peer).String())
		}
		t.Rows = append(t.Rows, row)
	}
	return t.String()
}
