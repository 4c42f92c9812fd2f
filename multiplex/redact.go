package multiplex

import (
	"fmt"
	"io"
	"strconv"
)

// Types that hold secrets print none, with any verb (R27): a configuration has
// passwords, a command has keys and tokens. In an unexported field of a user's
// struct no method is called. There, what a user can keep has no secret by
// value in it, nor behind its first pointer; what the user fills in is out of
// reach.

// String says how many nodes the group has.
func (g *Group) String() string {
	if g == nil || g.config == nil {
		return "(no group)"
	}
	return "(group of " + strconv.Itoa(g.size) + " nodes)"
}

// Format prints String for every verb.
func (g *Group) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, g.String()) }

// String says how long the command is.
func (e Encoded) String() string { return "(command of " + strconv.Itoa(len(e.Bytes)) + " bytes)" }

// Format prints String for every verb.
func (e Encoded) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.String()) }

// String says how long the command is.
func (c Claim) String() string { return Encoded{Bytes: c.Bytes}.String() }

// Format prints String for every verb.
func (c Claim) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// String lists the nodes' addresses, without credentials.
func (c Config) String() string {
	text := "(nodes"
	for _, n := range c.Nodes {
		text += " " + n.Endpoint.String()
	}
	return text + ")"
}

// Format prints String for every verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Format hides the commands, which have keys.
func (Seal) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(seal)") }

// Format hides the commands, which have keys.
func (Floors) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(floors)") }

// Format hides the key.
func (*Lookout) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(lookout)") }
