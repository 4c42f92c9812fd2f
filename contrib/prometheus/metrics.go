package redlockprometheus

import "github.com/prometheus/client_golang/prometheus"

// metrics are the descriptions of all metrics that a Collector sends.
type metrics struct {
	calls, handedOver, renumbered, quorumSeconds, waitSeconds, quorum *prometheus.Desc

	holds, holdsBegun, lost, led, ledLost *prometheus.Desc

	up, quarantined, quarantineLeft, debts, replyTime, warnings *prometheus.Desc

	votes, missed, late, overdue, errors *prometheus.Desc

	connects, dials, dialFailures, deaths, probes, cures, debtsTotal *prometheus.Desc

	all []*prometheus.Desc
}

func newMetrics(o Options) (m metrics) {
	add := func(to **prometheus.Desc, name, help string, labels ...string) {
		*to = prometheus.NewDesc(prometheus.BuildFQName(o.Namespace, "", name), help, labels, o.Labels)
		m.all = append(m.all, *to)
	}
	add(&m.calls, "calls_total", "Attempts, extensions and releases, by outcome, as redlock.Outcome has it.", "call", "outcome")
	add(&m.renumbered, "renumbered_total", "Attempts that asked the nodes a second time at once: their first fencing number was too low.")
	add(&m.handedOver, "handed_over_total", "Granted attempts that asked no node: another caller handed its lock over.")
	add(&m.holds, "holds", "Holds that are not released.")
	add(&m.holdsBegun, "holds_begun_total", "Holds that there were, released or not.")
	add(&m.lost, "lost_total", "Holds that were lost, by cause: not_held if a quorum did not hold the lock any more, expired if its validity ended.", "cause")
	add(&m.led, "elections_led_total", "Terms that candidates have led.")
	add(&m.ledLost, "elections_lost_total", "Terms that ended by a loss, which lost_total has too.")
	add(&m.waitSeconds, "wait_seconds", "Time from a call to Acquire, Hold or Do until it had the lock or gave up.")
	add(&m.quorumSeconds, "quorum_seconds", "Time from the start of an attempt to its quorum of grants.")
	add(&m.quorum, "quorum_nodes", "How many nodes are a quorum of those configured.")

	add(&m.up, "node_up", "1 while the node is connected and takes part, else 0.", "node")
	add(&m.quarantined, "node_quarantined", "1 while the node's grants do not count, because it may have forgotten locks, else 0.", "node")
	add(&m.quarantineLeft, "node_quarantine_left_seconds", "Time until the quarantine ends.", "node")
	add(&m.debts, "node_debts", "Releases that the node has yet to confirm.", "node")
	add(&m.replyTime, "node_reply_time_seconds", "Smoothed time to reply.", "node")
	add(&m.warnings, "node_warnings", "Number of warnings about the server's configuration; Client.Nodes lists them.", "node")

	add(&m.votes, "node_votes_total", "Votes that counted, by kind.", "node", "vote")
	add(&m.missed, "node_missed_votes_total", "Failed votes without a reply, by cause.", "node", "cause")
	add(&m.late, "node_late_replies_total", "Replies after the decision: ordinary, since a quorum was faster.", "node")
	add(&m.overdue, "node_overdue_replies_total", "Late replies to votes that had already timed out.", "node")
	add(&m.errors, "node_errors_total", "Errors that the node answered, by class.", "node", "class")

	add(&m.connects, "node_connects_total", "Connections established.", "node")
	add(&m.dials, "node_dials_total", "Attempts to connect and complete the handshake.", "node")
	add(&m.dialFailures, "node_dial_failures_total", "Attempts to connect that failed.", "node")
	add(&m.deaths, "node_deaths_total", "Connections that ended, by cause.", "node", "cause")
	add(&m.probes, "node_probes_total", "Pings sent on idle connections.", "node")
	add(&m.cures, "node_cures_total", "Commands sent again together with their scripts.", "node")
	add(&m.debtsTotal, "node_debts_total", "Releases owed to the node, by fate: made, paid, or expired with their keys.", "node", "fate")
	return m
}
