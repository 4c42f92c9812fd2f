package multiplex

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A State is the stage of a node's life. Its String method returns its name in
// lower case.
type State = pure.State

const (
	// Down means that the node has no connection. The next attempt comes
	// after a pause.
	Down = pure.Down
	// Dialing means that this group is connecting to the node and shaking
	// hands.
	Dialing = pure.Dialing
	// Fencing means that the commands of the previous connection are being made
	// harmless (R8).
	Fencing = pure.Fencing
	// Paying means that the node executes its owed releases before it joins
	// (R8).
	Paying = pure.Paying
	// Up means that the node gets every command. Outside of a quarantine
	// its votes count.
	Up = pure.Up
	// Shed means that this group broke the node's connection (R26). The node
	// gets no new commands.
	Shed = pure.Shed
	// Stopped means that the group was closed.
	Stopped = pure.Stopped
)

// A Change reports a node's new state: it came up, it is no longer up, the
// cause for that has changed, or there are new warnings about it. A node that
// is dialed again and again in vain is reported once, with the first cause, and
// once more each time the class of the cause changes.
type Change struct {
	Node int    // index of the node in the configuration
	Addr string // without credentials
	News News   // the new state
	// Cause is the class of Err: a server's class of error ("WRONGPASS",
	// "LOADING"), a cause of death as in NodeCounts.Deaths, or "unreachable",
	// "not RESP", "proxy", "TLS", "not a master", "same server", "MaxTTL",
	// "permissions", or what began a quarantine, as in QuarantineError.Why. It
	// is "" if the node came up.
	Cause string
	Err   error     // why the node is not up, or does not count; nil when it does
	At    time.Time // when it changed
	// Warnings lists what should be changed about a node that came up all the
	// same. It is nil if there are none, or the same as before.
	Warnings []string
	Same     bool // only Warnings are new
}

// News is a node's new state.
type News uint8

const (
	// NewsUp means that the node gets every command from now on.
	NewsUp News = iota + 1
	// NewsDown means that the node has no connection.
	NewsDown
	// NewsRefused means that the node answers but may not take part, for
	// its role, or for our credentials or permissions (R22).
	NewsRefused
	// NewsShed means that this group gave up the node's connection (R8, R26).
	NewsShed
	// NewsQuarantined means that the node is up, but its grants do not count
	// yet (R23).
	NewsQuarantined
)

var newsNames = [...]string{"", "up", "down", "refused", "shed", "quarantined"}

// up reports whether the node is up.
func (n News) up() bool { return n == NewsUp || n == NewsQuarantined }

// String returns the state in one word; "" for zero.
func (n News) String() string { return newsNames[n] }
