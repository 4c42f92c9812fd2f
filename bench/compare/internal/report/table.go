package report

import "strings"

// A Table is a table of Markdown. The first column is text, the others are
// figures.
type Table struct {
	Head []string
	Rows [][]string
}

// String is empty for a table without rows.
func (t Table) String() string {
	if len(t.Rows) == 0 {
		return ""
	}
	var b strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + oneLine.Replace(cell) + " ")
		}
		b.WriteString("|\n")
	}
	line(t.Head)
	b.WriteString("|---|" + strings.Repeat("---|", len(t.Head)-1) + "\n")
	for _, r := range t.Rows {
		line(r)
	}
	return b.String()
}

// absent is the cell of a peer that was not measured in a case.
const absent = "·"

// oneLine keeps a text within its cell.
var oneLine = strings.NewReplacer("\n", " ", "|", "/")
