package report

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A table has a heading in every column and, in every row, in the first cell.
type table struct {
	Caption string
	Ratios  bool // the columns from the second on have notes beside the text
	Single  bool // of one run: rows are placed side by side, to use the width
	Head    []cell
	Rows    [][]cell
}

// A cell is text, with the template's decoration.
type cell struct {
	Text  string
	Note  string // small, below or beside
	Class string // of those in page.css
	Style *style // a run's mark before the text
	Bar   *bar   // below the text
}

// A bar has the colour of its run.
type bar struct{ Percent, Color int }

func text(s string) cell { return cell{Text: s} }

func (t *table) row(cells ...cell) { t.Rows = append(t.Rows, cells) }

// runHeads begins a table with a column per run.
func runHeads(first string, styles []style) []cell {
	heads := []cell{text(first)}
	for i := range styles {
		heads = append(heads, cell{Text: styles[i].Name, Style: &styles[i]})
	}
	return heads
}

// A column of a table over time shows a figure of each sample.
type column struct {
	head   cell
	series []Sample
	figure func(Sample) string
}

// overTime is the table below a chart over time. Runs take their samples at
// almost the same times; samples within a tenth of an interval share a row.
func overTime(caption string, columns ...column) *table {
	t := &table{Caption: caption, Head: []cell{text("until")}}
	rows := map[time.Duration][]cell{}
	merged := 1
	for i, c := range columns {
		t.Head = append(t.Head, c.head)
		series := thin(c.series, mostRows)
		if len(series) > 0 {
			merged = max(merged, (len(c.series)+mostRows-1)/mostRows)
		}
		for _, s := range series {
			at := s.At.Round(max(series[0].Length/10, time.Millisecond))
			if rows[at] == nil {
				rows[at] = make([]cell, len(columns))
			}
			rows[at][i] = text(c.figure(s))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(rows)) {
		t.row(append([]cell{text(seconds(at))}, rows[at]...)...)
	}
	if merged > 1 {
		t.Caption += fmt.Sprintf(". Each row stands for up to %d samples, latencies for the greatest of them", merged)
	}
	return t
}

// perRun returns a column for each run that has samples.
func perRun(runs []Run, styles []style, figure func(Sample) string) (all []column) {
	for i, r := range runs {
		if len(r.Series) > 0 {
			all = append(all, column{cell{Text: styles[i].Name, Style: &styles[i]}, r.Series, figure})
		}
	}
	return all
}
