package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/cmd/internal/printable"
	"github.com/redmux/redmux/cmd/redlock/internal/doctor"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// doctorCommand compares the deployment with what the algorithm demands.
type doctorCommand struct {
	TTL     *time.Duration `name:"ttl" placeholder:"DURATION" help:"The shortest TTL in use, with which round trips and clocks are compared (10s, or --max-ttl if that is less)."`
	Observe time.Duration  `default:"2s" help:"How long to measure the rates of the clocks; 0 turns it off (${default})."`
	Strict  bool           `help:"Fail on warnings too."`
	JSON    bool           `name:"json" help:"Print JSON."`
	List    bool           `help:"List the checks without making them."`
}

// Help is what --help shows below the first line.
func (*doctorCommand) Help() string {
	return `Asks each master what it is, how it is set up, how its clock runs and what this user may do there, and compares that with what the algorithm demands. Nothing is changed: commands that would write are tried on a key that does not exist, in a form that does nothing. Each finding says what was seen, node by node, why it matters, and what to change. The levels are

    unsafe    two clients can hold one lock, or no client can get any
    warning   it works, but an ordinary event such as a restart makes it unsafe
    note      worth knowing

What this user may not ask is listed as unknown; an operator's user may ask more than the user that takes locks. Give the same --nodes, --prefix, --max-ttl and --durable as the clients have.

Then follows where each master stands: when its process started, by its own account, the deployment that it belongs to, and how long and why its grants will not count for a client that starts now.

For a sound deployment that and one line are all of the output. Exit code: 0 nothing worse than warnings was found, 1 warnings with --strict, 2 unsafe.

Examples:

    redlock doctor
    redlock doctor --max-ttl 10m --ttl 1m --strict
    redlock doctor --json | jq -r '.findings[] | .level + " " + .check'
    redlock doctor --list
`
}

// Validate is called by package kong.
func (c *doctorCommand) Validate() error {
	switch {
	case c.TTL != nil && *c.TTL < time.Millisecond:
		return errors.New("--ttl must be at least 1ms")
	case c.Observe < 0:
		return errtext.Negative("--observe", c.Observe)
	}
	return nil
}

// usualTTL is the TTL that deployments are examined for by default.
const usualTTL = 10 * time.Second

// ttl returns the TTL to examine the deployment for. If MaxTTL is shorter than
// usualTTL, no client uses that.
func (c *doctorCommand) ttl(d *deployment) time.Duration {
	switch {
	case c.TTL != nil:
		return *c.TTL
	case d.MaxTTL > 0:
		return min(usualTTL, d.MaxTTL)
	default:
		return usualTTL
	}
}

// exitWarned is for warnings with --strict.
const exitWarned = 1

// Run is the command.
func (c *doctorCommand) Run(p *process, d *deployment) error {
	if c.List {
		return c.list(p)
	}
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	facts, err := c.gather(ctx, p, d)
	if err != nil {
		return err
	}
	if err := interrupted(ctx); err != nil {
		return err // answers are missing
	}
	report := doctor.Examine(facts)
	if c.JSON {
		err = printJSON(p.stdout, report, true)
	} else {
		_, err = fmt.Fprint(p.stdout, reportText(screenOf(p.stdout), report))
	}
	switch {
	case err != nil:
		return err
	case report.Has(doctor.Unsafe):
		return &exitError{code: exitUnsafe}
	case c.Strict && report.Has(doctor.Warning):
		return &exitError{code: exitWarned}
	}
	return nil
}

// list prints the checks, by the names that findings have.
func (c *doctorCommand) list(p *process) error {
	if c.JSON {
		return printJSON(p.stdout, doctor.Checks(), true)
	}
	rows := [][]string{{"CHECK", "WANTS"}}
	for _, check := range doctor.Checks() {
		rows = append(rows, []string{check.Name, check.Wants})
	}
	return write(p.stdout, table(rows))
}

