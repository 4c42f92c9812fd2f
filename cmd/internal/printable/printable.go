// Package printable makes texts from elsewhere, such as a master's words, safe
// for a terminal.
package printable

import (
	"strings"
	"unicode"
)

// Line returns a text as one line of printable characters, of which it keeps at
// most so many. It replaces the others, which could move the cursor, or recolour
// or reorder the line.
func Line(text string, most int) string {
	shown, n := strings.ToValidUTF8(text, "?"), 0
	return strings.Map(func(r rune) rune {
		switch n++; {
		case n > most:
			return -1
		case !unicode.IsPrint(r):
			return '?'
		default:
			return r
		}
	}, shown)
}
