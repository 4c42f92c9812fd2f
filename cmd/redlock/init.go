package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// initCommand opens the deployment (R30).
type initCommand struct {
	Replace []string `placeholder:"ID" help:"The id of a deployment that is over: its masters are used again. Stop its clients first."`
	JSON    bool     `name:"json" help:"Print the outcome as JSON, even if nothing was opened. The message on standard error and the exit code stay the same."`
}

// Help is what --help shows below the first line.
func (*initCommand) Help() string {
	return `Writes the id of the deployment, those of its masters and MaxTTL on every master. From then on, clients that name other masters, another number of them or another --max-ttl are refused, and a master that restarts does not count until no lock from before can be valid. Locks can be taken at once: this command declares that no client holds a lock there.

Without it, the first client does the same, but declares nothing: it then waits until the masters have run for as long as --max-ttl.

All masters must be reachable, and none in use. If one is not, nothing is written, and what was found at each is printed. If they are this very deployment already, that is said, and is a success.

Never run it from what starts the masters. After a loss of power they are empty, and clients that are still alive may hold locks: this command would declare that none do. Without it, the clients open them anew, once all are there, and wait as long as they must.

With --replace, masters of another deployment are taken over. Stop all clients of that deployment first: their locks may be granted again while they work, and they are refused only when they notice, which takes seconds. The new deployment then waits once for as long as --max-ttl, until no old lock can be valid. Do not leave the flag in a script.

Exit code: 0 the deployment is open, 69 a master cannot be reached, 78 masters are in use or only some of them belong to one deployment, or they have another MaxTTL.

With --json, the outcome is one of opened, already_open, in_use, no_quorum, interrupted and failed. The fields deployment, deployment_nodes and max_ttl_s describe the deployment, and nodes is a list with addr, found, and quarantine_left_s while a master does not count.

Examples:

    redlock init
    redlock init --max-ttl 10m
    redlock init --replace 2f0c4a1de59b8c7760a1f3d2b4e69785
    redlock init --json | jq -r .deployment
`
}

// Validate is called by package kong.
func (c *initCommand) Validate() error {
	for _, id := range c.Replace {
		if len(id) != idDigits || strings.Trim(id, "0123456789abcdef") != "" {
			return fmt.Errorf("--replace: %s is not the id of a deployment, which has %d hexadecimal digits (see redlock nodes --json)", quoted(id), idDigits)
		}
	}
	return nil
}

// idDigits is the length of a deployment's id.
const idDigits = 32

// initReport is the outcome for programs.
type initReport struct {
	At         time.Time  `json:"at"`
	Outcome    string     `json:"outcome"`
	ExitCode   int        `json:"exit_code"`
	Error      string     `json:"error,omitempty"`
	Deployment string     `json:"deployment,omitempty"`
	Size       int        `json:"deployment_nodes,omitempty"`
	MaxTTL     *float64   `json:"max_ttl_s,omitempty"`
	Nodes      []initNode `json:"nodes"`
}

// initNode is what was found at one node.
type initNode struct {
	Addr        string   `json:"addr"`
	Found       string   `json:"found"`
	QuarantineS *float64 `json:"quarantine_left_s,omitempty"`
}

// Run is the command.
func (c *initCommand) Run(p *process, d *deployment) error {
	if d.Forgetful {
		return usagef("--forgetful: then there is nothing to open")
	}
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	config, err := d.config(p)
	if err != nil {
		return err
	}
	probes, err := d.probes(p)
	if err != nil {
		return err
	}
	defer closeAll(probes)
	made, err := admin.Init(ctx, config, c.Replace...) // which gives up by itself
	if signal := interrupted(ctx); signal != nil {
		err = signal
	}
	r := initReport{At: time.Now(), Outcome: "already_open"}
	switch {
	case err != nil:
		err = initError(err)
		if exitCode(err) == exitUsage {
			return err
		}
		r.Outcome, r.ExitCode, r.Error = initWord(err), exitCode(err), plain(message(err))
	case made.New:
		r.Outcome = "opened"
	}
	if made.ID != "" {
		r.Deployment, r.Size, r.MaxTTL = made.ID, made.Nodes, number(made.MaxTTL.Seconds())
	}
	answered := p.tellIfSlow()
	r.Nodes = d.found(ctx, probes)
	answered()
	if c.JSON {
		return errors.Join(err, printJSON(p.stdout, r, true))
	}
	return errors.Join(err, write(p.stdout, r.text()))
}

