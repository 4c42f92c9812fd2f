package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// nodesCommand shows what the masters are and how they are doing.
type nodesCommand struct {
	watching
	Observe time.Duration `default:"1s" help:"How long to measure the rates of the clocks; 0 turns it off (${default})."`
}

// Help is what --help shows below the first line.
func (*nodesCommand) Help() string {
	return `Shows for each master:

    STATE        as a client of the library sees it: up, or why not
    ROLE         master, or what it is instead
    SERVER       product and version
    RTT          the median round trip
    OFFSET       how far its time of day is ahead of ours, and the error of
                 that; by itself harmless to locks
    RATE         how much faster than ours its clock runs, and the error of
                 that; locks allow for 1 %
    EVICTION     the policy; anything but noeviction may delete locks
    PERSISTENCE  what a crash leaves: "aof always" loses nothing
    STARTED      when its process started, by its own account
    DEPLOYMENT   the first digits of the id of the deployment that it belongs
                 to, and how many masters that has; the whole id is in the JSON
    QUARANTINE   how long its grants will not count for a client that starts
                 now, and why; a client that has watched the master for longer
                 counts it earlier

A question mark means that this user may not ask. Give the same --nodes, --prefix, --max-ttl and --durable as the clients have. Nothing is changed: this command neither opens the deployment nor seals masters.

Exit code: 0, or 69 if less than a quorum is up. With --watch, an interrupt ends with 0.

Examples:

    redlock nodes --watch
    redlock nodes --json | jq '.nodes[] | select(.state != "up")'
    redlock nodes --json | jq -r '.nodes[] | .addr + " " + .deployment'
`
}

// Validate refuses what makes no sense. Package kong calls it.
func (c *nodesCommand) Validate() error {
	if c.Observe < 0 {
		return errtext.Negative("--observe", c.Observe)
	}
	return c.watching.Validate()
}

// Run is the command.
func (c *nodesCommand) Run(p *process, d *deployment) error {
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	probes, err := d.probes(p)
	if err != nil {
		return err
	}
	defer closeAll(probes)
	config, err := d.config(p)
	if err != nil {
		return err
	}
	lockless(&config) // see observer
	answered := p.tellIfSlow()
	defer func() { answered() }()
	client, err := d.open(ctx, config)
	if err != nil {
		return err
	}
	defer shut(client)
	clocks, watch := newClocks(len(probes)), d.observe(probes)
	var settled sync.WaitGroup
	settled.Go(func() { d.settle(ctx, client, hungGrace, nil) })
	var first []probe.Facts
	if c.Observe > 0 {
		first = clocks.look(ctx, d, probes, hungGrace, nil)
		watch.look(first, clocks.of)
		answered() // what follows takes its time, whatever the masters do
		pause(ctx, c.Observe)
		answered = p.tellIfSlow()
	}
	place := screenOf(p.stdout)
	return c.show(ctx, p, func(ctx context.Context) (view, error) {
		facts := clocks.look(ctx, d, probes, hungGrace, first)
		watch.look(facts, clocks.of)
		settled.Wait()
		answered()
		first = nil // a watch asks them again
		v, up := nodesView(place, facts, client.Nodes(), clocks, watch)
		if quorum := multiplex.Quorum(len(probes)); up < quorum {
			return v, &exitError{exitNoQuorum, fmt.Errorf("%d of %s up, a quorum is %d", up, count(len(probes), "node"), quorum)}
		}
		return v, nil
	})
}

// pause waits, at most until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// clocks are the samples of all nodes' clocks. Only the first burst and the
// newest are kept: the rate gets more exact over time, and a step is seen soon.
type clocks struct {
	bursts [][][]probe.Sample // by node
}

const (
	// burst is how many samples are taken at once. The quickest counts.
	burst = 8
	// keptBursts bounds what a long watch keeps of each node.
	keptBursts = 32
)

func newClocks(n int) *clocks { return &clocks{make([][][]probe.Sample, n)} }

// hungGrace is how long a node is waited for that does not answer while a quorum
// has.
const hungGrace = time.Second

// look takes a burst of samples of each node, and asks it for everything else.
// It does not ask nodes again that did not answer before, a moment ago; before
// may be nil.
func (c *clocks) look(ctx context.Context, d *deployment, probes []*probe.Probe, grace time.Duration, before []probe.Facts) []probe.Facts {
	facts := make([]probe.Facts, len(probes))
	begun := time.Now()
	d.forEachSoon(ctx, probes, grace, func(ctx context.Context, i int, node *probe.Probe) {
		if before != nil && errors.Is(before[i].Err, errHung) {
			facts[i] = before[i]
			return
		}
		// On a slow network a burst is cut short, so that there is time for the
		// rest.
		quick, cancel := context.WithTimeout(ctx, d.Timeout/3)
		defer cancel()
		c.sample(quick, i, node)
		if facts[i] = node.Look(ctx); facts[i].Err != nil && ctx.Err() != nil {
			facts[i].Err = fmt.Errorf("%w within %v", errHung, time.Since(begun).Round(100*time.Millisecond))
		}
	})
	return facts
}

