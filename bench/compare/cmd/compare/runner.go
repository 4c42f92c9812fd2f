package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/report"
	"github.com/redmux/redmux/bench/compare/internal/window"
)

// runner measures turns, one after the other, and keeps what came of them.
type runner struct {
	flags    *flags
	plan     []block
	masters  map[place]masters
	data     *report.Data
	progress io.Writer
	windows  int // so far; it names the resources
}

// newRunner starts what the plan needs. Close it.
func newRunner(f *flags, plan []block, progress io.Writer) (*runner, error) {
	masters, err := startAll(plan)
	if err != nil {
		return nil, err
	}
	first := masters[placeOf(plan[0].cases[0])]
	r := &runner{flags: f, plan: plan, masters: masters, progress: progress, data: &report.Data{
		Date: time.Now().UTC().Truncate(time.Second), Commit: commit(), Machine: describeMachine(), Versions: versions(first.version()),
		Settings: report.Settings{
			Rounds: f.Rounds, TTL: ttl, Window: f.Window, Warmup: f.Warmup, Settle: f.Settle,
			StopWindow: f.StopWindow, CountWindow: countWindow, WarmPairs: warmPairs, WarmupLimit: warmupLimit,
		},
	}}
	if !f.Syscalls && !f.Quick {
		r.note("System calls per pair: not asked for (`--syscalls`).")
	}
	return r, nil
}

func (r *runner) close() { closeAll(r.masters) }

// note adds to the report what this run leaves out.
func (r *runner) note(format string, args ...any) {
	r.data.Settings.Notes = append(r.data.Settings.Notes, fmt.Sprintf(format, args...))
}

// measure measures the whole plan, and calls save after each block. It ends early only if
// ctx ends or the servers are lost. A failure of a peer is a result.
func (r *runner) measure(ctx context.Context, save func() error) error {
	for i, b := range r.plan {
		fmt.Fprintf(r.progress, "%s  %d/%d  %s\n", time.Now().Format(time.TimeOnly), i+1, len(r.plan), b.cases[0])
		for round := range r.flags.Rounds {
			if err := r.round(ctx, b, round); err != nil {
				return err
			}
		}
		if err := save(); err != nil {
			return err
		}
	}
	return nil
}

// round takes all turns of a round. A failure of a peer is a sample too: it
// belongs to the result.
func (r *runner) round(ctx context.Context, b block, round int) error {
	for _, t := range r.flags.turns(b, round) {
		result, err := r.take(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			result.Failure = firstLine(err)
		}
		r.data.Samples = append(r.data.Samples, report.Sample{
			Case: t.Case, Peer: t.peer.Name, Round: round, Place: t.place, Result: result,
		})
		if err := r.masters[placeOf(t.Case)].rest(ctx); err != nil {
			return fmt.Errorf("after %s, %s: %w", t.peer.Name, t.Case, err)
		}
	}
	return nil
}

// firstLine returns what the report shows of an error. The rest may be a stack
// with this machine's paths.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// take measures one turn. A server that it stopped goes on before it returns.
func (r *runner) take(ctx context.Context, t turn) (window.Result, error) {
	r.windows++
	job := window.Job{
		Peer: t.peer.Name, Callers: t.Callers, TTL: ttl, Resource: fmt.Sprintf("%d-", r.windows),
		Warmup: r.flags.Warmup, WarmupLimit: warmupLimit, WarmPairs: warmPairs, Window: r.flags.windowOf(t.Kind),
	}
	servers := r.masters[placeOf(t.Case)]
	job.URLs, job.PIDs = servers.urls(t.Network), servers.pids()
	switch t.Kind {
	case report.Stopped:
		job.Settle = r.flags.Settle
		return takeStopping(ctx, job, servers, window.Warm, 0)
	case report.Stopping:
		job.Gaps = true
		return takeStopping(ctx, job, servers, window.Measuring, job.Window/2)
	case report.Counting:
		return takeCounting(ctx, job)
	}
	return window.Run(ctx, job, nil)
}

// takeStopping stops the last of the masters some time after a stage of the
// child, which learns nothing of it.
func takeStopping(
	ctx context.Context, job window.Job, servers masters, at window.Stage, after time.Duration,
) (window.Result, error) {
	victim := servers[len(servers)-1]
	// The callback runs on this goroutine, while Run reads from the child, so
	// that stopped needs no lock.
	var stopped error
	result, err := window.Run(ctx, job, func(s window.Stage, _ int) {
		if s == at {
			time.Sleep(after)
			stopped = victim.Stop()
		}
	})
	if going := victim.Continue(); going != nil {
		return result, going
	}
	if err == nil {
		err = stopped // a figure of a stop that did not take place would be a lie
	}
	return result, err
}

// takeCounting counts the child's system calls during the window.
func takeCounting(ctx context.Context, job window.Job) (window.Result, error) {
	var calls int64
	var took time.Duration
	var failure error
	result, err := window.Run(ctx, job, func(s window.Stage, pid int) {
		if s == window.Measuring {
			calls, took, failure = countSyscalls(ctx, pid, countTime)
		}
	})
	if failure != nil {
		result.CountFailure = firstLine(failure)
		return result, err
	}
	result.Syscalls, result.CountedFor = calls, took
	return result, err
}

// saver writes the raw data, so that an interrupted run is not lost.
func (r *runner) saver(path string) func() error {
	return func() error {
		var b strings.Builder
		if err := r.data.Write(&b); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(b.String()), 0o644)
	}
}
