package main

import (
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// A screen is how output is shown: on a terminal, with colours or without, or
// as plain lines for a program. Tables are not wider than width unless that is
// 0.
type screen struct {
	terminal, colours bool
	width             int
}

// screenOf returns the screen of a writer. NO_COLOR turns colours off
// (no-color.org), and COLUMNS says how wide it is.
func screenOf(w any) screen {
	terminal := onTerminal(w) && os.Getenv("TERM") != "dumb"
	return screen{terminal, terminal && os.Getenv("NO_COLOR") == "", widthOf(w)}
}

// widthOf returns how wide a writer is, or 0 if it does not matter.
func widthOf(w any) int {
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	if file, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// onTerminal reports whether a reader or writer is a terminal.
func onTerminal(v any) bool {
	file, ok := v.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
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

// maxShown bounds the length of a text of others, in characters.
const maxShown = 400

// plain makes a text from elsewhere, such as a resource, an address or a node's
// error, safe for a terminal. It replaces what is not printable, which could
// move the cursor, or recolour or reorder the line.
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
