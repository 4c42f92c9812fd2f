// Package redlockprometheus exports a redlock.Client to Prometheus: outcomes of
// calls, times to a quorum, and the state of each node.
//
//	prometheus.MustRegister(redlockprometheus.NewCollector(client, redlockprometheus.Options{}))
//
// The collector reads everything from Client.Stats and Client.Nodes on each
// scrape. It keeps nothing, and costs nothing between scrapes. The number of
// label values is bounded: outcomes, causes, and the nodes' addresses without
// credentials. No label contains the name of a resource, a token or a password.
//
// Counters start at zero with each client. The counters of one scrape are
// exact, but not taken at one instant.
package redlockprometheus

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redmux/redmux/redlock"
)

// Options configure a Collector. The zero value works.
type Options struct {
	// Namespace is the prefix of each metric's name. If zero, "redlock".
	Namespace string
	// Labels are added to each metric; they must distinguish the clients of one
	// registry. The names call, outcome, node, vote, cause, class and fate are
	// taken. If nil, none.
	Labels prometheus.Labels
}

// A Collector is a prometheus.Collector of one client. The caller owns the
// client and may close it; its last numbers then remain. A Collector is safe
// for concurrent use.
type Collector struct {
	client source
	of     metrics
}

// source is what a Collector reads; *redlock.Client implements it.
type source interface {
	Stats() redlock.Stats
	Nodes() []redlock.NodeStatus
}

// NewCollector creates a Collector. Invalid options are an error when it is
// registered.
func NewCollector(client *redlock.Client, options Options) *Collector {
	if client == nil {
		panic("redlockprometheus: the client is nil")
	}
	return newCollector(client, options)
}

// made panics for a Collector that NewCollector has not made.
func (c *Collector) made() {
	if c == nil || c.client == nil {
		panic("redlockprometheus: a nil or zero Collector: NewCollector makes one")
	}
}

func newCollector(client source, options Options) *Collector {
	if options.Namespace == "" {
		options.Namespace = "redlock"
	}
	return &Collector{client, newMetrics(options)}
}

// Describe sends the descriptions of all metrics that Collect may send.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	c.made()
	for _, d := range c.of.all {
		to <- d
	}
}

// Collect reads the client's numbers. It asks no node, and waits only for a
// mutex of the client.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.made()
	stats, nodes := c.client.Stats(), c.client.Nodes()
	send := sender{to}
	c.calls(send, "attempt", stats.Attempts)
	c.calls(send, "extension", stats.Extensions)
	c.calls(send, "release", stats.Releases)
	send.counter(c.of.handedOver, stats.HandedOver)
	send.counter(c.of.renumbered, stats.Renumbered)
	send.gauge(c.of.holds, float64(stats.Holds))
	send.counter(c.of.holdsBegun, stats.HoldsBegun)
	for cause, n := range stats.Losses() {
		send.counter(c.of.lost, n, cause)
	}
	send.counter(c.of.led, stats.ElectionsLed)
	send.counter(c.of.ledLost, stats.ElectionsLost)
	to <- seconds(c.of.quorumSeconds, stats.Quorum)
	to <- seconds(c.of.waitSeconds, stats.Waits)
	send.gauge(c.of.quorum, float64(len(nodes)/2+1))
	for _, n := range nodes {
		if !utf8.ValidString(n.Addr) {
			n.Addr = strconv.Quote(n.Addr) // a socket's path may have any bytes, a label's value may not
		}
		c.state(send, n)
		c.votes(send, n)
		c.connections(send, n)
	}
}

func (c *Collector) calls(send sender, call string, o redlock.CallCounts) {
	for outcome, n := range o.All() {
		send.counter(c.of.calls, n, call, outcome)
	}
}

// state sends the current state of a node.
func (c *Collector) state(send sender, n redlock.NodeStatus) {
	send.gauge(c.of.up, digit(n.State == "up"), n.Addr)
	send.gauge(c.of.quarantined, digit(n.Quarantined), n.Addr)
	send.gauge(c.of.quarantineLeft, n.QuarantineLeft.Seconds(), n.Addr)
	send.gauge(c.of.debts, float64(n.Debts), n.Addr)
	send.gauge(c.of.replyTime, n.ReplyTime.Seconds(), n.Addr)
	send.gauge(c.of.warnings, float64(len(n.Warnings)), n.Addr)
}

// votes sends the node's answers, and why answers are missing.
func (c *Collector) votes(send sender, n redlock.NodeStatus) {
	counts := &n.Counts
	send.counter(c.of.votes, counts.Granted, n.Addr, "granted")
	send.counter(c.of.votes, counts.Refused, n.Addr, "refused")
	send.counter(c.of.votes, counts.Failed, n.Addr, "failed")
	send.counter(c.of.missed, counts.TimedOut, n.Addr, "timed_out")
	send.counter(c.of.missed, counts.Absent, n.Addr, "absent")
	send.counter(c.of.missed, counts.Quarantined, n.Addr, "quarantined")
	send.counter(c.of.late, counts.Late, n.Addr)
	send.counter(c.of.overdue, counts.Overdue, n.Addr)
	for class, count := range counts.Errors {
		send.counter(c.of.errors, count, n.Addr, class)
	}
}

// connections sends the connections to a node, and the debts they left.
func (c *Collector) connections(send sender, n redlock.NodeStatus) {
	counts := &n.Counts
	send.counter(c.of.connects, uint64(max(n.Connects, 0)), n.Addr)
	send.counter(c.of.dials, counts.Dials, n.Addr)
	send.counter(c.of.dialFailures, counts.DialFailures, n.Addr)
	for cause, count := range counts.Deaths {
		send.counter(c.of.deaths, count, n.Addr, cause)
	}
	send.counter(c.of.probes, counts.Probes, n.Addr)
	send.counter(c.of.cures, counts.Cures, n.Addr)
	send.counter(c.of.debtsTotal, counts.DebtsMade, n.Addr, "made")
	send.counter(c.of.debtsTotal, counts.DebtsPaid, n.Addr, "paid")
	send.counter(c.of.debtsTotal, counts.DebtsExpired, n.Addr, "expired")
}

// seconds converts a histogram to the form of Prometheus: cumulative, in
// seconds, and without the last bucket, which is open. The counts are of one
// snapshot, so they add up.
func seconds(d *prometheus.Desc, h redlock.Histogram) prometheus.Metric {
	closed := h.Counts[:len(h.Counts)-1]
	buckets := make(map[float64]uint64, len(closed))
	var below uint64
	for i, n := range closed {
		below += n
		buckets[h.Bound(i).Seconds()] = below
	}
	return prometheus.MustNewConstHistogram(d, h.Total(), h.Sum.Seconds(), buckets)
}

func digit(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// sender creates metrics from numbers and sends them.
type sender struct{ to chan<- prometheus.Metric }

func (s sender) counter(d *prometheus.Desc, n uint64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s sender) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
