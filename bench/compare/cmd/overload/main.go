//go:build unix

// Command overload measures implementations on a machine that has more to do
// than it can: besides the client and five masters, loops that do nothing but
// take CPU run, each in a session of its own. At an overload of ten, there are
// ten of them for each CPU. The implementations take turns on the same masters.
//
//	go run ./cmd/overload                                         some eight minutes; writes ../OVERLOAD.md
//	go run ./cmd/overload --data d --loads 10 --rounds 1 --out -  one round more than in d, on the terminal
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/command"
	"github.com/redmux/redmux/bench/compare/internal/window"
	"github.com/redmux/redmux/internal/redistest"
)

// flags is the command line.
type flags struct {
	Peers   []string      `sep:"," default:"redlock,rueidis,rueidis-tuned,redsync" help:"Implementations, by their names in bench/RESULTS.md."`
	Loads   []int         `sep:"," default:"2,5,10" help:"Loops for each CPU."`
	Callers []int         `sep:"," default:"16,128" help:"Numbers of callers at once."`
	Rounds  int           `default:"3" help:"Rounds; in each, every implementation has one window per case."`
	Window  time.Duration `default:"3s" help:"Measured time of a window."`
	Data    string        `placeholder:"FILE" help:"Keep the raw data here, and begin with what is there."`
	Out     string        `default:"../OVERLOAD.md" help:"The table; - is standard output."`
}

const (
	masters = 5
	ttl     = 10 * time.Second
)

// A sample is one window.
type sample struct {
	Peer                 string
	Load, Callers, Round int
	window.Result
}

func main() {
	window.Main() // does not return in a child process
	hogMain()     // neither does this
	command.Main("overload", "Measures implementations of distributed locks on an overloaded machine.", &flags{}, run)
}

func run(ctx context.Context, f *flags) error {
	for _, name := range f.Peers {
		if _, err := compare.Find(name); err != nil {
			return err
		}
	}
	data, err := os.OpenFile(cmp.Or(f.Data, os.DevNull), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer data.Close()
	samples, err := read(data)
	if err != nil {
		return err
	}
	servers, err := redistest.StartN(masters, redistest.Options{TCP: true})
	if err != nil {
		return err
	}
	defer redistest.CloseAll(servers)
	keep := json.NewEncoder(data)
	err = f.measure(ctx, servers, func(s sample) error {
		samples = append(samples, s)
		return keep.Encode(s)
	})
	if err != nil {
		return err
	}
	return command.Write(f.Out, func(w io.Writer) error { return page(w, f, samples) })
}

// read returns the samples of earlier runs.
func read(r io.Reader) (all []sample, err error) {
	for lines := json.NewDecoder(r); ; {
		var s sample
		switch err := lines.Decode(&s); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, s)
	}
}

// measure measures all cases. The first implementation of a round is the second
// of the round before.
func (f *flags) measure(ctx context.Context, servers []*redistest.Server, keep func(sample) error) error {
	urls := redistest.URLs(servers)
	for _, load := range f.Loads {
		for _, callers := range f.Callers {
			for turn := range f.Rounds * len(f.Peers) {
				round := turn / len(f.Peers)
				s := sample{Peer: f.Peers[(turn+round)%len(f.Peers)], Load: load, Callers: callers, Round: round}
				fmt.Fprintf(os.Stderr, "%d ×, %d callers, round %d: %s\n", load, callers, round, s.Peer)
				var err error
				s.Result, err = underLoad(ctx, load*runtime.NumCPU(), window.Job{
					Peer: s.Peer, URLs: urls, Callers: callers, TTL: ttl, Window: f.Window, Warmup: time.Second,
					Resource: fmt.Sprintf("%d-%d-%d-%d-", load, callers, turn, time.Now().UnixNano()),
				})
				if err == nil && s.Failure != "" {
					err = errors.New(s.Failure)
				}
				if err = errors.Join(err, ctx.Err()); err != nil {
					return err
				}
				if err := keep(s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// underLoad runs one window beside the loops.
func underLoad(ctx context.Context, loops int, job window.Job) (window.Result, error) {
	stop, err := hogs(loops)
	defer stop()
	if err != nil {
		return window.Result{}, err
	}
	return window.Run(ctx, job, nil)
}
