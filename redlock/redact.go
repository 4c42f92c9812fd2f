package redlock

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// Types that hold a secret print none, with any verb (R27): with a String
// method alone, %d and %#v would show the fields. In an unexported field of a
// user's struct no method is called; there, a veiled token and a configuration
// behind two pointers show nothing. Out of reach are a Token, a Node and a
// Config in such a field: their own fields are the user's.

// An unprinted, embedded, keeps a type's fields from package fmt, whatever the
// verb.
type unprinted struct{}

// Format prints a constant.
func (unprinted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(redlock)") }

// String hides the token.
func (t Token) String() string { return "(token)" }

// Format prints String for every verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue makes package slog log String.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText returns an error. To encode a token, use Reveal.
func (t Token) MarshalText() ([]byte, error) {
	return nil, errors.New("redlock: a Token is not marshalled, since it is secret; see Token.Reveal")
}

// String shows until when the lock is valid, and neither the resource nor the
// token.
func (l Lock) String() string {
	if l.client == nil {
		return "(no lock)"
	}
	return "(lock until " + l.until.Format("15:04:05.000") + ")"
}

// Format prints String for every verb.
func (l Lock) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// LogValue makes package slog log String.
func (l Lock) LogValue() slog.Value { return slog.StringValue(l.String()) }

// MarshalText returns an error. To encode a lock, encode the parts that
// Client.Adopt needs.
func (l Lock) MarshalText() ([]byte, error) {
	return nil, errors.New("redlock: a Lock is not marshalled, since it holds a token; see Client.Adopt")
}

// String shows until when the hold is valid, and neither the resource nor the
// token.
func (h *Hold) String() string {
	if h == nil || h.client == nil {
		return "(no hold)"
	}
	return "(hold until " + h.Until().Format("15:04:05.000") + ")"
}

// Format prints String for every verb.
func (h *Hold) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// LogValue makes package slog log String.
func (h *Hold) LogValue() slog.Value { return slog.StringValue(h.String()) }

// MarshalText returns an error: a Hold belongs to its process.
func (h *Hold) MarshalText() ([]byte, error) {
	return nil, errors.New("redlock: a Hold is not marshalled, since it belongs to its process")
}

// String does not show the values of the parent context, as the embedded one
// would.
func (c *holdContext) String() string { return "(context of a hold)" }

// String shows how many nodes the client has.
func (c *Client) String() string {
	if c == nil || c.config == nil {
		return "(no client)"
	}
	return "(client of " + strconv.Itoa(len(c.config.Nodes)) + " nodes)"
}

// Format prints String for every verb: the configuration holds passwords.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// String lists the nodes' addresses, without credentials.
func (c Config) String() string {
	text := "(nodes"
	for _, n := range c.Nodes {
		text += " " + n.String()
	}
	return text + ")"
}

// Format prints String for every verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }
