//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

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

const (
	electors      = 3               // the size of the cluster, and the number of masters
	takeoverTimes = 9               // how often a leader of each election leaves in each way
	electionTTL   = 2 * time.Second // whole seconds, for etcd
)

// side is one of the two that are compared.
type side struct {
	peer string
	urls []string
}

// measureTakeovers prints how long each way takes.
func measureTakeovers(ctx context.Context, out io.Writer, times int, ttl time.Duration, noFsync bool) error {
	all, err := takeAll(ctx, times, ttl, noFsync)
	for _, t := range all {
		fmt.Fprintln(out, t)
	}
	return err
}

// takeAll lets both sides take turns, for each exit.
func takeAll(ctx context.Context, times int, ttl time.Duration, noFsync bool) (all []takeovers, err error) {
	e := etcd{noFsync: noFsync}
	defer e.close()
	members, err := e.cluster(electors)
	if err != nil {
		return nil, err
	}
	masters, err := redistest.StartN(electors, redistest.Options{TCP: true})
	if err != nil {
		return nil, err
	}
	defer redistest.CloseAll(masters)
	config := redlock.Config{Nodes: redlock.Nodes(redistest.URLs(masters)...), MaxTTL: ttl}
	if _, err := admin.Init(ctx, config); err != nil {
		return nil, err
	}
	for i, exit := range exits {
		ours, theirs := takeovers{peer: "redlock", exit: exit.name}, takeovers{peer: peerName, exit: exit.name}
		for round := range times {
			election := fmt.Sprintf("takeover-%d-%d", i, round)
			if err := ours.take(ctx, ttl, side{ours.peer, redistest.URLs(masters)}, exit, election); err != nil {
				return nil, err
			}
			if err := theirs.take(ctx, ttl, side{theirs.peer, members.urls}, exit, election); err != nil {
				return nil, err
			}
		}
		all = append(all, ours, theirs)
	}
	return all, nil
}

// take measures one exit: with a leader, and a candidate that waits.
func (t *takeovers) take(ctx context.Context, ttl time.Duration, s side, exit exit, election string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second+10*ttl)
	defer cancel()
	leader, err := startCandidate(s, "first", election, ttl)
	if err != nil {
		return err
	}
	defer leader.end()
	if _, err := leader.hear(ctx, leads); err != nil {
		return fmt.Errorf("%s: the first: %w", s.peer, err)
	}
	second, err := startCandidate(s, "second", election, ttl)
	if err != nil {
		return err
	}
	defer second.end()
	// The second one campaigns by then; and the exit is at any moment between
	// two renewals.
	time.Sleep(ttl/2 + rand.N(ttl))
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

// String shows the times, from the least to the greatest.
func (t takeovers) String() string {
	slices.Sort(t.next)
	slices.Sort(t.late)
	return fmt.Sprintf("leader %-10s  election of %-8s  another leads after %.3f s  it knows after %.3f s", t.exit, t.peer, t.next, t.late)
}
