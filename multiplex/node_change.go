package multiplex

import (
	"errors"
	"slices"
	"time"
)

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
	if errors.Is(cause, ErrUnopened) && (!g.triedLocked() || g.members.Opening()) {
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
