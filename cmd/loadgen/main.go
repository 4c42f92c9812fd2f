// Command loadgen measures how many locks per second are acquired and released
// over N masters, how long that takes, and what it costs; and checks as it goes
// that no two of its callers hold one resource.
//
//	go run ./cmd/loadgen
//	go run ./cmd/loadgen --impl redlock,rueidis,rueidis-tuned --runs 3 -c 128
//	go run ./cmd/loadgen --nodes redis://a:6379,redis://b:6379,redis://c:6379
//
// Without --nodes it starts servers of its own, or, where none is installed,
// in-process ones; each result says which. The exit code is 0 when all went
// well, 1 when a run failed, 2 when the command line makes no sense, 3 when
// exclusion was violated and 130 when it was interrupted. ("go run" makes 1 of
// all that are not 0; build the command to see which.) An interrupt stops the
// callers, releases what they hold and prints the result; a second one leaves at
// once.
//
// What is measured is the same code for every implementation: see package
// bench. A caller's loop reads the clock four times per pair, records two
// latencies in histograms of its own, claims and frees one word, and allocates
// nothing.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// A terminal that was closed ends the command as an interrupt does, so that
	// servers and their folders go with it. Under nohup the signal stays ignored.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A reader that went away ("loadgen | head -1") must not kill the process
	// before it has cleaned up; writing then fails as to any other file.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, signals))
}
