package report

import "strings"

// table is a table of Markdown. The first column is text, the others are
// figures.
type table struct {
	head []string
	rows [][]string
}

// String is empty for a table without rows.
func (t table) String() string {
	if len(t.rows) == 0 {
		return ""
	}
	var b strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + oneLine.Replace(cell) + " ")
		}
		b.WriteString("|\n")
	}
	line(t.head)
	b.WriteString("|---|" + strings.Repeat("---|", len(t.head)-1) + "\n")
	for _, r := range t.rows {
		line(r)
	}
	return b.String()
}

// absent is the cell of a peer that was not measured in a case.
const absent = "·"

// oneLine keeps a text within its cell.
var oneLine = strings.NewReplacer("\n", " ", "|", "/")
