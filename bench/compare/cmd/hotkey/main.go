// Command hotkey measures grants per second of one resource that many
// goroutines want, each in a loop: lock it, hold it, release it. The
// implementations take turns, on the same servers.
//
//	go run ./cmd/hotkey                                  three minutes; writes ../HOTKEY.md
//	go run ./cmd/hotkey --goroutines 8 --hold 1ms --out -
//	go run ./cmd/hotkey --processes 2 --impl do,acquire --out -
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/command"
	"github.com/redmux/redmux/internal/redistest"
)

// flags is the command line.
type flags struct {
	Impl       []string        `sep:"," default:"do,acquire,off,rueidis,redsync" help:"What is measured: do (Client.Do), acquire (Acquire and Release), off (the same without handing over), rueidis (the Redlock of package bench), redsync."`
	Hold       []time.Duration `sep:"," default:"0s,200us" help:"How long each lock is held."`
	Goroutines int             `default:"1000" help:"Goroutines, of all processes together."`
	Processes  []int           `sep:"," default:"1,2" help:"Numbers of processes that compete."`
	For        time.Duration   `default:"2s" help:"How long each measurement takes."`
	Rounds     int             `default:"3" help:"Measurements of each implementation and case."`
	Masters    int             `default:"5" help:"Masters."`
	TTL        time.Duration   `default:"10s" help:"Of the locks."`
	Out        string          `default:"../HOTKEY.md" help:"The table; - is standard output."`

	// For one of several processes.
	Join     string `hidden:"" help:"The masters."`
	Resource string `hidden:""`
}

func main() {
	command.Main("hotkey", "Measures grants per second of one resource that many goroutines want.", &flags{}, run)
}

func run(ctx context.Context, f *flags) error {
	if f.Join != "" {
		return f.join(ctx)
	}
	servers, err := redistest.StartN(f.Masters, redistest.Options{TCP: true})
	if err != nil {
		return err
	}
	defer redistest.CloseAll(servers)
	rows, err := f.all(ctx, redistest.URLs(servers))
	if err != nil {
		return err
	}
	return command.Write(f.Out, func(w io.Writer) error { return page(w, f, rows) })
}

// A row is what was measured of one implementation in one case, round by round.
type row struct {
	impl      string
	hold      time.Duration
	processes int
	rounds    []result
}

// all measures all cases. The first implementation of a round is the second of
// the round before.
func (f *flags) all(ctx context.Context, urls []string) (all []row, err error) {
	for _, processes := range f.Processes {
		for _, hold := range f.Hold {
			rows := make([]row, len(f.Impl))
			for i, impl := range f.Impl {
				rows[i] = row{impl: impl, hold: hold, processes: processes}
			}
			for turn := range f.Rounds * len(rows) {
				r := &rows[(turn+turn/len(rows))%len(rows)]
				fmt.Fprintf(os.Stderr, "processes %d, hold %v, round %d: %s\n", processes, hold, turn/len(rows), r.impl)
				// A new resource each time: callers that give up may leave a key
				// behind.
				j := job{r.impl, hold, fmt.Sprint("hot", time.Now().UnixNano()), max(1, f.Goroutines/processes)}
				measured, err := f.compete(ctx, urls, j, processes)
				if err = errors.Join(err, ctx.Err()); err != nil {
					return nil, fmt.Errorf("%s: %w", r.impl, err)
				}
				r.rounds = append(r.rounds, measured)
			}
			all = append(all, rows...)
		}
	}
	return all, nil
}

// compete runs one measurement: here, or in several processes.
func (f *flags) compete(ctx context.Context, urls []string, j job, processes int) (result, error) {
	if processes == 1 {
		return measure(ctx, f, urls, j, func() error { return nil })
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the processes of a measurement that failed
	all := make([]*child, processes)
	for i := range all {
		var err error
		if all[i], err = f.start(ctx, urls, j); err != nil {
			return result{}, err
		}
	}
	// All have opened their clients when the first begins.
	for _, c := range all {
		if err := c.out.Decode(&struct{}{}); err != nil {
			return result{}, fmt.Errorf("in a process: %w", err)
		}
	}
	for _, c := range all {
		_ = c.in.Close()
	}
	results := make([]result, processes)
	for i, c := range all {
		if err := errors.Join(c.out.Decode(&results[i]), c.cmd.Wait()); err != nil {
			return result{}, fmt.Errorf("in a process: %w", err)
		}
	}
	return together(results), nil
}

// A child is one of several processes that compete.
type child struct {
	cmd *exec.Cmd
	in  io.Closer     // is closed when it may begin
	out *json.Decoder // has a value when it is ready, and then the result
}

func (f *flags) start(ctx context.Context, urls []string, j job) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "--join", strings.Join(urls, ","), "--resource", j.resource, "--impl", j.impl,
		"--hold", j.hold.String(), "--goroutines", fmt.Sprint(j.goroutines), "--for", f.For.String(), "--ttl", f.TTL.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd, in, json.NewDecoder(out)}, cmd.Start()
}

// join is what a child does.
func (f *flags) join(ctx context.Context) error {
	out := json.NewEncoder(os.Stdout)
	j := job{f.Impl[0], f.Hold[0], f.Resource, f.Goroutines}
	r, err := measure(ctx, f, strings.Split(f.Join, ","), j, func() error {
		if err := out.Encode(struct{}{}); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
	if err != nil {
		return err
	}
	return out.Encode(r)
}
