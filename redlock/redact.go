package redlock

import (
	"errors"
	"fmt"
	"io"
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

// Format prints a constant.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(token)") }

// MarshalText returns an error. To encode a token, use Reveal.
func (t Token) MarshalText() ([]byte, error) {
	return nil, errors.New("redlock: a Token is not marshalled, since it is secret; see Token.Reveal")
}

// Format prints the end of the validity, and neither the resource nor the
// token, for any verb.
func (l Lock) Format(f fmt.State, _ rune) {
	if l.client == nil {
		_, _ = io.WriteString(f, "(no lock)")
		return
	}
	_, _ = io.WriteString(f, "(lock until "+l.until.Format("15:04:05.000")+")")
}

// MarshalText returns an error. To encode a lock, encode the parts that
// Client.Adopt needs.
func (l Lock) MarshalText() ([]byte, error) {
	return nil, errors.New("redlock: a Lock is not marshalled, since it holds a token; see Client.Adopt")
}

// Format prints the end of the validity, as for a Lock.
func (h *Hold) Format(f fmt.State, _ rune) {
	if h == nil || h.client == nil {
		_, _ = io.WriteString(f, "(no hold)")
		return
	}
	_, _ = io.WriteString(f, "(hold until "+h.Until().Format("15:04:05.000")+")")
}

// MarshalText returns an error: a Hold belongs to its process.
func (h *Hold) MarshalText() ([]byte, error) {
	return nil, errors.New("redlock: a Hold is not marshalled, since it belongs to its process")
}

// String does not show the values of the parent context, as the embedded one
// would.
func (c *holdContext) String() string { return "(context of a hold)" }

// Format prints how many nodes the client has: its configuration is secret.
func (c *Client) Format(f fmt.State, _ rune) {
	if c == nil || c.config == nil {
		_, _ = io.WriteString(f, "(no client)")
		return
	}
	_, _ = io.WriteString(f, "(client of "+strconv.Itoa(len(c.config.Nodes))+" nodes)")
}

// Format prints the nodes' addresses, without credentials.
func (c Config) Format(f fmt.State, _ rune) {
	text := "(nodes"
	for _, n := range c.Nodes {
		text += " " + n.String()
	}
	_, _ = io.WriteString(f, text+")")
}
