package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
)

// quickCase is the situation that CI looks at: batching shows in it, and unix
// sockets vary least.
var quickCase = report.Case{Kind: report.Healthy, Network: "unix", Nodes: 5, Callers: 128}

// What CI asks for at least, in one round: half of the goal. A change that costs
// throughput in earnest falls below in every round; see atLeast.
const (
	leastOverDefault = 5.0
	leastOverTuned   = 2.0
	leastOverAsync   = 1.3
	mostAllocations  = 0.05
)

// quickRounds gives each peer so many windows that other load of the machine
// spoils them all only if it never pauses. All rounds take most of a minute.
const quickRounds = 15

// quick compares ours with three peers in one case and prints the ratios.
func quick(ctx context.Context, f *flags, rounds int, stdout io.Writer) error {
	f.Rounds, f.Window, f.Warmup = rounds, 400*time.Millisecond, 200*time.Millisecond
	f.Nodes, f.Peers = []int{quickCase.Nodes}, []string{compare.Ours, compare.Default, compare.Tuned, compare.Async}
	r, err := newRunner(f, []block{{[]report.Case{quickCase}}}, io.Discard)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.measure(ctx, func() error { return nil }); err != nil {
		return err
	}
	if f.JSON != "" {
		if err := r.saver(f.JSON)(); err != nil {
			return err
		}
	}
	return judge(r.data, f.Assert, stdout)
}

// judge prints what was measured and, where asserted, returns what falls short.
func judge(data *report.Data, asserted bool, stdout io.Writer) error {
	s := data.Summary(quickCase)
	fmt.Fprintf(stdout, "%s, %d rounds: median (least–greatest)\n", quickCase, data.Settings.Rounds)
	fmt.Fprintf(stdout, "pairs/s × rueidis, default   %s   at least %v\n", s.OverDefault, leastOverDefault)
	fmt.Fprintf(stdout, "pairs/s × rueidis, tuned     %s   at least %v\n", s.OverTuned, leastOverTuned)
	fmt.Fprintf(stdout, "pairs/s × go-redis           %s   at least %v\n", s.OverAsync, leastOverAsync)
	fmt.Fprintf(stdout, "allocations per pair, ours   %s   less than %v\n", s.Allocations, mostAllocations)
	for _, trouble := range s.Trouble {
		fmt.Fprintln(stdout, trouble)
	}
	if !asserted {
		return nil
	}
	return errors.Join(
		atLeast("pairs/s × rueidis, default", s.OverDefault, leastOverDefault),
		atLeast("pairs/s × rueidis, tuned", s.OverTuned, leastOverTuned),
		atLeast("pairs/s × go-redis", s.OverAsync, leastOverAsync),
		lessThan("allocations per pair", s.Allocations, mostAllocations),
	)
}

// atLeast is content with one round, so it fails only if the greatest ratio
// falls short. An engine that has become slow is slow in every round; what a
// busy machine takes from it, and not from the peer beside it, comes and goes.
func atLeast(name string, s report.Spread, least float64) error {
	switch {
	case !s.Known():
		return fmt.Errorf("%s: nothing was measured", name)
	case s.Greatest < least:
		return fmt.Errorf("%s: %s, but at least %v is asked for in one round at least", name, s, least)
	}
	return nil
}

// lessThan is content with one round, too. What the code allocates for a pair it
// allocates in every round; what a busy machine adds, when a server that gets
// no CPU makes the rounds in flight pile up, comes and goes.
func lessThan(name string, s report.Spread, most float64) error {
	switch {
	case !s.Known():
		return fmt.Errorf("%s: nothing was measured", name)
	case s.Least >= most:
		return fmt.Errorf("%s: %s, but less than %v is asked for in one round at least", name, s, most)
	}
	return nil
}