// errHung is the cause if a node did not answer in time.
var errHung = errors.New("no answer")

// sample takes a burst of one node, or as much of it as there is time for.
// Faults of the node show elsewhere.
func (c *clocks) sample(ctx context.Context, i int, node *probe.Probe) {
	samples, _ := node.Clock(ctx, burst)
	if len(samples) == 0 {
		return
	}
	if all := c.bursts[i]; len(all) == keptBursts {
		c.bursts[i] = append(all[:1:1], all[2:]...)
	}
	c.bursts[i] = append(c.bursts[i], samples)
}

func (c *clocks) of(i int) (probe.Clock, bool) { return probe.Estimate(c.bursts[i]) }

// nodeView is one node, for programs. What is unknown is missing.
type nodeView struct {
	Addr          string     `json:"addr"`
	Found         string     `json:"found,omitempty"` // the server's address, by the sentinels or the cluster at Addr
	State         string     `json:"state"`
	Role          string     `json:"role,omitempty"`
	Product       string     `json:"product,omitempty"`
	Version       string     `json:"version,omitempty"`
	RunID         string     `json:"run_id,omitempty"`
	UptimeS       *float64   `json:"uptime_s,omitempty"`
	Started       *time.Time `json:"started,omitempty"`
	RoundTripMS   *float64   `json:"round_trip_ms,omitempty"`
	OffsetMS      *float64   `json:"clock_offset_ms,omitempty"`
	OffsetErrMS   *float64   `json:"clock_offset_error_ms,omitempty"`
	Rate          *float64   `json:"clock_rate,omitempty"` // 0.01 is one percent fast
	RateErr       *float64   `json:"clock_rate_error,omitempty"`
	Eviction      string     `json:"eviction,omitempty"`
	Persistence   string     `json:"persistence,omitempty"`
	Quarantined   bool       `json:"quarantined"`
	QuarantineS   *float64   `json:"quarantine_left_s,omitempty"`
	QuarantineWhy string     `json:"quarantine_why,omitempty"`
	Deployment    string     `json:"deployment,omitempty"` // its id
	Size          int        `json:"deployment_nodes,omitempty"`
	Sealed        bool       `json:"sealed"` // there is a seal of the process that runs there
	Debts         int        `json:"debts"`  // releases that it has yet to confirm
	FailsOver     bool       `json:"fails_over,omitempty"`
	BoundS        *float64   `json:"failover_bound_s,omitempty"` // missing if nothing is known to bound a former primary
	Warnings      []string   `json:"warnings,omitempty"`
	Error         string     `json:"error,omitempty"`
}

// nodesReport are all nodes, for programs.
type nodesReport struct {
	At     time.Time  `json:"at"`
	Quorum int        `json:"quorum"`
	Up     int        `json:"up"`
	Nodes  []nodeView `json:"nodes"`
}

// nodesView returns the view of the nodes, and how many are up.
func nodesView(place screen, facts []probe.Facts, status []redlock.NodeStatus, c *clocks, o *observer) (view, int) {
	r := nodesReport{At: time.Now(), Quorum: multiplex.Quorum(len(facts))}
	rows := [][]string{{"NODE", "STATE", "ROLE", "SERVER", "STARTED", "RTT", "OFFSET", "RATE", "EVICTION", "PERSISTENCE", "DEPLOYMENT", "QUARANTINE"}}
	var remarks strings.Builder
	for i := range facts {
		n, row := nodeViewOf(&facts[i], &status[i], c, o, i)
		r.Nodes, rows = append(r.Nodes, n), append(rows, row)
		if n.State == "up" {
			r.Up++
		}
		if n.Error != "" {
			fmt.Fprintf(&remarks, "%s %s\n", place.paint(red, plain(n.Addr)+":"), n.Error)
		}
		for _, w := range n.Warnings {
			fmt.Fprintf(&remarks, "%s %s\n", place.paint(yellow, plain(n.Addr)+":"), plain(w))
		}
	}
	page := place.table(rows)
	if remarks.Len() > 0 {
		page += "\n" + remarks.String()
	}
	return view{page: page, line: nodesLine(r), json: r}, r.Up
}

// nodesLine says in one line which nodes are not well.
func nodesLine(r nodesReport) string {
	line := fmt.Sprintf("%d of %s up", r.Up, count(len(r.Nodes), "node"))
	for _, n := range r.Nodes {
		switch {
		case n.State != "up":
			line += fmt.Sprintf("; %s %s", plain(n.Addr), n.State)
		case n.Quarantined:
			line += fmt.Sprintf("; %s quarantined", plain(n.Addr))
		}
	}
	return line
}

