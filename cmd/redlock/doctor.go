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

	"github.com/redmux/redmux/cmd/redlock/internal/doctor"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/redlock"
)

// doctorCommand holds the deployment against what the algorithm demands of it.
type doctorCommand struct {
	TTL     *time.Duration `name:"ttl" placeholder:"DURATION" help:"The shortest TTL in use, to hold round trips and clocks against (10s, or --max-ttl if that is less)."`
	Observe time.Duration  `default:"2s" help:"How long clocks are watched for their rate; 0 for not at all (${default})."`
	Strict  bool           `help:"Warnings are a failure, too."`
	JSON    bool           `name:"json" help:"Print JSON."`
	List    bool           `help:"List the checks, and make none."`
}

// Help is what --help shows below the first line.
func (*doctorCommand) Help() string {
	return `Asks each master what it is, how it is set up, how its clock goes and what this user may do there, and holds that against what the algorithm demands. Nothing is changed: what would write is put to a key that is not there, in a form that does nothing. Each finding says what was seen, node by node, why it matters, and what to change. The levels are

    unsafe    two clients can hold one lock, or none can get any
    warning   it works, and becomes unsafe when something else happens that does happen
    note      worth knowing

What this user may not ask is listed as unknown: an operator's user can tell more than the one that locks are taken with. Give the same --nodes, --prefix, --max-ttl and --durable as the clients have.

On a sound deployment there is one line. Exit code: 0 nothing worse than warnings was found, 1 warnings with --strict, 2 unsafe.

Examples:

    redlock doctor --max-ttl 60s
    redlock doctor --max-ttl 60s --ttl 10s --strict
    redlock doctor --json | jq -r '.findings[] | .level + " " + .check'
    redlock doctor --list
`
}

// Validate refuses what makes no sense. Package kong calls it.
func (c *doctorCommand) Validate() error {
	switch {
	case c.TTL != nil && *c.TTL < time.Millisecond:
		return errors.New("--ttl must be 1ms at least")
	case c.Observe < 0:
		return errors.New("--observe is negative")
	}
	return nil
}

// usualTTL is what deployments are examined for where no TTL is given.
const usualTTL = 10 * time.Second

// ttl is what to examine the deployment for. Where MaxTTL is shorter than the usual no client uses that.
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
		return err // half of the answers are missing
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

// list tells which checks there are. Their names are those in findings.
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

// gather asks the nodes. The client beside the probes has no MaxTTL, so that it writes no seals, and tells what the library
// itself makes of the nodes.
func (c *doctorCommand) gather(ctx context.Context, p *process, d *deployment) (doctor.Deployment, error) {
	all := doctor.Deployment{TTL: c.ttl(d), MaxTTL: d.MaxTTL, Watched: c.Observe > 0}
	probes, err := d.probes(p)
	if err != nil {
		return all, err
	}
	defer closeAll(probes)
	config, err := d.config(p)
	if err != nil {
		return all, err
	}
	config.MaxTTL, config.NewDeployment = 0, false
	clocks := newClocks(len(probes))
	var status []redlock.NodeStatus
	var facts []probe.Facts
	looked := make(chan struct{}) // closed when there are facts
	var asking sync.WaitGroup
	asking.Go(func() {
		var client *redlock.Client
		if client, err = d.open(ctx, config); err == nil {
			defer shut(client)
			// What the probe has not reached has no vote, whatever the client says.
			d.settle(ctx, client, d.Timeout, func(i int) bool {
				select {
				case <-looked:
					return facts[i].Err != nil
				default:
					return false
				}
			})
			status = client.Nodes()
		}
	})
	facts = clocks.look(ctx, d, probes)
	close(looked)
	asking.Wait()
	if err != nil {
		return all, err
	}
	if c.Observe > 0 {
		for range 2 { // three bursts: a rate, and whether it was a step
			pause(ctx, c.Observe/2)
			d.forEach(ctx, probes, func(ctx context.Context, i int, node *probe.Probe) {
				if facts[i].Err == nil { // who was silent once need not be waited for again
					clocks.sample(ctx, i, node)
				}
			})
		}
	}
	for i := range facts {
		n := doctor.Node{Facts: facts[i], Declared: slices.Contains(d.Durable, d.Nodes[i])}
		n.Clock, n.ClockKnown = clocks.of(i)
		if status[i].State != "up" {
			n.Refused = cmp.Or(status[i].Err, errNotUp)
		}
		all.Nodes = append(all.Nodes, n)
	}
	return all, nil
}

// errNotUp is a node of which the library has nothing to say but that it is not there.
var errNotUp = errors.New("the connection is not made yet")

// reportText shows a report to people.
func reportText(place screen, r doctor.Report) string {
	var out strings.Builder
	paint := map[doctor.Level]colour{doctor.Unsafe: red, doctor.Warning: yellow, doctor.Note: bold}
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "%s %s (%s)\n", place.paint(paint[f.Level], strings.ToUpper(string(f.Level))+":"), plain(f.Found), f.Check)
		writeSights(&out, f.Seen)
		fmt.Fprintf(&out, "  Why:    %s.\n  Change: %s.\n\n", f.Why, f.Change)
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&out, "unknown: %s (%s)\n", u.Why, u.Check)
		writeSights(&out, u.Seen)
		out.WriteString("\n")
	}
	return out.String() + summary(r) + "\n"
}

func writeSights(out *strings.Builder, seen []doctor.Sight) {
	for _, s := range seen {
		fmt.Fprintf(out, "  %s: %s\n", plain(s.Addr), plain(s.What))
	}
}

// summary is the last line, and on a sound deployment the only one.
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
