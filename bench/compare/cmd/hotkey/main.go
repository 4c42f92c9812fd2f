// Command hotkey measures grants per second of one resource that many
// goroutines want, each in a loop: lock it, hold it, release it. The
// implementations take turns, on the same servers.
//
//	go run ./cmd/hotkey                                  1,000 goroutines of one process
//	go run ./cmd/hotkey --goroutines 8 --hold 1ms
//	go run ./cmd/hotkey --processes 2 --impl do,acquire  each of two processes gets which share
//
// A hold of more than zero is a sleep, which lasts longer than it was asked for;
// "limit" is what one holder after another could reach with that.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/internal/redistest"
)

// flags is the command line.
type flags struct {
	Impl       []string        `sep:"," default:"do,acquire,off,rueidis,redsync" help:"What is measured: do (Client.Do), acquire (Acquire and Release), off (the same without handing over), rueidis (the Redlock of package bench), redsync."`
	Hold       []time.Duration `sep:"," default:"0s,200us" help:"How long each lock is held."`
	Goroutines int             `default:"1000" help:"Goroutines of each process."`
	Processes  int             `default:"1" help:"Processes that compete."`
	For        time.Duration   `default:"2s" help:"How long each measurement takes."`
	Rounds     int             `default:"3" help:"Measurements of each implementation."`
	Nodes      int             `default:"5" help:"Masters."`
	TTL        time.Duration   `default:"10s" help:"Of the locks."`
	Join       []string        `sep:"," hidden:""`
	Resource   string          `hidden:""`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Description("Measures grants per second of one resource that many goroutines want."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, &f, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hotkey:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f *flags, out io.Writer) error {
	if len(f.Join) > 0 {
		r, err := measure(ctx, f, f.Join, f.Impl[0], f.Hold[0])
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	servers, err := redistest.StartN(f.Nodes, redistest.Options{TCP: true, Unix: true})
	if err != nil {
		return err
	}
	defer redistest.CloseAll(servers)
	urls := redistest.URLs(servers)
	fmt.Fprintf(out, "%-8s %7s | %10s %10s | %10s %10s | %s\n", "impl", "hold", "grants/s", "limit", "wait p50", "p99", "shares")
	for _, hold := range f.Hold {
		all := make(map[string][]result)
		for range f.Rounds {
			for _, impl := range f.Impl {
				r, err := compete(ctx, f, urls, impl, hold)
				if err != nil {
					return fmt.Errorf("%s: %w", impl, err)
				}
				all[impl] = append(all[impl], r)
			}
		}
		for _, impl := range f.Impl {
			print(out, impl, hold, all[impl])
		}
	}
	return nil
}

// compete runs one measurement: here, or in processes of their own.
func compete(ctx context.Context, f *flags, urls []string, impl string, hold time.Duration) (result, error) {
	// A new one each time: a peer whose callers give up may leave its key behind.
	f.Resource = fmt.Sprint("hot", time.Now().UnixNano())
	if f.Processes == 1 {
		return measure(ctx, f, urls, impl, hold)
	}
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	all := make([]result, f.Processes)
	failed := make(chan error, f.Processes)
	for i := range all {
		go func() {
			text, err := exec.CommandContext(ctx, self, "--join", strings.Join(urls, ","), "--resource", f.Resource, "--impl", impl,
				"--hold", hold.String(), "--for", f.For.String(), "--ttl", f.TTL.String(), "--goroutines", fmt.Sprint(f.Goroutines)).Output()
			if err == nil {
				err = json.Unmarshal(text, &all[i])
			}
			failed <- err
		}()
	}
	for range all {
		if err := <-failed; err != nil {
			return result{}, err
		}
	}
	return together(all), nil
}

// print prints the median of the rounds.
func print(out io.Writer, impl string, hold time.Duration, rounds []result) {
	slices.SortFunc(rounds, func(a, b result) int { return int(a.Grants - b.Grants) })
	r := rounds[len(rounds)/2]
	limit := "-"
	if r.Held > 0 {
		limit = fmt.Sprintf("%.0f", float64(time.Second)/float64(r.Held))
	}
	fmt.Fprintf(out, "%-8s %7s | %10.0f %10s | %10s %10s |", impl, hold, r.Grants, limit,
		r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond))
	for _, each := range rounds {
		for _, s := range each.Shares {
			fmt.Fprintf(out, " %.0f%%", 100*s)
		}
	}
	fmt.Fprintln(out)
}
