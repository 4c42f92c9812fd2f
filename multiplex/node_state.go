package multiplex

import (
	"errors"
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A State is the stage of a node's life, as its name in lower case.
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
	// "not RESP", "proxy", "TLS", "credentials" (none to
	// connect with), "not a master", "same server", "MaxTTL",
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

// tellLocked reports the node's state to OnChange, unless it was reported
// already.
func (n *reporter) tellLocked() {
	if n.group.config.OnChange == nil {
		return
	}
	switch n.life.State {
	case Up:
		if !n.group.live.Has(n.index) {
			return // it is about to join, or has just stopped being live
		}
		if n.group.members.Doubted.Has(n.index) {
			n.tellQuarantineLocked()
			return
		}
		n.reportLocked(NewsUp, "", nil)
	case Shed:
		cause, _ := causeOf(n.fault.err)
		n.reportLocked(NewsShed, cause, n.fault.err)
	case Down:
		if n.fault.err == ErrConnecting {
			return // the first attempt to connect has not ended
		}
		news := NewsDown
		cause, barred := causeOf(n.fault.err)
		if barred {
			news = NewsRefused
		}
		n.reportLocked(news, cause, n.fault.err)
	}
}

// tellAllLocked is tellLocked for all nodes. A change of one node may change
// the causes of others.
func (g *Group) tellAllLocked() {
	for _, n := range g.nodes {
		n.reporter.tellLocked()
	}
}

// tellQuarantineLocked reports why the votes of a node that is up do not count.
func (n *reporter) tellQuarantineLocked() {
	g := n.group
	g.members.Renew(n.index)
	_, why := g.members.Left(n.index, g.now())
	cause := n.causeLocked().err
	if errors.Is(cause, ErrUnopened) && (!g.triedLocked() || g.members.Busy()) {
		return // the deployment may be open in a moment
	}
	if class, _ := causeOf(cause); n.group.members.Strangers.Has(n.index) {
		why = class
	}
	n.reportLocked(NewsQuarantined, why, cause)
}

// reportLocked calls OnChange, if it is set and the cause is new.
func (n *reporter) reportLocked(news News, cause string, why error) {
	listener := n.group.config.OnChange
	if listener == nil || !n.told.outdated(cause) {
		return
	}
	change := n.changeLocked(news, cause, why)
	n.told.news, n.told.cause = news, cause
	listener(change)
}

// tellWarningsLocked reports new warnings of a node whose state was reported
// before. Otherwise they come with the report of its state.
func (n *reporter) tellWarningsLocked() {
	listener := n.group.config.OnChange
	if listener == nil || !n.told.news.up() {
		return
	}
	var why error
	if f := n.causeLocked(); n.told.news == NewsQuarantined && f != nil {
		why = f.err
	}
	change := n.changeLocked(n.told.news, n.told.cause, why)
	change.Same = true
	if change.Warnings != nil {
		listener(change)
	}
}

// changeLocked returns the report of a state, with the warnings that are new.
func (n *reporter) changeLocked(news News, cause string, why error) Change {
	change := Change{Node: n.index, Addr: n.addr, News: news, Cause: cause, Err: why, At: time.Now()}
	if news.up() {
		if all := n.warningsLocked(); !slices.Equal(all, n.told.warnings) {
			change.Warnings, n.told.warnings = slices.Clone(all), all
		}
	}
	return change
}
