package redlock

import (
	"fmt"
	"io"
	"strconv"

	"github.com/redmux/redmux/conn"
)

// What holds a secret prints none, with any verb: a method String alone would leave %d and %#v to show the fields (R27).
// One case is out of reach: a Lock in an unexported field of somebody's struct is printed by reflection, which may not
// call methods there.

// String hides the token.
func (t Token) String() string { return "(token)" }

// Format prints String for every verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText is String, so that structured logs and JSON do not show the token either.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// String tells until when the lock is valid; it names neither the resource nor the token.
func (l Lock) String() string {
	if l.client == nil {
		return "(no lock)"
	}
	return "(lock until " + l.until.Format("15:04:05.000") + ")"
}

// Format prints String for every verb.
func (l Lock) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// MarshalText is String.
func (l Lock) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String tells until when the hold is valid; it names neither the resource nor the token.
func (h *Hold) String() string { return "(hold until " + h.Until().Format("15:04:05.000") + ")" }

// Format prints String for every verb.
func (h *Hold) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// MarshalText is String.
func (h *Hold) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// String says what it is: the context that it wraps would print the values of others.
func (c holdContext) String() string { return "(context of a hold)" }

// String says what it is.
func (c runContext) String() string { return "(context of a hold)" }

// String tells how many nodes the client has.
func (c *Client) String() string {
	return "(client of " + strconv.Itoa(len(c.config.Nodes)) + " nodes)"
}

// Format prints String for every verb: the configuration holds passwords.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// String lists the nodes' addresses, without credentials.
func (c Config) String() string {
	text := "(nodes"
	for _, url := range c.Nodes {
		addr := "(bad URL)"
		if endpoint, err := conn.ParseURL(url); err == nil {
			addr = endpoint.String()
		}
		text += " " + addr
	}
	return text + ")"
}

// Format prints String for every verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }
