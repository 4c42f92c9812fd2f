package multiplex

import (
	"slices"
	"time"
)

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
