// Command loadgen measures how many locks per second are acquired and released
// over N masters, how long that takes, and what it costs; and checks as it goes
// that no two of its callers hold one resource.
//
//	go run ./cmd/loadgen
//	go run ./cmd/loadgen --impl redlock,rueidis,rueidis-tuned --runs 3 -c 128
//	go run ./cmd/loadgen --nodes redis://a:6379,redis://b:6379,redis://c:6379
//	go run ./cmd/loadgen --rate 5000 --html page.html --fault 3s:stop:2:1s
//	go run ./cmd/loadgen --keys 100 --dist zipf:1.1 --hold exp:5ms --wait 1s
//	go run ./cmd/loadgen -o json >before.json
//	go run ./cmd/loadgen --compare before.json --fail-if 'p99>+10%'
//
// Without --nodes it starts servers of its own, or, where none is installed,
// in-process ones; each result says which. In-process servers are slow, so they
// get 4 callers and not 64 unless --clients says otherwise.
//
// REDLOCK_NODES is used only where --nodes is "env". An operator's shell has the
// variable for cmd/redlock, and there it names masters in use. Where it is set and
// not used, a line on standard error says so.
//
// # Closed and open loop
//
// By default each caller begins an attempt when the one before is done: a closed
// loop. It finds the greatest throughput, and its latencies flatter: while the
// servers stall, callers wait with one attempt each, and the attempts that users
// would have made meanwhile are never made nor counted. With --rate attempts begin
// by the clock, and latency counts from the intended start, also where no caller
// was free: an open loop. The result says which of the two it was, and of an open
// loop how many attempts began late or not at all before the end.
//
// # Faults
//
// --fault AT:KIND:NODE:FOR does something to a server that was started here, AT
// after the start of measuring, in each run: stop (the process is stopped and goes
// on afterwards), kill (another one comes afterwards, empty: see --max-ttl), pause
// (by CLIENT PAUSE), refuse (connections are cut, and no new one can be made). What
// lasts longer than the run ends with it, and between runs the servers are made
// to be as before.
//
// # What comes out
//
// The result goes to standard output, as text, JSON, CSV, or in Go's benchmark
// format for benchstat; progress goes to standard error. --html writes a page of
// charts, --history each event, --stats once a second what the process is made of.
// Passwords come from the environment or in URLs and are printed nowhere.
//
// The exit code is 0 when all went well, 1 when a run failed, 2 when the command
// line makes no sense, 3 when exclusion was violated, 99 when a --fail-if was
// missed and 130 when it was interrupted. ("go run" makes 1 of all that are not 0;
// build the command to see which.) An interrupt stops the callers, releases what
// they hold and prints the result; a second one leaves at once.
//
// What is measured is the same code for every implementation: see package
// bench. A caller's loop reads the clock four times per pair, records two
// latencies in histograms of its own and one in a shared one, for those who watch,
// claims and frees one word, and allocates nothing.
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