// gather asks the nodes. Beside the probes there is a client, which says what
// the library thinks of the nodes.
func (c *doctorCommand) gather(ctx context.Context, p *process, d *deployment) (doctor.Deployment, error) {
	all := doctor.Deployment{TTL: c.ttl(d), MaxTTL: d.longest(), Watched: c.Observe > 0}
	probes, err := d.probes(p)
	if err != nil {
		return all, err
	}
	defer closeAll(probes)
	answered := p.tellIfSlow()
	defer answered()
	clocks := newClocks(len(probes))
	facts, status, err := lookBoth(ctx, p, d, probes, clocks)
	if err != nil {
		return all, err
	}
	d.forEach(ctx, probes, func(ctx context.Context, i int, node *probe.Probe) {
		if facts[i].Err == nil {
			facts[i].Others = node.Others(ctx, facts[i].RunID())
		}
	})
	d.forEach(ctx, probes, func(ctx context.Context, i int, node *probe.Probe) {
		facts[i].Around = node.LookAround(ctx, &facts[i])
	})
	answered()
	if c.Observe > 0 {
		for range 2 { // with the first, three bursts: a rate, and whether it was a step
			pause(ctx, c.Observe/2)
			d.forEach(ctx, probes, func(ctx context.Context, i int, node *probe.Probe) {
				if facts[i].Err == nil { // do not wait again for a node that did not answer
					clocks.sample(ctx, i, node)
				}
			})
		}
	}
	for i := range facts {
		n := doctor.Node{Declared: slices.Contains(d.Durable, d.Nodes[i])}
		n.Facts = facts[i]
		n.Clock, n.ClockKnown = clocks.of(i)
		if status[i].State != "up" {
			n.Refused = cmp.Or(status[i].Err, errNotUp)
		}
		all.Nodes = append(all.Nodes, n)
	}
	return all, nil
}

// lookBoth has the probes and a client look at the nodes at one time. The
// client is forgetful, so it writes no seals.
func lookBoth(ctx context.Context, p *process, d *deployment, probes []*probe.Probe, clocks *clocks) (facts []probe.Facts, status []redlock.NodeStatus, err error) {
	config, err := d.config(p)
	if err != nil {
		return nil, nil, err
	}
	lockless(&config)
	looked := make(chan struct{}) // closed when there are facts
	var asking sync.WaitGroup
	asking.Go(func() {
		var client *redlock.Client
		if client, err = d.open(ctx, config); err != nil {
			return
		}
		defer shut(client)
		// A node that the probe has not reached has no vote, whatever the
		// client says.
		d.settle(ctx, client, d.Timeout, func(i int) bool {
			select {
			case <-looked:
				return facts[i].Err != nil
			default:
				return false
			}
		})
		status = client.Nodes()
	})
	facts = clocks.look(ctx, d, probes, d.Timeout, nil)
	close(looked)
	asking.Wait()
	return facts, status, err
}

// errNotUp is the error of a node of which the library knows only that it is
// not up.
var errNotUp = errors.New("it is not connected yet")

// reportText formats a report for people.
func reportText(place screen, r doctor.Report) string {
	var out strings.Builder
	paint := map[doctor.Level]colour{doctor.Unsafe: red, doctor.Warning: yellow, doctor.Note: bold}
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "%s %s (%s)\n", place.paint(paint[f.Level], strings.ToUpper(string(f.Level))+":"), plain(f.Found), f.Check)
		writeSights(&out, f.Seen)
		fmt.Fprintf(&out, "  Why:    %s.\n  Change: %s.\n\n", printable.Line(f.Why, maxLine), printable.Line(f.Change, maxLine))
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&out, "unknown: %s (%s)\n", printable.Line(u.Why, maxLine), u.Check)
		writeSights(&out, u.Seen)
		out.WriteString("\n")
	}
	return out.String() + place.table(mastersRows(r.Masters)) + "\n" + summary(r) + "\n"
}

// mastersRows say where each master stands.
func mastersRows(masters []doctor.Master) [][]string {
	rows := [][]string{{"MASTER", "STARTED", "DEPLOYMENT", "QUARANTINE"}}
	for _, m := range masters {
		row := []string{m.Addr, "", "", m.Why}
		if m.Started {
			row[1] = startText(m.Uptime)
		}
		if m.Deployment != "" {
			row[2] = fmt.Sprintf("%s of %d", m.Deployment, m.Size)
		}
		if m.Quarantine > 0 {
			row[3] = quarantineText(m.Quarantine, m.Why)
		}
		rows = append(rows, row)
	}
	return rows
}

func writeSights(out *strings.Builder, seen []doctor.Sight) {
	for _, s := range seen {
		fmt.Fprintf(out, "  %s: %s\n", plain(s.Addr), plain(s.What))
	}
}

// summary is the last line.
func summary(r doctor.Report) string {
	made := fmt.Sprintf("%s, %s", count(r.Nodes, "node"), count(r.Checks, "check"))
	var parts []string
	for _, level := range []doctor.Level{doctor.Unsafe, doctor.Warning, doctor.Note} {
		n := 0
		for _, f := range r.Findings {
			if f.Level == level {
				n++
			}
		}
		switch {
		case n > 0 && level == doctor.Unsafe:
			parts = append(parts, fmt.Sprintf("%d unsafe", n))
		case n > 0:
			parts = append(parts, count(n, string(level)))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing found")
	}
	if n := len(r.Unknown); n > 0 {
		parts = append(parts, fmt.Sprintf("%d unknown", n))
	}
	return made + ": " + strings.Join(parts, ", ")
}
