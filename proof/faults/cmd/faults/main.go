// Command faults runs redlock on real servers while everything that can be made
// to fail fails, and says what came of it. See package faults for what is done
// and what is checked.
//
//	go run ./proof/faults/cmd/faults                     everything at once, for two minutes
//	go run ./proof/faults/cmd/faults --for 15m           10⁴ faults and more than 10⁷ operations, on two cores
//	go run ./proof/faults/cmd/faults --soak --for 8h     fails on a slope of memory, goroutines or descriptors too
//	go run ./proof/faults/cmd/faults --kinds kill,stop   these only; "list" names all
//
// The exit code is 0 when all was well, 1 when the run failed or something
// grew, 2 when the command line makes no sense and 3 when
// exclusion was violated, replies were mixed up, or keys were left behind. ("go
// run" makes 1 of all that are not 0.) An interrupt heals what is broken, looks
// for orphans a last time and prints what came of it until then; a second one
// leaves at once, and the servers and clients end with it, but their folders
// are left among the temporary files.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/proof/faults"
)

type commandLine struct {
	Run  runCommand  `cmd:"" default:"withargs" help:"Run everything at once (the default)."`
	List listCommand `cmd:"" help:"List the kinds of faults."`
}

// console is where a command writes.
type console struct {
	ctx            context.Context
	stdout, stderr io.Writer
}

// Exit codes.
const (
	exitGood     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitViolated = 3
)

func main() {
	faults.WorkerMain() // never returns in a process that is a client of this program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second interrupt ends the program
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var all commandLine
	helped := false
	parser, err := kong.New(&all,
		kong.Name("faults"),
		kong.Description("Runs redlock on real servers while everything that can be made to fail fails."),
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { helped = true }),
	)
	var chosen *kong.Context
	if err == nil {
		chosen, err = parser.Parse(args)
	}
	switch {
	case helped:
		return exitGood
	case err != nil:
		fmt.Fprintln(stderr, "faults:", err)
		return exitUsage
	}
	err = chosen.Run(&console{ctx, stdout, stderr})
	if err != nil {
		fmt.Fprintln(stderr, "faults:", err)
	}
	return exitCode(err)
}

type listCommand struct{}

// Run prints a line for each kind.
func (listCommand) Run(c *console) error {
	for _, k := range faults.Kinds() {
		if _, err := fmt.Fprintf(c.stdout, "%-18s %-8s %s\n", k.Name, k.Scope, k.About); err != nil {
			return err
		}
	}
	return nil
}
