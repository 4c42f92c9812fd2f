package main

import (
	"os"
	"strings"
	"unicode"
)

// A screen is how something is shown: on a terminal, in colours or without, or as plain lines for whatever reads them.
type screen struct{ terminal, colours bool }

// screenOf looks at where the output goes. Colours are left out with NO_COLOR, as everywhere (no-color.org).
func screenOf(w any) screen {
	terminal := onTerminal(w) && os.Getenv("TERM") != "dumb"
	return screen{terminal, terminal && os.Getenv("NO_COLOR") == ""}
}

// onTerminal reports that a reader or writer is a terminal: a person.
func onTerminal(v any) bool {
	file, ok := v.(*os.File)
	return ok && isTTY(file)
}

// A colour is the number of an SGR sequence; 0 is none.
type colour int

const (
	bold   colour = 1
	red    colour = 31
	green  colour = 32
	yellow colour = 33
)

func (s screen) paint(c colour, text string) string {
	if !s.colours || c == 0 {
		return text
	}
	return "\x1b[" + string("0123456789"[c/10]) + string("0123456789"[c%10]) + "m" + text + "\x1b[0m"
}

// maxShown bounds a text of others that is shown.
const maxShown = 400

// plain makes a text fit for a terminal that somebody else had a hand in: a resource, an address, a node's error. What is not
// printable, and so could move the cursor, recolour or reorder the line, is replaced.
func plain(text string) string {
	shown, n := strings.ToValidUTF8(text, "?"), 0
	return strings.Map(func(r rune) rune {
		switch n++; {
		case n > maxShown:
			return -1
		case !unicode.IsPrint(r):
			return '?'
		default:
			return r
		}
	}, shown)
}