// nodeViewOf returns one node, for programs and as a row of the table.
func nodeViewOf(f *probe.Facts, s *redlock.NodeStatus, c *clocks, o *observer, i int) (nodeView, []string) {
	n := nodeView{Addr: s.Addr, State: string(s.State), Debts: s.Debts, Error: errorText(cmp.Or(s.Err, f.Err))}
	for _, w := range s.Warnings {
		if w != multiplex.WarnForgetful || o.forgetful { // our own client takes no lock
			n.Warnings = append(n.Warnings, w)
		}
	}
	if n.FailsOver = s.FailsOver; s.FailoverBound > 0 {
		n.BoundS = number(s.FailoverBound.Seconds())
	}
	unknown := "?"
	if f.Err != nil {
		unknown = ""
	}
	row := []string{n.Addr, n.State, unknown, unknown, unknown, "", "", "", unknown, unknown, "", ""}
	if f.Err == nil {
		n.Role, n.Product, n.Version, n.RunID = roleOf(f), f.Server.Product, f.Server.Version, f.RunID()
		n.Found, n.Eviction, n.Persistence = f.Server.Addr, f.Policy(), persistence(f)
		row[2], row[3] = cmp.Or(n.Role, "?"), cmp.Or(strings.TrimSpace(n.Product+" "+n.Version), "?")
		if n.Found != "" {
			row[3] += " at " + plain(n.Found)
		}
		row[8], row[9] = cmp.Or(n.Eviction, "?"), cmp.Or(n.Persistence, "?")
		if up, ok := f.Uptime(); ok {
			row[4] = n.showStart(up)
		}
	}
	if clock, ok := c.of(i); ok && f.Err == nil {
		row[5], row[6], row[7] = n.showClock(clock)
	}
	row[10], row[11] = n.showDeployment(f, o, i)
	return n, row
}

// showStart formats when the process started, to the second: short if it was
// today.
func (n *nodeView) showStart(up time.Duration) string {
	started := time.Now().Add(-up).Truncate(time.Second)
	n.UptimeS, n.Started = number(up.Seconds()), &started
	return startText(up)
}

func startText(up time.Duration) string {
	if up < 24*time.Hour {
		return fmt.Sprintf("%v ago", up)
	}
	return time.Now().Add(-up).Format(time.DateTime)
}

// shownDigits is how many digits of a deployment's id the table has.
const shownDigits = 8

// showDeployment formats the deployment, and the quarantine.
func (n *nodeView) showDeployment(f *probe.Facts, o *observer, i int) (id, quarantine string) {
	n.Deployment, n.Size = o.deploymentOf(i)
	n.Sealed = f.Seal.Open.ID != "" && f.Seal.Run == f.Process() && f.Err == nil
	if n.Deployment != "" {
		id = fmt.Sprintf("%s of %d", n.Deployment[:shownDigits], n.Size)
	}
	left, why := o.standing(i)
	if n.Quarantined, n.QuarantineWhy = why != "", why; !n.Quarantined {
		return id, ""
	}
	if left > 0 {
		n.QuarantineS = number(left.Seconds())
		return id, quarantineText(left, why)
	}
	return id, why
}

func quarantineText(left time.Duration, why string) string {
	return fmt.Sprintf("%v, %s", left.Round(100*time.Millisecond), why)
}

// showClock formats the round trip, the offset and the rate, with their errors.
func (n *nodeView) showClock(c probe.Clock) (trip, offset, rate string) {
	n.RoundTripMS, n.OffsetMS, n.OffsetErrMS =
		msNumber(c.RoundTrip), msNumber(c.Ahead), msNumber(c.AheadError)
	trip = fmt.Sprintf("%.2fms", milliseconds(c.RoundTrip))
	offset = fmt.Sprintf("%+.2fms ±%.2f", milliseconds(c.Ahead), milliseconds(c.AheadError))
	if c.Span > 0 {
		difference, wrong := c.Rate()
		n.Rate, n.RateErr = &difference, &wrong
		rate = fmt.Sprintf("%+.3f%% ±%.3f", difference*100, wrong*100)
	}
	// A smaller gain is a clock that a time server corrects, not one that was
	// set.
	if c.Stepped && max(c.Gained, -c.Gained) >= time.Millisecond {
		rate = fmt.Sprintf("stepped %v", c.Gained.Round(time.Millisecond))
	}
	return trip, offset, rate
}

// roleOf returns the role of the node in a word.
func roleOf(f *probe.Facts) string {
	switch {
	case f.Server.Mode == "sentinel":
		return "sentinel"
	case f.Clustered():
		return "cluster " + f.Role()
	default:
		return f.Role()
	}
}

// persistence returns what survives a crash: the append-only file and how it is
// written, snapshots, or nothing.
func persistence(f *probe.Facts) string {
	save, asked := f.Config["save"]
	switch {
	case f.Info["aof_enabled"] == "1" && f.Config["appendfsync"] == "always" && f.Config["no-appendfsync-on-rewrite"] == "yes":
		return "aof always but in saves"
	case f.Info["aof_enabled"] == "1":
		return strings.TrimSpace("aof " + f.Config["appendfsync"])
	case f.Info["aof_enabled"] == "":
		return ""
	case !asked:
		return "no aof"
	case save != "":
		return "snapshots"
	default:
		return "none"
	}
}

func number(f float64) *float64 { return &f }
