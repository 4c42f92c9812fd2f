package report

import (
	"cmp"
	"slices"
)

// A loss is a figure in which a peer was better than ours.
type loss struct {
	Case
	ours, theirs string
	metric       metric
	gain         Spread // below 1
}

// clear reports whether they were better in every round.
func (l loss) clear() bool { return l.gain.Greatest < 1 }

// judged are the figures that can be losses.
var judged = []metric{throughput, p50, p99, p999, clientCPU, serversCPU, mallocs, bytes, syscalls}

// losses returns all cases and figures in which ours is worse than a peer by
// the median, the worst first within each figure.
func (d *Data) losses() (all []loss) {
	// By figure first: the question is where we are slower, not what happens
	// with 16 callers.
	for _, m := range judged {
		var some []loss
		for _, c := range d.cases(Healthy, Stopped, Counting) {
			if !tells(m, c.Kind) {
				continue
			}
			some = append(some, d.lossesIn(c, m)...)
		}
		slices.SortStableFunc(some, func(a, b loss) int { return cmp.Compare(a.gain.Median, b.gain.Median) })
		all = append(all, some...)
	}
	return all
}

func (d *Data) lossesIn(c Case, m metric) (all []loss) {
	for _, ours := range d.peers(c.Kind) {
		if !ours.Ours {
			continue
		}
		for _, theirs := range d.opponents(c.Kind) {
			// The median decides, even if the spread reaches beyond 1: what may
			// be a loss is shown as one.
			if g := d.gain(m, c, ours.Name, theirs.Name); g.Known() && g.Median < 1 {
				all = append(all, loss{c, ours.Name, theirs.Name, m, g})
			}
		}
	}
	return all
}

// tells reports whether a figure means anything in a kind of case. Counting
// system calls disturbs all other figures.
func tells(m metric, k Kind) bool { return k != Counting || m.name == syscalls.name }

// slowerTable has the losses of the given peer in throughput. It is empty if
// there are none.
func (d *Data) slowerTable(ours string) string {
	return lossTable(slices.DeleteFunc(d.losses(), func(l loss) bool {
		return l.metric.name != throughput.name || l.ours != ours
	}))
}

// lossTable is empty if there are no losses.
func lossTable(losses []loss) string {
	t := Table{Head: []string{"figure", "case", "ours", "against", "ours is better by (below 1: worse)", "in all rounds"}}
	for _, l := range losses {
		clear := "no"
		if l.clear() {
			clear = "yes"
		}
		t.Rows = append(t.Rows, []string{l.metric.name, kindName(l.Kind) + l.Case.String(), l.ours, l.theirs, l.gain.String(), clear})
	}
	return t.String()
}

// kindName returns what stands before the name of an unusual case.
func kindName(k Kind) string {
	switch k {
	case Stopped:
		return "one master stopped, "
	case Stopping:
		return "one master being stopped, "
	}
	return ""
}
