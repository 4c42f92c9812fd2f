// Command mutants plants bugs and sees whether the tests find them: `make mutants`.
//
// Each file of testdata/mutants is a small patch that breaks one rule, and says which one, what it breaks, and which tests
// must fail with it (patch.go). The command copies the tree, shows that all those tests pass on it as it is, since otherwise
// a failure would prove nothing, then applies one patch at a time to a copy and runs the tests that it names (campaign.go).
// Every line that says what kills a mutant must be true: a test that is named and passes is a survivor, whatever else failed.
// docs/mutants.md lists all of them, and says how to add one.
//
// Nothing in the tree itself is touched, but for docs/mutants.md with -table. The exit code is 1 unless every mutant was
// killed by everything that it names.
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

// options are what the command line says.
type options struct {
	only     *regexp.Regexp // names of the mutants to plant
	jobs     int
	table    bool
	limit    time.Duration // for the tests of one line
	simLimit time.Duration // for a simulation
	seeds    int           // that a simulation may take
	verbose  bool
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("only", "", "plant those mutants only whose name this `regexp` matches")
	flags.IntVar(&o.jobs, "j", 2, "so many mutants at once, each in a copy of its own")
	flags.BoolVar(&o.table, "table", false, "write docs/mutants.md when all were killed")
	flags.DurationVar(&o.limit, "limit", time.Minute, "how long the tests of one line may take")
	flags.DurationVar(&o.simLimit, "simlimit", 5*time.Minute, "how long a simulation may take")
	flags.IntVar(&o.seeds, "seeds", 1000, "so many seeds a simulation may take to find a mutant")
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
	case o.table && *only != "":
		return o, errors.New("-table is about all mutants, so not with -only")
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
	patches, err := readPatches(filepath.Join(root, "testdata", "mutants"), o.only)
	if err != nil {
		return err
	}
	c := &campaign{options: o, root: root, patches: patches, out: os.Stdout}
	results, err := c.run(ctx)
	if err != nil {
		return err
	}
	if err := c.summarise(results); err != nil {
		return err
	}
	if o.table {
		return writeTable(filepath.Join(root, "docs", "mutants.md"), results, o.seeds)
	}
	return nil
}
