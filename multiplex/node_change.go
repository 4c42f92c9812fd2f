package multiplex

import (
	"slices"
	"time"
)

// A Change is news of a node: it came up, or it is not up any more, or not for the same cause as before. A node that is
// dialed again and again in vain is told of once, with the first cause, and once more for each cause of another class.
type Change struct {
	Node int    // index of the node in the configuration
	Addr string // without credentials
	News News
	// Cause is the class of Err: a server's class of error ("WRONGPASS", "LOADING"), a cause of death as in Counts.Deaths, or
	// "unreachable", "not RESP", "proxy", "TLS", "not a master", "same server", "MaxTTL", "permissions", or what began a quarantine, as
	// QuarantineError.Why has it. "" when the node came up.
	Cause string
	Err   error // why the node is not up, or does not count; nil when it does
	At    time.Time
	// Warnings are what ought to be changed about a node that came up and can serve all the same. Nil if there are none, or
	// the same as before.
	Warnings []string
}

// News is what became of a node.
type News uint8

const (
	// NewsUp is a node that gets every command from now on.
	NewsUp News = iota + 1
	// NewsDown is a node without a connection.
	NewsDown
	// NewsRefused is a node that is there, but may not take part as it is: its role, our credentials or permissions (R22).
	NewsRefused
	// NewsShed is a node whose connection was given up here (R8, R26).
	NewsShed
	// NewsQuarantined is a node that is up, and whose grants do not count yet (R23).
	NewsQuarantined
)

var newsNames = [...]string{"", "up", "down", "refused", "shed", "quarantined"}

// String is one word; empty when nothing was told yet.
func (n News) String() string { return newsNames[n] }

// A telling is what was told last of a node.
type telling struct {
	news     News
	cause    string
	warnings []string
}

// outdated reports whether there is anything to tell: up has no cause, and everything else has one, so causes say it all.
// That a connection which was shed is then dead goes without saying.
func (t telling) outdated(cause string) bool { return t.news == 0 || t.cause != cause }

// tell tells who listens what became of the node, if that is news. The caller holds the mutex.
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

// announce tells one change, if somebody listens and it is one. The caller holds the mutex.
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
