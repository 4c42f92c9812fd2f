package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// An exit is a way in which a leader leaves.
type exit struct {
	name string
	make func(*candidate) error
}

var exits = []exit{
	{"killed", func(c *candidate) error { return c.cmd.Process.Kill() }},
	{"stopped", func(c *candidate) error { return c.cmd.Process.Signal(syscall.SIGSTOP) }},
	{"steps down", func(c *candidate) error { _, err := c.in.Write([]byte("\n")); return err }},
}

// takeovers is what was measured of one side and one exit, in seconds.
type takeovers struct {
	peer, exit string
	// next is the time from the exit until another candidate leads. late is the
	// time until a leader that was stopped knows that it leads no more, once it
	// runs again.
	next, late []float64
}

// electors is the size of the cluster, and the number of masters.
const electors = 3

// measureTakeovers lets both sides take turns, for each exit.
func measureTakeovers(ctx context.Context, f *flags) (all []takeovers, err error) {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	members, err := startCluster(electors, dir, f.NoFsync)
	if err != nil {
		return nil, err
	}
	defer members.close()
	masters, err := redistest.StartN(electors, redistest.Options{TCP: true})
	if err != nil {
		return nil, err
	}
	defer redistest.CloseAll(masters)
	config := redlock.Config{Nodes: redlock.Nodes(redistest.URLs(masters)...), MaxTTL: f.ElectionTTL}
	if _, err := admin.Init(ctx, config); err != nil {
		return nil, err
	}
	for i, exit := range exits {
		ours, theirs := takeovers{peer: compare.Ours, exit: exit.name}, takeovers{peer: peerName, exit: exit.name}
		for round := range f.Takeovers {
			election := fmt.Sprintf("takeover-%d-%d", i, round)
			if err := ours.take(ctx, f, side{ours.peer, redistest.URLs(masters), nil}, exit, election); err != nil {
				return nil, err
			}
			if err := theirs.take(ctx, f, side{theirs.peer, members.urls, nil}, exit, election); err != nil {
				return nil, err
			}
		}
		all = append(all, ours, theirs)
	}
	return all, nil
}

// take measures one exit: with a leader, and a candidate that waits.
func (t *takeovers) take(ctx context.Context, f *flags, s side, exit exit, election string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second+10*f.ElectionTTL)
	defer cancel()
	leader, err := startCandidate(s, "first", election, f.ElectionTTL)
	if err != nil {
		return err
	}
	defer leader.end()
	if _, err := leader.hear(ctx, leads); err != nil {
		return fmt.Errorf("%s: the first: %w", s.peer, err)
	}
	second, err := startCandidate(s, "second", election, f.ElectionTTL)
	if err != nil {
		return err
	}
	defer second.end()
	// The second one campaigns by then; and the exit is at any moment between
	// two renewals.
	time.Sleep(f.ElectionTTL/2 + rand.N(f.ElectionTTL))
	left := time.Now()
	if err := exit.make(leader); err != nil {
		return err
	}
	took, err := second.hear(ctx, leads)
	if err != nil {
		return fmt.Errorf("%s, %s: the second: %w", s.peer, exit.name, err)
	}
	t.next = append(t.next, took.Sub(left).Seconds())
	if exit.name != "stopped" {
		return nil
	}
	goesOn := time.Now()
	if err := leader.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	knows, err := leader.hear(ctx, leadsNoMore)
	if err != nil {
		return fmt.Errorf("%s: a leader that was stopped: %w", s.peer, err)
	}
	t.late = append(t.late, knows.Sub(goesOn).Seconds())
	return nil
}

// takeoverTable has a row for each exit and side.
func takeoverTable(all []takeovers) string {
	t := report.Table{Head: []string{"the leader is", "election of", "another leads after, s", "it knows that it leads no more after, s"}}
	for _, o := range all {
		late := "–"
		if len(o.late) > 0 {
			late = report.SpreadOf(o.late).String()
		}
		t.Rows = append(t.Rows, []string{o.exit, o.peer, report.SpreadOf(o.next).String(), late})
	}
	return t.String()
}
