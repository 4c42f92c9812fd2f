// Package printable makes texts from elsewhere, such as a master's words, safe
// for a terminal and for JSON.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Name returns the name of a file or a resource for JSON, which has UTF-8 only:
// other bytes are shown as \xNN, where encoding/json would make one of many
// names the same.
func Name(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch _, size := utf8.DecodeRuneInString(name[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, name[i])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
