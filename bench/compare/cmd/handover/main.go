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
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/internal/redistest"
)

// flags is the command line.
type flags struct {
	Impl    []string        `sep:"," default:"push,poll,rueidis,redsync" help:"What is measured: push, poll (Config.Poll), rueidis (the Redlock of package bench), redsync."`
	Hold    []time.Duration `sep:"," default:"1ms,20ms,500ms" help:"How long the first holder keeps the lock while the others wait."`
	Waiters []int           `sep:"," default:"1,8" help:"How many callers wait."`
	Rounds  int             `default:"200" help:"Rounds of each implementation and case, but no longer than --most."`
	Most    time.Duration   `default:"30s" help:"The longest time for one case of all implementations."`
	Nodes   int             `default:"5" help:"Masters."`
	Unix    bool            `help:"Unix sockets instead of TCP."`
	Idle    int             `help:"Measure what so many waiters cost the servers in a second, instead."`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Description("Measures how long a released lock takes to reach a waiter."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, &f, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f *flags, out io.Writer) error {
	servers, err := redistest.StartN(f.Nodes, redistest.Options{TCP: !f.Unix, Unix: true})
	if err != nil {
		return err
	}
	defer redistest.CloseAll(servers)
	urls := redistest.URLs(servers)
	if f.Idle > 0 {
		return idle(ctx, f, servers, urls, out)
	}
	var pairs []*pair
	for _, name := range f.Impl {
		p, err := openPair(name, urls)
		if err != nil {
			return err
		}
		defer p.close()
		pairs = append(pairs, p)
	}
	fmt.Fprintf(out, "%-8s %7s %8s %7s | %10s %10s %10s | %10s %10s | %6s\n",
		"impl", "hold", "waiters", "rounds", "first p50", "p99", "max", "next p50", "p99", "unsure")
	for _, hold := range f.Hold {
		for _, waiters := range f.Waiters {
			if err := measure(ctx, f, pairs, hold, waiters, out); err != nil {
				return err
			}
		}
	}
	return nil
}
