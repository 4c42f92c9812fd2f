package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// table aligns rows in columns. The first row is the head. An empty cell is
// shown as a dash.
func table(rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = plain(cell); cell == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // into memory
	var trimmed strings.Builder
	for line := range strings.Lines(out.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return trimmed.String()
}

// table is table for a screen: columns for which there is no room go into
// further tables below, each of which begins with the first column, or with
// numbers in its place.
func (s screen) table(rows [][]string) string {
	if len(rows[0]) == 1 {
		return table(rows)
	}
	names, rows := s.numbered(rows)
	var tables []string
	for first := 1; first < len(rows[0]); {
		text, next := table(columns(rows, first, first+1)), first+1
		for next < len(rows[0]) {
			wider := table(columns(rows, first, next+1))
			if s.width > 0 && widest(wider) > s.width {
				break
			}
			text, next = wider, next+1
		}
		tables, first = append(tables, text), next
	}
	return names + strings.Join(tables, "\n")
}

// longestName is the width of a first cell that is always left in its place.
const longestName = 20

// numbered puts numbers in the place of first cells that leave less than half of
// the screen for the others, such as the addresses of three sentinels. It
// returns what these stand for, too, in lines above the tables.
func (s screen) numbered(rows [][]string) (names string, numbered [][]string) {
	most := 0
	for _, row := range rows {
		most = max(most, utf8.RuneCountInString(plain(row[0])))
	}
	if s.width == 0 || most <= max(s.width/2, longestName) {
		return "", rows
	}
	numbered = rows[:1:1]
	for i, row := range rows[1:] {
		number := strconv.Itoa(i + 1)
		names += number + " is " + plain(row[0]) + "\n"
		numbered = append(numbered, append([]string{number}, row[1:]...))
	}
	return names + "\n", numbered
}

// columns returns the first column, and some of the others.
func columns(rows [][]string, from, to int) (some [][]string) {
	for _, row := range rows {
		some = append(some, append(slices.Clip(row[:1]), row[from:to]...))
	}
	return some
}

// widest returns the width of the longest line.
func widest(text string) (most int) {
	for line := range strings.Lines(text) {
		most = max(most, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}
	return most
}

// printJSON prints a value for programs, over several lines if indent is set.
func printJSON(out io.Writer, v any, indent bool) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// milliseconds converts a duration for programs.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// msNumber is milliseconds for a field that may be missing.
func msNumber(d time.Duration) *float64 { return number(milliseconds(d)) }

// count returns a number with its noun: "1 node", "5 nodes".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
