package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redmux/redmux/proof/faults"
)

type runCommand struct {
	For       time.Duration `default:"2m" help:"How long faults are injected."`
	Nodes     int           `default:"5" placeholder:"N" help:"How many servers are started."`
	Server    string        `placeholder:"PATH" help:"The server (default: redis-server or valkey-server on PATH)."`
	Processes int           `default:"4" placeholder:"N" help:"Clients: by unix socket, TCP, proxies, proxies without the poller, in turn."`
	Callers   int           `default:"64" placeholder:"N" help:"Callers of the uncontended load, over all processes."`
	Rate      float64       `default:"16" help:"Faults that begin in a second, as far as they fit."`
	MaxTTL    time.Duration `name:"max-ttl" default:"3s" help:"Of the clients, and the TTL of most locks."`
	RestEvery time.Duration `default:"15s" help:"Time between two looks for orphans."`
	Kinds     []string      `sep:"," placeholder:"KIND" help:"Inject these kinds only."`
	Seed      uint64        `help:"Of what is drawn. 0: a random one."`
	Soak      bool          `help:"Judge memory, goroutines and descriptors by their slopes."`
	History   string        `placeholder:"FILE" help:"Write the events of contended resources to this file."`
	Output    string        `short:"o" enum:"text,json" default:"text" help:"Form of the result: ${enum}."`
	Quiet     bool          `short:"q" help:"No progress on standard error."`
	Broken    string        `hidden:"" help:"Make the clients wrong, so that the checks can be seen to find it."`
}

// errViolated is a run that found what must not be.
var errViolated = errors.New("VIOLATED: see violations, findings and orphans above")

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitGood
	case errors.Is(err, errViolated):
		return exitViolated
	}
	return exitFailed
}

// Run makes the run and prints its report, which is worth printing also where
// the run failed.
func (f *runCommand) Run(c *console) (err error) {
	options := faults.Options{
		For: f.For, Nodes: f.Nodes, Server: f.Server, Processes: f.Processes, Callers: f.Callers, Rate: f.Rate,
		MaxTTL: f.MaxTTL, RestEvery: f.RestEvery, Kinds: f.Kinds, Seed: f.Seed, Soak: f.Soak, Broken: f.Broken,
		Log: c.stderr,
	}
	if !f.Quiet {
		options.Progress = func(r *faults.Report) { progress(c.stderr, r) }
	}
	if f.History != "" {
		file, failed := os.Create(f.History)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		options.History = file
	}
	report, err := faults.Run(c.ctx, options)
	if report == nil {
		return err
	}
	if f.Output == "json" {
		err = errors.Join(err, json.NewEncoder(c.stdout).Encode(report))
	} else {
		err = errors.Join(err, report.Print(c.stdout))
	}
	if report.Violated() {
		err = errors.Join(err, errViolated)
	}
	if never := report.NeverMade(); len(never) > 0 {
		err = errors.Join(err, fmt.Errorf("could not be made, not once: %s; see failed injections above", strings.Join(never, ", ")))
	}
	if f.Soak && len(report.Trends) == 0 {
		err = errors.Join(err, errors.New("too short to judge slopes: a minute at least"))
	}
	for _, t := range report.Grown() {
		err = errors.Join(err, fmt.Errorf("grows: %v", t))
	}
	if len(report.Unsettled) > 0 {
		err = errors.Join(err, errors.New("clients did not come back to nodes that work again: see not settled above"))
	}
	if idle := report.Idle(); len(idle) > 0 {
		err = errors.Join(err, fmt.Errorf("there were none, not once, of: %s", strings.Join(idle, ", ")))
	}
	return err
}

// progress writes a line a second.
func progress(to io.Writer, r *faults.Report) {
	fmt.Fprintf(to, "%5.0fs  %6d faults  %9d operations  %6d contended grants  %d violations  %d findings  %d orphans\n",
		r.Took.Seconds(), r.Injected, r.Tally[faults.Operations], r.Tally[faults.Contended],
		len(r.Violations), len(r.Findings), len(r.Orphans))
}
