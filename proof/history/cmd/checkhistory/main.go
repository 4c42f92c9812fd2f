// Command checkhistory checks the histories that `loadgen --history FILE`
// wrote: whether a resource ever had two holders at the same time, or more than
// may share it, and whether fencing numbers and queues are in order.
//
//	checkhistory FILE…
//
// Several files are merged, provided that all were written on one machine since
// it booted. The exit code is 0 if all is well, 1 if a file could not be read
// or checked, 2 for wrong usage, and 3 if exclusion was violated.
package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/proof/history"
)

const (
	exitGood     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitViolated = 3
)

type flags struct {
	Files    []string      `arg:"" name:"file" help:"Histories of one machine, one for each process; - is standard input."`
	Disorder time.Duration `default:"10s" help:"How far the lines of a file may be out of order."`
	Patience time.Duration `default:"10s" help:"How long one window of a history may be thought about."`
	Show     int           `default:"20" help:"How many violations are printed."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// exit carries an exit code out of kong, which would otherwise end the process.
type exit int

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if left, ok := recover().(exit); ok {
			code = int(left)
		}
	}()
	var f flags
	parser := kong.Must(&f, kong.Name("checkhistory"), kong.Writers(stdout, stderr),
		kong.Description("Judges the histories that `loadgen --history FILE` wrote. It exits 3 if exclusion was violated."),
		kong.Exit(func(code int) { panic(exit(code)) }))
	if _, err := parser.Parse(args); err != nil {
		fmt.Fprintln(stderr, "checkhistory:", err)
		return exitUsage
	}
	return check(f, stdin, stdout, stderr)
}

// check reads all files in one pass and prints its findings.
func check(f flags, stdin io.Reader, stdout, stderr io.Writer) int {
	var streams []iter.Seq2[history.Event, error]
	for _, name := range f.Files {
		if name == "-" {
			streams = append(streams, history.Read(stdin))
		} else {
			streams = append(streams, history.Open(name))
		}
	}
	var exclusion history.Exclusion
	locks := history.Locks{Patience: f.Patience}
	resources := make(map[string]struct{})
	failed, cut := false, 0
	for e, err := range history.Merge(f.Disorder, streams...) {
		switch {
		case errors.Is(err, history.ErrCut):
			cut++ // its process was killed
		case err != nil:
			fmt.Fprintln(stderr, "checkhistory:", err)
			failed = true
		default:
			exclusion.Add(e)
			locks.Add(e)
			resources[e.Resource] = struct{}{}
		}
		if failed {
			break
		}
	}
	verdict := locks.Finish()
	violations := report(stdout, f.Show, &exclusion, verdict, len(resources), cut)
	switch {
	case violations > 0:
		return exitViolated
	case failed || verdict.Undecided > 0:
		return exitFailed
	default:
		return exitGood
	}
}

// report prints the figures and returns the number of violations.
func report(w io.Writer, show int, x *history.Exclusion, v history.Verdict, resources, cut int) int {
	found := x.Violations()
	violations := len(found) + x.More() + v.Violated
	fmt.Fprintf(w, "events       %d\n", x.Events)
	fmt.Fprintf(w, "grants       %d, of which %d were over when they were told\n", x.Grants, x.Empty)
	if shared := x.Grants - x.Forms[history.PlainForm]; shared > 0 {
		fmt.Fprintf(w, "forms        %d plain, %d read, %d write, %d permits, %d fair; %d upgrades, %d downgrades, %d places in a queue\n",
			x.Forms[history.PlainForm], x.Forms[history.ReadForm], x.Forms[history.WriteForm], x.Forms[history.PermitForm],
			x.Forms[history.FairForm], x.Upgrades, x.Downgrades, x.Queued)
	}
	fmt.Fprintf(w, "extensions   %d\n", x.Extensions)
	fmt.Fprintf(w, "numbers      %d grants had a fencing number\n", x.Numbers)
	fmt.Fprintf(w, "overdue      %d were not released within their validity\n", x.Overdue)
	fmt.Fprintf(w, "resources    %d\n", resources)
	fmt.Fprintf(w, "porcupine    %d operations in %d windows: %d violated, %d not decided, %d skipped\n",
		v.Operations, v.Windows, v.Violated, v.Undecided, v.Skipped)
	if cut > 0 {
		fmt.Fprintf(w, "cut          %d files end in the middle of a line\n", cut)
	}
	fmt.Fprintf(w, "violations   %d\n", violations)
	for i, one := range found {
		if i == show {
			break
		}
		fmt.Fprintf(w, "  %v\n", one)
	}
	for i, one := range v.Findings {
		if i == show {
			break
		}
		fmt.Fprintf(w, "  porcupine: %s\n", one)
	}
	return violations
}
