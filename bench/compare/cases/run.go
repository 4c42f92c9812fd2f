//go:build unix

package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/redmux/redmux/cmd/loadgen/load"
)

// Main measures the case that the command line names, of a table, and returns
// the exit code. A second argument is a file of figures in which those of the
// case are replaced.
func Main(table []Case, others ...load.Implementation) int {
	beBusy() // does not return in a loop
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprint(os.Stderr, "usage: CASE [CSV]\n", list(table))
		return 2
	}
	i := slices.IndexFunc(table, func(c Case) bool { return c.Name == os.Args[1] })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "there is no case %q:\n%s", os.Args[1], list(table))
		return 2
	}
	if err := table[i].do(others); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", table[i].Name, err)
		return 1
	}
	return 0
}

func (c *Case) do(others []load.Implementation) error {
	if c.Do != nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return c.Do(ctx, os.Stdout)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	figures, err := c.measure(os.Stdout, os.Stderr, signals, others)
	if err == nil && len(os.Args) == 3 {
		err = keep(os.Args[2], c.Name, figures)
	}
	return err
}

func list(table []Case) string {
	var b strings.Builder
	for _, c := range table {
		fmt.Fprintf(&b, "  %-10s %s\n", c.Name, c.About)
	}
	return b.String()
}

// A run is what is read of one run in loadgen's JSON.
type run struct {
	Impl, Backend    string
	N, Clients       int
	PairsPerS        float64            `json:"pairs_per_s"`
	AcquireUS        map[string]float64 `json:"acquire_us"`
	AllocsPerPair    float64            `json:"allocs_per_pair"`
	CPUUSPerPair     float64            `json:"cpu_us_per_pair"`
	Outcomes, Errors map[string]int64
	Work             struct {
		Kind, Hold, Network string
		Keys, Instances     int
		Faults              []string
	}
}

// measure makes the runs, prints what came of them and returns the figures.
func (c *Case) measure(stdout, stderr io.Writer, signals <-chan os.Signal, others []load.Implementation) (figures []figure, err error) {
	out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	defer out.Flush()
	fmt.Fprintln(out, heading)
	for i, row := range c.Rows {
		fmt.Fprintf(stderr, "%s %d of %d: %s\n", c.Name, i+1, len(c.Rows), row.Flags)
		runs, err := row.run(stderr, signals, others)
		if err != nil {
			return figures, err
		}
		for _, f := range figuresOf(c.Name, row, runs) {
			figures = append(figures, f)
			fmt.Fprintln(out, f)
		}
		if err := c.judge(out, runs); err != nil {
			return figures, err
		}
	}
	return figures, nil
}

// run is one call of loadgen, beside loops.
func (r Row) run(stderr io.Writer, signals <-chan os.Signal, others []load.Implementation) ([]run, error) {
	stop, err := startBusy(r.Busy * runtime.NumCPU())
	defer stop()
	if err != nil {
		return nil, err
	}
	var stdout bytes.Buffer
	code := load.Run(append(strings.Fields(r.Flags), "-q", "--output=json"), &stdout, stderr, signals, others...)
	// A peer that is granted nothing is a result, and no reason to stop.
	const nothing = 1
	if code != 0 && (code != nothing || stdout.Len() == 0) {
		return nil, fmt.Errorf("loadgen %s: exit code %d", r.Flags, code)
	}
	var result struct{ Runs []run }
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		return nil, fmt.Errorf("loadgen %s: %w", r.Flags, err)
	}
	return result.Runs, nil
}

// judge checks the ratios that a case asks for. Throughput on a machine that
// others use differs much from round to round, so one round must do.
func (c *Case) judge(out io.Writer, runs []run) error {
	var errs []error
	ours := roundsOf(runs, "redlock", func(r run) float64 { return r.PairsPerS })
	for _, want := range c.Least {
		theirs := roundsOf(runs, want.Over, func(r run) float64 { return r.PairsPerS })
		var ratios []float64
		for i := range min(len(ours), len(theirs)) {
			if theirs[i] > 0 {
				ratios = append(ratios, ours[i]/theirs[i])
			}
		}
		s := spreadOf(ratios)
		fmt.Fprintf(out, "pairs/s × %s: %s, wanted ≥ %v in one round\n", want.Over, s, want.Least)
		if !(s.greatest >= want.Least) {
			errs = append(errs, fmt.Errorf("pairs/s × %s: %s, wanted ≥ %v in one round", want.Over, s, want.Least))
		}
	}
	if c.MostAllocs > 0 {
		s := spreadOf(roundsOf(runs, "redlock", func(r run) float64 { return r.AllocsPerPair }))
		fmt.Fprintf(out, "allocations per pair: %s, wanted < %v in one round\n", s, c.MostAllocs)
		if len(ours) == 0 || s.least >= c.MostAllocs {
			errs = append(errs, fmt.Errorf("allocations per pair: %s, wanted < %v in one round", s, c.MostAllocs))
		}
	}
	return errors.Join(errs...)
}

// roundsOf returns a figure of an implementation, round by round.
func roundsOf(runs []run, impl string, figure func(run) float64) (all []float64) {
	for _, r := range runs {
		if r.Impl == impl {
			all = append(all, figure(r))
		}
	}
	return all
}

// today is when figures are measured.
func today() string { return time.Now().UTC().Format(time.DateOnly) }
