// Package errtext makes the texts of errors that wrap others: one prefix and
// one line for the whole, nothing twice, and what servers say printable.
package errtext

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// prefixes are what the errors of this module begin with.
var prefixes = []string{"redlock: ", "multiplex: ", "conn: ", "resp: server error: ", "resp: "}

// Text returns an error's text without the prefix of its package. Of a network
// error it returns the reason alone, since the text around it names the
// address.
func Text(err error) string {
	switch e := err.(type) {
	case nil:
		return "unknown cause" // an error's zero value wraps none
	case *net.OpError:
		if e.Err != nil {
			return Text(e.Err)
		}
	case *os.SyscallError:
		return e.Err.Error()
	}
	text := err.Error()
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return rest
		}
	}
	return text
}

// Printable replaces each byte that is not printable ASCII. What a server says
// goes through it before it reaches an error, a log or a terminal: it could
// move the cursor there, or recolour or reorder the line.
func Printable(text string) string {
	plain := func(c byte) bool { return ' ' <= c && c <= '~' }
	for i := range len(text) {
		if plain(text[i]) {
			continue
		}
		b := []byte(text)
		for j := i; j < len(b); j++ {
			if !plain(b[j]) {
				b[j] = '?'
			}
		}
		return string(b)
	}
	return text
}

// Join returns an error that wraps the errors that are not nil, with their
// texts on one line. It returns nil if there are none, and the error itself if
// there is one.
func Join(errs ...error) error {
	var all joined
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

type joined []error

// Error returns the texts, with the prefix of the first.
func (all joined) Error() string {
	text := all[0].Error()
	for _, err := range all[1:] {
		text += "; " + Text(err)
	}
	return text
}

// Unwrap returns the errors.
func (all joined) Unwrap() []error { return all }

// Negative returns an error if a setting is negative, with its name and value.
func Negative[T int | int64 | time.Duration](name string, value T) error {
	if value < 0 {
		return fmt.Errorf("%s is negative: %v", name, value)
	}
	return nil
}

// Wrap returns an error with the given text that wraps the given errors.
func Wrap(text string, errs ...error) error { return &wrapped{text, errs} }

type wrapped struct {
	text string
	errs []error
}

// Error returns the text.
func (e *wrapped) Error() string { return e.text }

// Unwrap returns the errors.
func (e *wrapped) Unwrap() []error { return e.errs }
