// Command faults puts this module and other implementations of distributed
// locks through the same faults on real servers, one after the other, and
// prints what came of it.
//
//	go run ./cmd/faults                          all trials, some ten minutes
//	go run ./cmd/faults --write                  and write docs/internals/peers.md
//	go run ./cmd/faults --only redsync --trials 3
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/command"
	"github.com/redmux/redmux/bench/compare/internal/trial"
)

// flags is the command line.
type flags struct {
	Only     []string      `sep:"," placeholder:"NAME" help:"Only those whose names begin with one of these."`
	Fault    []string      `sep:"," placeholder:"NAME" help:"Only these: cancelled, cancelled-stopped, stalled, lost, restarted, delayed, extended."`
	Attempts int           `default:"500" help:"Attempts whose callers give up."`
	Trials   int           `default:"5" help:"How often each other fault is made."`
	Each     time.Duration `default:"10s" help:"How long a caller works before, and after, a master is stopped."`
	Write    bool          `help:"Write docs/internals/peers.md."`
}

func main() {
	command.Main("faults", "Puts implementations of distributed locks through the same faults.", &flags{}, run)
}

func run(ctx context.Context, f *flags) error {
	if f.Write && len(f.Only)+len(f.Fault) > 0 {
		return errors.New("--write is for all trials of all, and goes with neither --only nor --fault")
	}
	var results []result
	for i := range trial.Subjects {
		s := &trial.Subjects[i]
		if len(f.Only) > 0 && !slices.ContainsFunc(f.Only, func(name string) bool { return strings.HasPrefix(s.Name, name) }) {
			continue
		}
		r, err := f.try(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		results = append(results, r)
	}
	if !f.Write {
		return page(os.Stdout, f, results)
	}
	path, err := document()
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(page(io.MultiWriter(os.Stdout, file), f, results), file.Close())
}

// document is docs/internals/peers.md of the tree that the working directory
// lies in.
func document() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if docs := filepath.Join(dir, "docs"); isFolder(docs) && isFolder(filepath.Join(dir, "redlock")) {
			return filepath.Join(docs, "internals", "peers.md"), nil
		}
	}
	return "", errors.New("the working directory is not in the tree of redmux")
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// A result is what came of all trials of one subject.
type result struct {
	subject          *trial.Subject
	cancelled        trial.Cancelled
	cancelledStopped trial.Cancelled
	lost             trial.Lost
	stalled          trial.Stalled
	restarted        trial.Restarted
	delayed          trial.Delayed
	extended         trial.Extended
}

// restartTTL is short, so that trials in which the lock is free only after its
// TTL take seconds.
const restartTTL = 4 * time.Second

// try makes all trials, one after the other.
func (f *flags) try(ctx context.Context, s *trial.Subject) (r result, err error) {
	r.subject = s
	const most = time.Minute
	several := s.Nodes > 1
	for _, step := range []struct {
		name string
		made bool
		do   func() error
	}{
		{"cancelled", true, func() (err error) { r.cancelled, err = trial.Cancel(ctx, s, f.Attempts, false, most); return }},
		{"cancelled-stopped", several, func() (err error) {
			r.cancelledStopped, err = trial.Cancel(ctx, s, f.Attempts, true, most)
			return
		}},
		{"stalled", several, func() (err error) { r.stalled, err = trial.Stall(ctx, s, f.Each); return }},
		{"lost", true, func() (err error) { r.lost, err = trial.Lose(ctx, s, f.Trials, restartTTL); return }},
		{"restarted", true, func() (err error) { r.restarted, err = trial.Restart(ctx, s, f.Trials, restartTTL); return }},
		{"delayed", several, func() (err error) { r.delayed, err = trial.Delay(ctx, s, f.Trials); return }},
		{"extended", s.Extends, func() (err error) { r.extended, err = trial.Extend(ctx, s, f.Trials, f.Trials); return }},
	} {
		if !step.made || ctx.Err() != nil || len(f.Fault) > 0 && !slices.Contains(f.Fault, step.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", s.Name, step.name)
		if err := step.do(); err != nil {
			return r, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return r, ctx.Err()
}
