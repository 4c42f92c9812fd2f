// Command handover measures how long a released lock takes to reach a waiting
// caller. One client holds the lock, callers of another wait, each with an
// Acquire of its own; the implementations take turns, on the same servers.
//
//	go run ./cmd/handover                                     all, with several holds and numbers of waiters
//	go run ./cmd/handover --hold 20ms --waiters 8 --rounds 200
//	go run ./cmd/handover --idle 100                          what 100 waiters cost the servers in a second
//
// "first" is from the call of Release by the holder to the grant to the first
// waiter, "next" from each waiter's Release to the grant to the next one of the
// same client.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/command"
	"github.com/redmux/redmux/internal/redistest"
)

// flags is the command line.
type flags struct {
	Impl    []string        `sep:"," default:"acquire,poll,rueidis,redsync" help:"What is measured: acquire (ours), poll (with Config.Poll), rueidis (the Redlock of package bench), redsync."`
	Hold    []time.Duration `sep:"," default:"1ms,20ms,500ms" help:"How long the first holder keeps the lock while the others wait."`
	Waiters []int           `sep:"," default:"1,8" help:"How many callers wait."`
	Rounds  int             `default:"200" help:"Rounds of each implementation and case, but no longer than --most."`
	Most    time.Duration   `default:"30s" help:"The longest time for one case of all implementations."`
	Nodes   int             `default:"5" help:"Masters."`
	Unix    bool            `help:"Unix sockets instead of TCP."`
	Idle    int             `help:"Measure what so many waiters cost the servers in a second, instead."`
}

const ttl = 30 * time.Second

func main() {
	command.Main("handover", "Measures how long a released lock takes to reach a waiter.", &flags{}, run)
}

func run(ctx context.Context, f *flags) error {
	servers, err := redistest.StartN(f.Nodes, redistest.Options{TCP: !f.Unix, Unix: true})
	if err != nil {
		return err
	}
	defer redistest.CloseAll(servers)
	if f.Idle > 0 {
		return idle(ctx, f, servers, os.Stdout)
	}
	var pairs []*pair
	for _, name := range f.Impl {
		p, err := openPair(name, redistest.URLs(servers))
		if err != nil {
			return err
		}
		defer p.close()
		pairs = append(pairs, p)
	}
	fmt.Printf("%-8s %7s %8s %7s | %10s %10s %10s | %10s %10s | %6s\n",
		"impl", "hold", "waiters", "rounds", "first p50", "p99", "max", "next p50", "p99", "unsure")
	for _, hold := range f.Hold {
		for _, waiters := range f.Waiters {
			if err := measure(ctx, f, pairs, hold, waiters, os.Stdout); err != nil {
				return err
			}
		}
	}
	return nil
}
