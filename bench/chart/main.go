// Command chart draws the chart of the README from bench/results.csv: what the
// case "peers" has of five masters over TCP that were all up.
//
//	go run ./bench/chart <bench/results.csv >docs/throughput.svg
//
// It has a group of three bars for each number of callers: redlock, the best of
// the others, and redsync. Several rows of one implementation are its runs, of
// which it takes the median. The chart has a background of its own, so that it
// can be read on a dark page, and is dark where the reader prefers that.
package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := draw(os.Stdout, os.Stdin); err != nil {
		log.Fatal("chart: ", err)
	}
}

// draw reads rows and writes the chart of them.
func draw(w io.Writer, rows io.Reader) error {
	groups, err := read(rows)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, svg(groups))
	return err
}

// A group is what was measured with one number of callers.
type group struct {
	callers             int
	ours, best, redsync float64 // pairs per second
	peer                string  // which implementation the best one is
}

// read returns the groups by their callers.
func read(r io.Reader) ([]group, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) < 2 {
		return nil, errors.New("there are no figures")
	}
	column := map[string]int{}
	for _, name := range []string{"case", "network", "n", "fault", "impl", "clients", "pairs_per_s"} {
		if column[name] = slices.Index(rows[0], name); column[name] < 0 {
			return nil, fmt.Errorf("a column is missing: %s", name)
		}
	}
	impl, clients, pairs := column["impl"], column["clients"], column["pairs_per_s"]
	runs := map[int]map[string][]float64{} // by callers and implementation
	for _, row := range rows[1:] {
		if row[column["case"]] != "peers" || row[column["network"]] != "tcp" || row[column["n"]] != "5" || row[column["fault"]] != "" {
			continue
		}
		callers, err := strconv.Atoi(row[clients])
		if err != nil {
			return nil, err
		}
		figure, err := strconv.ParseFloat(row[pairs], 64)
		if err != nil {
			return nil, err
		}
		if runs[callers] == nil {
			runs[callers] = map[string][]float64{}
		}
		runs[callers][row[impl]] = append(runs[callers][row[impl]], figure)
	}
	var groups []group
	for _, callers := range slices.Sorted(maps.Keys(runs)) {
		g := group{callers: callers, ours: median(runs[callers]["redlock"]), redsync: median(runs[callers]["redsync"])}
		for _, name := range slices.Sorted(maps.Keys(runs[callers])) {
			if figure := median(runs[callers][name]); !strings.HasPrefix(name, "redlock") && figure > g.best {
				g.best, g.peer = figure, name
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// median returns the one in the middle, 0 of none.
func median(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// The layout, in pixels. Bars stand between left and right on the line base.
const (
	width, height    = 760, 400
	left, right      = 76, 744
	top, base        = 64, 330
	barWidth, barGap = 46, 6
)

// style has the colours, on a light page and on a dark one.
const style = `<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d1d9e0 } .grid { stroke: #d8dee4 } .faint { fill: #59636e }
.ours { fill: #0a66c2 } .best { fill: #8c959f } .redsync { fill: #d29922 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.card { fill: #0d1117; stroke: #3d444d } .grid { stroke: #30363d } .faint { fill: #9198a1 }
.ours { fill: #4493f8 } .best { fill: #767e88 } .redsync { fill: #d29922 }
}
</style>
`

// svg returns the chart.
func svg(groups []group) string {
	highest := 0.0
	for _, g := range groups {
		highest = max(highest, g.ours, g.best, g.redsync)
	}
	step := tick(highest)
	end := math.Ceil(highest/step) * step
	at := func(figure float64) float64 { return base - figure/end*(base-top) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>Acquire/release pairs per second, by callers</title>\n<desc>%s</desc>\n", words(groups))
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="card" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	fmt.Fprintf(&b, `<text x="16" y="28">acquire/release pairs per second</text>`+"\n")
	legend(&b)
	for figure := 0.0; figure <= end; figure += step {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, right, at(figure), at(figure))
		fmt.Fprintf(&b, `<text class="faint" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, at(figure)+4, thousands(figure))
	}
	room := float64(right-left) / float64(len(groups))
	for i, g := range groups {
		middle := left + room*(float64(i)+0.5)
		bars := []struct {
			class  string
			figure float64
		}{{"ours", g.ours}, {"best", g.best}, {"redsync", g.redsync}}
		for j, bar := range bars {
			x := middle + (float64(j)-1)*(barWidth+barGap)
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%.1f" width="%d" height="%.1f"/>`, bar.class, x-barWidth/2, at(bar.figure), barWidth, base-at(bar.figure))
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x, at(bar.figure)-5, thousands(bar.figure))
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, middle, base+22, callers(g.callers))
		fmt.Fprintf(&b, `<text class="faint" x="%.1f" y="%d" text-anchor="middle">best peer: %s</text>`+"\n", middle, base+42, g.peer)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// legend writes what the bars are, at the top on the right.
func legend(b *strings.Builder) {
	x := 470
	for _, entry := range [][2]string{{"ours", "redlock"}, {"best", "best peer"}, {"redsync", "redsync"}} {
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="18" width="12" height="12"/><text x="%d" y="28">%s</text>`+"\n", entry[0], x, x+18, entry[1])
		x += 94
	}
}

// words says what the chart shows, for readers who do not see it.
func words(groups []group) string {
	var all []string
	for _, g := range groups {
		all = append(all, fmt.Sprintf("%s: redlock %s, %s %s, redsync %s.",
			callers(g.callers), thousands(g.ours), g.peer, thousands(g.best), thousands(g.redsync)))
	}
	return strings.Join(all, " ")
}

// tick returns a step of the axis: 1, 2 or 5 times a power of ten, so that
// there are at most seven.
func tick(highest float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(highest/7)))
	for _, times := range []float64{1, 2, 5} {
		if highest/(step*times) <= 7 {
			return step * times
		}
	}
	return step * 10
}

func callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return thousands(float64(n)) + " callers"
}

// thousands writes a figure with commas.
func thousands(figure float64) string {
	text := strconv.FormatFloat(figure, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
