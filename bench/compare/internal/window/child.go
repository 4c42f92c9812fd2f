package window

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/redmux/redmux/bench/compare"
)

// childVariable is set in the environment of a child.
const childVariable = "REDMUX_COMPARE_WINDOW"

// Main does a job and exits if this process was started by Run; otherwise it
// returns. A program that calls Run must call Main first.
func Main() {
	if os.Getenv(childVariable) == "" {
		return
	}
	in := json.NewDecoder(os.Stdin)
	var job Job
	if err := in.Decode(&job); err != nil {
		os.Exit(2)
	}
	// The parent holds the other end until it has the result. If it is gone,
	// the child ends.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	time.AfterFunc(job.length()+slack, func() { os.Exit(4) })
	out := json.NewEncoder(os.Stdout)
	result := work(job, func(s Stage) { _ = out.Encode(message{Stage: s}) })
	if out.Encode(message{Result: &result}) != nil {
		os.Exit(5)
	}
	os.Exit(0) // callers that still wait are left where they are
}

// grace is how long callers may take to finish their last pair, so that as a
// rule no key is left and no connection is in use. It is not measured.
const grace = 200 * time.Millisecond

// work does the job.
func work(job Job, report func(Stage)) Result {
	peer, err := compare.Find(job.Peer)
	if err != nil {
		return Result{Failure: err.Error()}
	}
	pairer, err := peer.Open(job.URLs)
	if err != nil {
		return Result{Failure: "open: " + err.Error()}
	}
	defer closeSoon(pairer)
	c := newCrew(pairer, job)
	c.start()
	warmed := c.warm()
	report(Warm)
	time.Sleep(job.Settle)
	report(Measuring)

	before := readCost(job.PIDs, false)
	c.begin()
	time.Sleep(job.Window)
	elapsed := c.end()
	goroutines := runtime.NumGoroutine()
	after := readCost(job.PIDs, true)

	waiting := c.wait(grace)
	r := c.result()
	r.Warmed, r.Elapsed, r.Waiting, r.Goroutines = warmed, elapsed, waiting, goroutines
	after.since(before, &r)
	return r
}

// closeSoon closes the peer, but waits no longer than for the callers: the
// process ends in any case.
func closeSoon(p compare.Pairer) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = p.Close(ctx)
	}()
	select {
	case <-closed:
	case <-time.After(grace):
	}
}

// cost is what this process and the servers have used up so far.
type cost struct {
	client  time.Duration
	servers time.Duration
	unknown error // why servers is not known
	memory  runtime.MemStats
}

// readCost reads the client's own CPU time last at the beginning of a window
// and first at its end, so that the reading itself is not measured.
func readCost(pids []int, end bool) (c cost) {
	if end {
		c.client = selfCPU()
	}
	runtime.ReadMemStats(&c.memory) // stops the world for some microseconds
	for _, pid := range pids {
		spent, err := processCPU(pid)
		if err != nil {
			c.unknown = err
			break
		}
		c.servers += spent
	}
	if !end {
		c.client = selfCPU()
	}
	return c
}

// since writes what was used up between two readings into the result.
func (c cost) since(before cost, r *Result) {
	r.ClientCPU = c.client - before.client
	r.Mallocs = c.memory.Mallocs - before.memory.Mallocs
	r.Bytes = c.memory.TotalAlloc - before.memory.TotalAlloc
	r.Collections = c.memory.NumGC - before.memory.NumGC
	switch {
	case before.unknown != nil:
		r.Unknown = before.unknown.Error()
	case c.unknown != nil:
		r.Unknown = c.unknown.Error()
	default:
		servers := c.servers - before.servers
		r.ServersCPU = &servers
	}
}
