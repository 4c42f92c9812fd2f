// Package load is command loadgen (cmd/loadgen), as a package so that a program
// with more dependencies can offer more implementations: see [Implementation].
//
// The measuring code is the same for every implementation: see package bench. A
// caller's loop reads the clock four times per pair, records two latencies in
// its own histograms and one in a shared one, which is read during the run, and
// allocates nothing. Only the check of resources that callers share (--keys)
// does: two things per pair, which the figures contain.
//
// # In the code
//
// run.go starts the servers (target.go) and makes the runs in turn. A phase is a
// run or its warm-up (phase.go). Its callers (caller.go) lock resources
// (dist.go) by an implementation (implementation.go), at the times that pace.go
// gives in an open loop. referee.go checks them, and inflict.go makes the
// faults. text.go, forms.go and page.go print the result (result.go).
package load

import (
	"os"
	"os/signal"
	"syscall"
)

// Main runs the command of this process, which can measure the given
// implementations besides its own, and returns the exit code.
func Main(others ...Implementation) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// A closed terminal ends the command like an interrupt, so that servers and
	// their folders go with it. Under nohup the signal stays ignored.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A reader that went away ("loadgen | head -1") must not kill the process
	// before it has cleaned up; writing then fails as for any other file.
	signal.Ignore(syscall.SIGPIPE)
	return Run(os.Args[1:], os.Stdout, os.Stderr, signals, others...)
}
