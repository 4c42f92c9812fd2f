package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/redmux/redmux/cmd/internal/printable"
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

const (
	maxShown = 400  // characters of a text of others in a table
	maxLine  = 8000 // and of an error, which may have the words of 16 nodes
)

// plain makes a text from elsewhere, such as a resource, an address or a node's
// error, safe for a terminal.
func plain(text string) string { return printable.Line(text, maxShown) }

// say prints a line on standard error. It may have any text in it.
func (p *process) say(format string, args ...any) {
	fmt.Fprintln(p.stderr, printable.Line("redlock: "+fmt.Sprintf(format, args...), maxLine))
}