// initError gives an error of Init its exit code. The nodes are printed beside
// it, so it needs no list of them. It says why a client refuses the first of
// them, which is not printed there.
func initError(err error) error {
	failed := (*admin.InitError)(nil)
	if !errors.As(err, &failed) {
		return err
	}
	down, why := 0, error(nil)
	for _, n := range failed.Nodes {
		if n.State != redlock.NodeUp && !errors.Is(n.Err, redlock.ErrMaxTTL) {
			down, why = down+1, cmp.Or(why, n.Err, errNotUp)
		}
	}
	switch {
	case isOneOf(err, redlock.ErrDeployment, redlock.ErrMaxTTL):
		return &exitError{exitInUse, fmt.Errorf("the masters are in use: %w", causeOfInit(failed))}
	case down > 0:
		return &exitError{exitNoQuorum, fmt.Errorf("%d of %s cannot be used, and all are needed: %w", down, count(len(failed.Nodes), "master"), why)}
	}
	return &exitError{exitInUse, errors.New("only some of the masters belong to a deployment, or another client is opening it: use redlock doctor")}
}

// causeOfInit returns the first cause that says that nodes are in use.
func causeOfInit(failed *admin.InitError) error {
	for _, err := range failed.Unwrap() {
		if isOneOf(err, redlock.ErrDeployment, redlock.ErrMaxTTL) {
			return err
		}
	}
	return failed
}

// initWord returns the outcome of init that returned an error.
func initWord(err error) string {
	if exitCode(err) == exitInUse {
		return "in_use"
	}
	return outcomeWord(err)
}

// found asks each node what it is now.
func (d *deployment) found(ctx context.Context, probes []*probe.Probe) []initNode {
	watch := d.observe(probes)
	clocks := newClocks(len(probes))
	facts := clocks.look(ctx, d, probes, d.Timeout, nil)
	watch.look(facts, clocks.of)
	var all []initNode
	for i := range facts {
		n := initNode{Addr: facts[i].Addr, Found: "free"}
		id, size := watch.deploymentOf(i)
		left, why := watch.standing(i)
		switch {
		case facts[i].Err != nil:
			n.Found = "not reached: " + errorText(facts[i].Err)
		case id != "":
			n.Found = fmt.Sprintf("deployment %s of %s", id, count(size, "node"))
			if facts[i].Seal.MaxTTL != d.longest() {
				n.Found += fmt.Sprintf(", MaxTTL %v", facts[i].Seal.MaxTTL)
			}
			if left > 0 {
				n.QuarantineS = number(left.Seconds())
				n.Found += fmt.Sprintf(", counts in %v", left.Round(100*time.Millisecond))
			}
		case facts[i].Seal.Listed.ID != "":
			n.Found = "being opened by a client, or left over from one: " + facts[i].Seal.Listed.ID
		case why == outlook.WhyStrange:
			n.Found = "the key redlock:seal holds something else"
		case why == outlook.WhyUnread:
			n.Found = "the key redlock:seal may not be read"
		}
		all = append(all, n)
	}
	return all
}

// text formats the outcome for people.
func (r *initReport) text() string {
	var out strings.Builder
	switch r.Outcome {
	case "opened":
		fmt.Fprintf(&out, "opened deployment %s\n", r.Deployment)
	case "already_open":
		fmt.Fprintf(&out, "deployment %s was open already\n", r.Deployment)
	}
	if r.MaxTTL != nil {
		longest := time.Duration(*r.MaxTTL * float64(time.Second))
		fmt.Fprintf(&out, "%s, quorum %d, MaxTTL %v\n", count(r.Size, "node"), multiplex.Quorum(r.Size), longest)
	}
	rows := [][]string{{"NODE", "FOUND"}}
	for _, n := range r.Nodes {
		rows = append(rows, []string{n.Addr, n.Found})
	}
	return out.String() + "\n" + table(rows)
}
