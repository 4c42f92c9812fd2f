package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
	"github.com/redmux/redmux/bench/compare/internal/window"
	"github.com/redmux/redmux/internal/redistest"
)

// side is one of the two that are compared: its servers for a number of them.
type side struct {
	peer string
	urls []string
	pids []int
}

// measure lets both take turns, for each size and number of callers.
func measure(ctx context.Context, f *flags) (*report.Data, error) {
	data := &report.Data{Date: time.Now().UTC(), Settings: report.Settings{Rounds: f.Rounds}}
	for _, n := range f.Members {
		if err := measureSize(ctx, f, n, data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func measureSize(ctx context.Context, f *flags, n int, data *report.Data) error {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	members, err := startCluster(n, dir, f.NoFsync)
	if err != nil {
		return err
	}
	defer members.close()
	masters, err := redistest.StartN(n, redistest.Options{TCP: true})
	if err != nil {
		return err
	}
	sides := []side{{compare.Ours, redistest.URLs(masters), nil}, {peerName, members.urls, members.pids()}}
	for _, s := range masters {
		defer s.Close()
		sides[0].pids = append(sides[0].pids, s.PID())
	}
	for _, callers := range f.Callers {
		for round := range f.Rounds {
			for place := range sides {
				s := sides[(place+round)%len(sides)]
				c := report.Case{Kind: report.Healthy, Network: "tcp", Nodes: n, Callers: callers}
				data.Samples = append(data.Samples, take(ctx, f, s, c, round))
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
	return nil
}

// take measures one window. A failure is a result.
func take(ctx context.Context, f *flags, s side, c report.Case, round int) report.Sample {
	result, err := window.Run(ctx, window.Job{
		Peer: s.peer, URLs: s.urls, PIDs: s.pids, Callers: c.Callers, TTL: sessionTTL * time.Second,
		Resource: fmt.Sprintf("%d-%d-%d-", c.Nodes, c.Callers, round),
		Warmup:   f.Warmup, WarmupLimit: 3 * time.Second, WarmPairs: 4, Window: f.Window,
	}, nil)
	if err != nil {
		result.Failure, _, _ = strings.Cut(err.Error(), "\n")
	}
	return report.Sample{Case: c, Peer: s.peer, Round: round, Result: result}
}

// page writes what was measured, as Markdown.
func page(f *flags, data *report.Data, elections []takeovers) string {
	sync := "members sync their logs to disk"
	if f.NoFsync {
		sync = "members do **not** sync their logs to disk (`--no-fsync`)"
	}
	return fmt.Sprintf(`# Beside etcd's Mutex and Election

Written by %s, from what it measured on %s: acquisitions and their releases, in %d rounds of
windows of %v each in turn, over TCP. N masters (redis-server, nothing persisted) stand beside a cluster of N members
(etcd %s). Clients and servers share the machine; %s.
Figures are medians, in brackets the least and the greatest; above 1 is better for us.

etcd does other work for a lock: it replicates and persists it. So it forgets none at a restart, and gives a revision to
check. [docs/compare.md](../docs/compare.md) has the properties.

%s
## When a leader leaves

%d times each: a candidate leads, another one waits, each in a process of its own, with %d masters or members and a TTL of
%v, at any moment between two renewals of the leader. A leader that was stopped runs again when the other one leads.

%s
client-go was not run. By its rules and with its defaults (a lease of 15 s, renewed every 2 s; candidates look every 2
to 4.4 s, and count from when they saw the last renewal), another one leads 13 to 23.8 s after a leader was killed or
stopped, and 0 to 4.4 s after one has released its lease.
`, "`make etcd`", data.Date.Format("2 January 2006"), f.Rounds, f.Window, serverVersion(), sync, data.Against(peerName),
		f.Takeovers, electors, f.ElectionTTL, takeoverTable(elections))
}
