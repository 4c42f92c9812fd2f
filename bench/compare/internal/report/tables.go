package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare"
)

// gainTable shows by what factor ours is better than each opponent, in all
// cases of a kind.
func (d *Data) gainTable(m metric, k Kind, ours string) string {
	return d.perCase(k, d.opponents(k), func(c Case, p compare.Peer) string {
		return d.gain(m, c, ours, p.Name).String()
	})
}

// levelTable shows a figure itself for all peers.
func (d *Data) levelTable(m metric, k Kind) string {
	return d.perCase(k, d.peers(k), func(c Case, p compare.Peer) string {
		return d.level(m, side{c, p.Name}).String()
	})
}

// ofHealthyTable divides each peer's figure with one master stopped by its own
// with all masters up.
func (d *Data) ofHealthyTable(m metric) string {
	return d.perCase(Stopped, d.peers(Stopped), func(c Case, p compare.Peer) string {
		healthy := c
		healthy.Kind = Healthy
		return d.ratio(m, side{c, p.Name}, side{healthy, p.Name}).String()
	})
}

// perCase is a table with a row per case and a column per peer.
func (d *Data) perCase(k Kind, peers []compare.Peer, value func(c Case, p compare.Peer) string) string {
	t := Table{Head: append([]string{"case"}, names(peers)...)}
	for _, c := range d.cases(k) {
		row := []string{c.String()}
		for _, p := range peers {
			row = append(row, cell(d, c, p, value(c, p)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t.String()
}

// cell distinguishes a peer that was not measured from one that made no pair.
func cell(d *Data, c Case, p compare.Peer, text string) string {
	windows := d.windows(c, p.Name)
	if len(windows) == 0 {
		return absent
	}
	for _, w := range windows {
		if w.Pairs > 0 {
			return text
		}
	}
	if text == "–" || text == "0" {
		return "0 pairs"
	}
	return text + ", 0 pairs"
}

// names are the columns' heads.
func names(peers []compare.Peer) (all []string) {
	for _, p := range peers {
		all = append(all, p.Name)
	}
	return all
}

// rawTable has the medians of everything, a row per case and peer.
func (d *Data) rawTable() string {
	shown := []metric{throughput, p50, p99, p999, clientCPU, serversCPU, mallocs, bytes}
	t := Table{Head: []string{"case", "peer"}}
	for _, m := range shown {
		t.Head = append(t.Head, strings.TrimSuffix(m.name+", "+m.unit, ", "))
	}
	t.Head = append(t.Head, "GC per second", "goroutines")
	for _, c := range d.cases(Healthy, Stopped, Stopping) {
		for _, p := range d.peers(c.Kind) {
			s := side{c, p.Name}
			if len(d.windows(c, p.Name)) == 0 {
				continue
			}
			row := []string{kindName(c.Kind) + c.String(), p.Name}
			for _, m := range append(slices.Clone(shown), collections, goroutines) {
				row = append(row, median(d.level(m, s)))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t.String()
}

// median leaves the spread out: the raw table is wide enough.
func median(s Spread) string {
	if !s.Known() {
		return "–"
	}
	return number(s.Median)
}

// troubleTable has the cases in which something went wrong: windows without a
// pair or without a result, errors by kind, callers that did not come back.
func (d *Data) troubleTable() string {
	t := Table{Head: []string{
		"case", "peer", "windows", "of them without a pair", "pairs", "pairs that failed",
		"callers still waiting at the end", "why there was no result",
	}}
	for _, c := range d.cases(kinds...) {
		for _, p := range d.peers(c.Kind) {
			if row := d.trouble(c, p.Name); row != nil {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return t.String()
}

// trouble returns a row, or nil if all went well. Of the callers that waited it
// shows the most of any window: their sum could exceed the number of callers.
func (d *Data) trouble(c Case, peer string) []string {
	windows := d.windows(c, peer)
	errors, failures := map[string]int64{}, map[string]bool{}
	empty, waiting, pairs := 0, 0, int64(0)
	for _, w := range windows {
		if w.Pairs == 0 {
			empty++
		}
		pairs += w.Pairs
		waiting = max(waiting, w.Waiting)
		for kind, n := range w.Errors {
			errors[kind] += n
		}
		if w.Failure != "" {
			failures[w.Failure] = true
		}
	}
	if empty == 0 && waiting == 0 && len(errors) == 0 && len(failures) == 0 {
		return nil
	}
	var counted []string
	for _, kind := range slices.Sorted(maps.Keys(errors)) {
		counted = append(counted, fmt.Sprintf("%s: %s", kind, thousands(errors[kind])))
	}
	return []string{
		kindName(c.Kind) + c.String(), peer, fmt.Sprint(len(windows)), fmt.Sprint(empty), thousands(pairs),
		strings.Join(counted, "; "), thousands(int64(waiting)), strings.Join(slices.Sorted(maps.Keys(failures)), "; "),
	}
}

// versionTable names what was measured.
func (d *Data) versionTable() string {
	t := Table{Head: []string{"what", "version"}}
	for _, v := range d.Versions {
		t.Rows = append(t.Rows, []string{v.Name, v.Version})
	}
	return t.String()
}

// peerTable describes each peer.
func (d *Data) peerTable() string {
	t := Table{Head: []string{"peer", "what it is"}}
	for _, p := range d.peers(kinds...) {
		t.Rows = append(t.Rows, []string{p.Name, p.About})
	}
	return t.String()
}

// unknowns returns the reasons for which figures are missing, each once.
func (d *Data) unknowns() []string {
	seen := map[string]bool{}
	for _, s := range d.Samples {
		for _, why := range []string{s.Unknown, s.CountFailure} {
			if why != "" {
				seen[why] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// shortened formats a duration with a space before the unit.
func shortened(d time.Duration) string {
	switch {
	case d >= time.Second && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d%time.Millisecond == 0:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	}
	return d.String()
}
