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
	"sync"
	"time"
)

// A campaign plants one mutant after another.
type campaign struct {
	options
	root    string
	mutants []*mutant
	out     io.Writer

	mu sync.Mutex // guards out
}

// A result is the outcome of one mutant.
type result struct {
	*mutant
	verdicts []verdict // of its killers, in order
	err      error     // why it could not be planted
	took     time.Duration
}

// killed reports whether everything that the mutant names found the mutant.
func (r *result) killed() bool {
	for _, v := range r.verdicts {
		if v.ending != failed && !(v.ending == hung && r.hangs) {
			return false
		}
	}
	return r.err == nil
}

// uncovered reports whether the result is unknown only because there is no
// server to run tests on, or no race detector.
func (r *result) uncovered() bool {
	some := false
	for _, v := range r.verdicts {
		if v.ending == skipped {
			some = true
		} else if v.ending != failed && !(v.ending == hung && r.hangs) {
			return false
		}
	}
	return some && r.err == nil
}

// unserved reports whether a server was missing for one of its lines.
func (r *result) unserved() bool {
	return slices.ContainsFunc(r.verdicts, func(v verdict) bool { return v.ending == skipped && v.wants == "" })
}

// run plants every mutant and returns the results in the order of the mutants.
// It returns an error if that was not possible, or would have proved nothing.
func (c *campaign) run(ctx context.Context) ([]*result, error) {
	work, err := os.MkdirTemp("", "mut")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	// One copy stays unchanged, so that edits to the tree during the run have
	// no effect.
	pristine := filepath.Join(work, "tree")
	files, err := filesOf(ctx, c.root)
	if err != nil {
		return nil, err
	}
	if err := copyTree(c.root, pristine, files); err != nil {
		return nil, err
	}
	benches := make([]*bench, min(c.jobs, len(c.mutants)))
	for i := range benches {
		dir := filepath.Join(work, fmt.Sprint(i))
		benches[i] = &bench{tree: filepath.Join(dir, "tree"), scratch: filepath.Join(dir, "t")}
		benches[i].env = environment(benches[i].scratch)
		err := errors.Join(os.MkdirAll(benches[i].scratch, 0o755), copyTree(pristine, benches[i].tree, files), benches[i].findRace(ctx))
		if err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	skips, err := c.proveUnbroken(ctx, benches)
	if err != nil {
		return nil, err
	}
	c.say("the unbroken tree passes: %v", time.Since(begun).Round(time.Second))
	results := make([]*result, len(c.mutants))
	inParallel(benches, len(c.mutants), func(b *bench, i int) {
		if ctx.Err() == nil {
			results[i] = c.plant(ctx, b, pristine, c.mutants[i], skips)
			c.report(results[i])
		}
	})
	return results, ctx.Err()
}

// inParallel runs n jobs, as many at a time as there are benches.
func inParallel(benches []*bench, n int, do func(b *bench, i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for _, b := range benches {
		wg.Go(func() {
			for i := range next {
				do(b, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// proveUnbroken runs all killers on the unbroken tree: a test that fails there
// anyway proves nothing. It returns the lines whose tests skip themselves or
// cannot be run here, by key.
func (c *campaign) proveUnbroken(ctx context.Context, benches []*bench) (skips map[string]verdict, err error) {
	var lines []killer
	known := make(map[string]bool)
	for _, m := range c.mutants {
		for _, k := range m.killers {
			if !known[k.String()] {
				known[k.String()] = true
				lines = append(lines, k)
			}
		}
	}
	var mu sync.Mutex // guards the following, and skips
	var wrong []error
	skips = make(map[string]verdict)
	inParallel(benches, len(lines), func(b *bench, i int) {
		if ctx.Err() != nil {
			return
		}
		v := b.try(ctx, lines[i], &c.options)
		if ctx.Err() != nil {
			return // it was interrupted and says nothing
		}
		mu.Lock()
		defer mu.Unlock()
		switch v.ending {
		case passed:
		case skipped:
			skips[lines[i].String()] = v
		default:
			wrong = append(wrong, fmt.Errorf("on the unbroken tree, %v: %v\n%s", lines[i], v, indented(v.output)))
		}
	})
	return skips, errors.Join(append(wrong, ctx.Err())...)
}

// plant plants one mutant, runs what it names, and restores the copy.
func (c *campaign) plant(ctx context.Context, b *bench, pristine string, m *mutant, skips map[string]verdict) *result {
	r := &result{mutant: m}
	begun := time.Now()
	defer func() { r.took = time.Since(begun) }()
	restore, err := m.plant(pristine, b.tree)
	if err != nil {
		r.err = err
		return r
	}
	for _, k := range m.killers {
		v, known := skips[k.String()]
		if !known {
			v = b.try(ctx, k, &c.options)
		}
		if v.ending == unbuilt {
			r.err = fmt.Errorf("it does not build:\n%s", indented(v.output))
			break
		}
		r.verdicts = append(r.verdicts, v)
	}
	if err := restore(); err != nil {
		r.err = err
	}
	return r
}

// report prints the result of one mutant as soon as it is known.
func (c *campaign) report(r *result) {
	if r.err != nil {
		c.say("%-32s %-8s BROKEN %v", r.name, r.rule, r.err)
		return
	}
	for i, v := range r.verdicts {
		name, rule, took := r.name, r.rule, fmt.Sprintf("%.1fs", r.took.Seconds())
		if i > 0 {
			name, rule, took = "", "", ""
		}
		said := v.String()
		if v.ending == hung && r.hangs {
			said = r.killers[i].tests + " " + said
		} else if v.ending != failed {
			said += ": " + r.killers[i].String()
		}
		c.say("%-32s %-8s %6s  %s", name, rule, took, said)
		if c.verbose || v.ending == hung && !r.hangs {
			c.say("%s", indented(v.output))
		}
	}
}

// summarise prints how many were killed, and fails unless all were.
func (c *campaign) summarise(results []*result) error {
	killed, uncovered, unserved := 0, 0, 0
	var alive []string
	for _, r := range results {
		switch {
		case r.killed():
			killed++
		case r.uncovered():
			uncovered++
			if r.unserved() {
				unserved++
			}
		default:
			alive = append(alive, r.name)
		}
	}
	c.say("%d mutants: %d killed, %d not covered for want of a server or of the race detector, %d survived or broken",
		len(results), killed, uncovered, len(alive))
	switch {
	case len(alive) > 0:
		return fmt.Errorf("not killed: %s", strings.Join(alive, ", "))
	case unserved > 0 && os.Getenv("REDMUX_REQUIRE_SERVERS") == "1":
		return errors.New("a server is missing, and REDMUX_REQUIRE_SERVERS is 1")
	}
	return nil
}

func (c *campaign) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
