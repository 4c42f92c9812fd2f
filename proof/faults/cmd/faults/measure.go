package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/proof/faults/single"
)

// The measurements: each makes one fault at a time, and nothing else is wrong
// meanwhile. The library's defaults stand where a flag is zero.

type recoveryCommand struct {
	Faults  []string      `sep:"," placeholder:"NAME" help:"What is done to a node (default: all)."`
	Repeats int           `placeholder:"N" help:"How often, each (default: 20)."`
	Callers int           `placeholder:"N" help:"Callers of the loaded half (default: 64)."`
	Away    time.Duration `placeholder:"D" help:"How long the node is away at most (default: 3s)."`
	Output  string        `short:"o" enum:"text,json" default:"text" help:"Form of the result: ${enum}."`
}

// Run measures recovery. The bounds of R26 and R23 hold or the command fails.
func (f *recoveryCommand) Run(c *console) error {
	r, err := single.MeasureRecovery(c.ctx, single.RecoveryOptions{
		Faults: f.Faults, Repeats: f.Repeats, Callers: f.Callers, Away: f.Away,
	})
	return errors.Join(err, show(c, f.Output, r), r.Err())
}

type stalledCommand struct {
	Faults  []string      `sep:"," placeholder:"NAME" help:"How the node stalls (default: all)."`
	Callers []int         `sep:"," placeholder:"N" help:"Callers; each number is a measurement (default: 128,1024)."`
	For     time.Duration `placeholder:"D" help:"How long the node is stalled (default: 20s)."`
	Output  string        `short:"o" enum:"text,json" default:"text" help:"Form of the result: ${enum}."`
}

// Run measures memory. It grows by at most 16 MiB or the command fails.
func (f *stalledCommand) Run(c *console) error {
	s, err := single.MeasureStalled(c.ctx, single.StalledOptions{Faults: f.Faults, Callers: f.Callers, Stalled: f.For})
	return errors.Join(err, show(c, f.Output, s), s.Err())
}

// show prints what was measured, also where the measurement was cut short.
func show(c *console, form string, result fmt.Stringer) error {
	if form == "json" {
		return json.NewEncoder(c.stdout).Encode(result)
	}
	_, err := fmt.Fprint(c.stdout, result)
	return err
}
