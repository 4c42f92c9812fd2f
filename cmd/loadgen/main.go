// Command loadgen measures how many locks per second are acquired and released
// over N masters, how long that takes and what it costs. Meanwhile it checks
// that no two of its callers hold the same resource.
//
//	go run ./cmd/loadgen
//	go run ./cmd/loadgen --impl redlock,rueidis,rueidis-tuned --runs 3 -c 128
//	go run ./cmd/loadgen --nodes redis://a:6379,redis://b:6379,redis://c:6379
//	go run ./cmd/loadgen --rate 5000 --html page.html --fault 3s:stop:2:1s
//	go run ./cmd/loadgen --keys 100 --dist zipf:1.1 --hold exp:5ms --wait 1s
//	go run ./cmd/loadgen -o json >before.json
//	go run ./cmd/loadgen --compare before.json --fail-if 'p99>+10%'
//
// Without --nodes it starts servers of its own, or in-process ones if none is
// installed; each result says which. In-process servers are slow, so they get 4
// callers instead of 64 unless --clients says otherwise.
//
// REDLOCK_NODES is used only with --nodes=env. An operator's shell has the
// variable for cmd/redlock, and there it names masters in use. If it is set and
// not used, a line on standard error says so.
//
// # Closed and open loop
//
// By default each caller starts an attempt when the previous one is done: a
// closed loop. It finds the highest throughput, but its latencies flatter:
// while the servers stall, each caller waits with a single attempt, and the
// attempts that users would have made meanwhile are neither made nor counted.
// With --rate attempts start by the clock, and latency counts from the intended
// start, even if no caller was free: an open loop. The result names the kind of
// loop, and for an open loop the number of attempts that started late, or not
// at all before the end.
//
// # Faults
//
// --fault AT:KIND:NODE:FOR does something to a server that was started here, AT
// after the start of measuring, in each run: stop (the process is stopped and
// continues afterwards), kill (an empty server replaces it afterwards), pause
// (by CLIENT PAUSE), refuse (connections are cut, and no new one can be made).
// A fault ends with its run at the latest, and between runs the servers are
// restored.
//
// After a kill, redlock does not count the server's votes for --max-ttl, 30 s by
// default, since it may have forgotten locks. So in a shorter run a kill of a
// node of five costs one of the two that may fail, to the end; kills of more
// than that stop all locks for as long. To measure the return, make the run
// longer than that, or set --ttl and --max-ttl to less: --ttl=1s --max-ttl=1s.
// rueidis counts the server at once, and can grant a lock that is held. After
// the other faults the server still has its keys, and counts at once.
//
// # The deployment
//
// On servers that were started here the deployment of redlock is opened before
// each run (admin.Init), so that nothing waits. That of --nodes is not: run
// redlock init there once, or masters that have run for less than --max-ttl do
// not count.
//
// # What comes out
//
// The result goes to standard output, as text, JSON, CSV, or in Go's benchmark
// format for benchstat; progress goes to standard error. --html writes a page
// of charts, --history each event, --stats once a second the state of the
// process. Passwords come from the environment or in URLs and are never
// printed.
//
// The exit code is 0 if all went well, 1 if a run failed, 2 for a wrong command
// line, 3 if exclusion was violated, 99 if a --fail-if was missed and 130 after
// an interrupt. ("go run" turns every code but 0 into 1; build the command to
// see which.) An interrupt stops the callers, releases what they hold and
// prints the result; a second one exits at once.
//
// Package load is the program. The loadgen of bench/compare is the same one with
// other libraries to name in --impl.
package main

import (
	"os"

	"github.com/redmux/redmux/cmd/loadgen/load"
)

func main() { os.Exit(load.Main()) }
