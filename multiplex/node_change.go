package multiplex

import (
	"slices"
	"time"
)

// A Change reports a node's new state: it came up, or it is no longer up, or
// not for the same cause as before. A node that is dialed again and again in
// vain is reported once, with the first cause, and once more for each cause of
// another class.
type Change struct {
	Node int    // index of the node in the configuration
	Addr string // without credentials
	News News
	// Cause is the class of Err: a server's class of error ("WRONGPASS",
	// "LOADING"), a cause of death as in Counts.Deaths, or "unreachable", "not
	// RESP", "proxy", "TLS", "not a master", "same server", "MaxTTL",
	// "permissions", or what began a quarantine, as in QuarantineError.Why. It
	// is "" if the node came up.
	Cause string
	Err   error // why the node is not up, or does not count; nil when it does
	At    time.Time
	// Warnings lists what should be changed about a node that came up and can
	// serve all the same. Nil if there are none, or the same as before.
	Warnings []string
}

// News is a node's new state.
type News uint8

const (
	// NewsUp means that the node gets every command from now on.
	NewsUp News = iota + 1
	// NewsDown means that the node has no connection.
	NewsDown
	// NewsRefused means that the node answers but may not take part as it is:
	// its role, or our credentials or permissions (R22).
	NewsRefused
	// NewsShed means that this group gave up the node's connection (R8, R26).
	NewsShed
	// NewsQuarantined means that the node is up, but its grants do not count
	// yet (R23).
	NewsQuarantined
)

var newsNames = [...]string{"", "up", "down", "refused", "shed", "quarantined"}

// String returns the state in one word; "" for zero.
func (n News) String() string { return newsNames[n] }

// tellLocked reports the node's state to OnChange, if that is news.
func (n *node) tellLocked() {
	if n.group.config.OnChange == nil {
		return
	}
	switch n.life.State {
	case Up:
		if n.group.quarantine.nodes.Has(n.index) {
			n.reportLocked(NewsQuarantined, n.trust.Why, n.trust.cause(n.group.now()).err)
			return
		}
		n.reportLocked(NewsUp, "", nil)
	case Shed:
		cause, _ := causeOf(n.fault.err)
		n.reportLocked(NewsShed, cause, n.fault.err)
	case Down:
		news := NewsDown
		cause, barred := causeOf(n.fault.err)
		if barred {
			news = NewsRefused
		}
		n.reportLocked(news, cause, n.fault.err)
	}
}

// reportLocked calls OnChange, if it is set and the cause is new.
func (n *node) reportLocked(news News, cause string, why error) {
	listener := n.group.config.OnChange
	if listener == nil || !n.told.outdated(cause) {
		return
	}
	change := Change{Node: n.index, Addr: n.addr, News: news, Cause: cause, Err: why, At: time.Now()}
	if news == NewsUp || news == NewsQuarantined {
		if !slices.Equal(n.trust.warnings, n.told.warnings) {
			change.Warnings, n.told.warnings = slices.Clone(n.trust.warnings), n.trust.warnings
		}
	}
	n.told.news, n.told.cause = news, cause
	listener(change)
}
