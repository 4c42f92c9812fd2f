// Command mutants plants bugs and checks that the tests find them: `make
// mutants`.
//
// Each block of testdata/mutants breaks one rule. It says which rule, what
// breaks, and which tests must fail with it (block.go). The command copies the
// tree and shows that all those tests pass on the unbroken copy, since
// otherwise a failure would prove nothing. Then it plants one mutant at a time
// in a copy (plant.go) and runs the tests that it names (campaign.go). Every
// line that names a killer must be true: a named test that passes is a
// survivor, whatever else failed. CONTRIBUTING.md says how to add one.
//
// The tree itself is not changed. The exit code is 1 unless everything that the
// mutants name killed them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are the flags of the command line.
type options struct {
	only     *regexp.Regexp // matches the names of the mutants to plant
	jobs     int
	check    bool          // only see whether each can be planted
	limit    time.Duration // for the tests of one line
	simLimit time.Duration // for the simulation
	seeds    int           // the most seeds that the simulation may take
	verbose  bool
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("only", "", "plant only the mutants whose name matches this `regexp`")
	flags.IntVar(&o.jobs, "j", 2, "number of mutants to try at once, each in its own copy")
	flags.BoolVar(&o.check, "check", false, "only see whether each can be planted")
	flags.DurationVar(&o.limit, "limit", time.Minute, "how long the tests of one line may take")
	flags.DurationVar(&o.simLimit, "simlimit", 10*time.Minute, "how long the simulation may take")
	flags.IntVar(&o.seeds, "seeds", 1000, "number of seeds in which the simulation must find a mutant")
	flags.BoolVar(&o.verbose, "v", false, "show the last lines of what each failing test printed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch o.only, err = regexp.Compile(*only); {
	case err != nil:
		return o, fmt.Errorf("-only: %w", err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("what is %q?", flags.Arg(0))
	case o.jobs < 1 || o.seeds < 1 || o.limit <= 0 || o.simLimit <= 0:
		return o, errors.New("a limit is not positive")
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := rootOf(ctx)
	if err != nil {
		return err
	}
	mutants, err := readMutants(filepath.Join(root, "testdata", "mutants"), o.only)
	if err != nil {
		return err
	}
	if o.check {
		return check(root, mutants)
	}
	c := &campaign{options: o, root: root, mutants: mutants, out: os.Stdout}
	results, err := c.run(ctx)
	if err != nil {
		return err
	}
	return c.summarise(results)
}
