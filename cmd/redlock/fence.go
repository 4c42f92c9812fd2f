package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redmux/redmux/redlock/admin"
)

// fenceCommand has the commands for fencing numbers.
type fenceCommand struct {
	Reset fenceResetCommand `cmd:"" help:"Let the masters grant fencing numbers again after they lost their memory."`
}

// fenceResetCommand gives all masters a new floor.
type fenceResetCommand struct {
	Least uint64 `placeholder:"N" help:"The highest number that a protected resource has seen. The new floor is not lower."`
	JSON  bool   `name:"json" help:"Print the outcome as JSON, even if nothing was reset. The message on standard error and the exit code stay the same."`
}

// Help is what --help shows below the first line.
func (*fenceResetCommand) Help() string {
	return `Locks that are taken with --fenced, or with redlock.Config.Fenced, have numbers that only increase. A master that restarts empty has forgotten them, and learns from the others what it needs. Where too many masters lost their memory at a time (with three masters two, with one master one), nothing can be learned, and such locks are refused with an error that names this command. It is also needed once for a deployment that was opened by a client, or by an older version.

It gives all masters a new floor: the highest of the numbers that they remember, of the clock of most of them a minute from now, in microseconds since 1970, and of --least. All later numbers are higher. Numbers that were lost are lower than that unless clocks were set back, or a floor was set above them before. Where you are not certain, stop the clients, ask the protected resources for the highest number that they have seen, and give it as --least.

All masters must be reachable, belong to the deployment and count: if one does not, nothing is written. What one master alone remembers more than a day ahead of the clocks is not believed: its record is replaced, and the report says so. If it was true, since clocks were set back by more than that, give the number as --least. No other floor is lowered, so it does no harm to repeat this. Locks that are held stay.

Exit code: 0 done, 69 a master cannot be reached or does not count yet.

With --json, the outcome is one of reset, no_quorum, interrupted and failed. The field floor is the new floor, and nodes is a list with addr, highest, which no number was above that the master remembered, floored, whether its grants counted before, and beyond, whether its record could not be true, and was replaced.

Examples:

    redlock fence reset
    redlock fence reset --least 1764000000123456
`
}

// fenceReport is the outcome for programs.
type fenceReport struct {
	At       time.Time   `json:"at"`
	Outcome  string      `json:"outcome"`
	ExitCode int         `json:"exit_code"`
	Error    string      `json:"error,omitempty"`
	Floor    uint64      `json:"floor,omitempty"`
	Nodes    []fenceNode `json:"nodes,omitempty"`
}

// fenceNode is one master before the reset.
type fenceNode struct {
	Addr    string `json:"addr"`
	Highest uint64 `json:"highest"`
	Floored bool   `json:"floored"`
	Beyond  bool   `json:"beyond,omitempty"`
}

// resetTakes bounds what the command does after it has reached the nodes.
const resetTakes = 10 * time.Second

// Run is the command.
func (c *fenceResetCommand) Run(p *process, d *deployment) error {
	if d.Forgetful {
		return usagef("--forgetful: then there are no fencing numbers")
	}
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	config, err := d.config(p)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, d.Timeout+resetTakes)
	defer cancel()
	answered := p.tellIfSlow()
	done, err := admin.ResetFence(limited, config, c.Least)
	answered()
	if signal := interrupted(ctx); signal != nil {
		err = signal
	}
	r := fenceReport{At: time.Now(), Outcome: "reset", Floor: done.Floor}
	for _, n := range done.Nodes {
		r.Nodes = append(r.Nodes, fenceNode(n))
	}
	if err != nil {
		if exitCode(err) == exitUsage {
			return err
		}
		r.Outcome, r.ExitCode, r.Error = outcomeWord(err), exitCode(err), plain(message(err))
	}
	switch {
	case c.JSON:
		return errors.Join(err, printJSON(p.stdout, r, true))
	case err != nil:
		return err
	}
	return write(p.stdout, r.text())
}

// text formats the outcome for people.
func (r *fenceReport) text() string {
	rows := [][]string{{"NODE", "HIGHEST BEFORE", "COUNTED"}}
	for _, n := range r.Nodes {
		counted := "no"
		switch {
		case n.Floored:
			counted = "yes"
		case n.Beyond:
			counted = "no: the record could not be true, and was replaced"
		}
		rows = append(rows, []string{n.Addr, strconv.FormatUint(n.Highest, 10), counted})
	}
	return fmt.Sprintf("all fencing numbers are above %d from now on\n\n%s", r.Floor, table(rows))
}
