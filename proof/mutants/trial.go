package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A bench is a copy of the tree with all that the tests of one worker need.
type bench struct {
	tree    string // the copy
	scratch string // for binaries and the tests' temporary files; its path is short, because it holds unix sockets
	env     []string
	raceful bool // the race detector works
}

// wantsRace is what lines with -race need.
const wantsRace = "the race detector, and so cgo"

// findRace checks whether the race detector works: without a C compiler, Go
// disables cgo.
func (b *bench) findRace(ctx context.Context) error {
	out, err := b.command(ctx, "go", "env", "CGO_ENABLED").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	b.raceful = strings.TrimSpace(string(out)) == "1"
	return nil
}

// An ending is the outcome of the tests of one line.
type ending uint8

const (
	passed  ending = iota
	failed         // at least one test failed
	skipped        // all matching tests were skipped, or cannot be run here: see verdict.wants
	missing        // there is no such test
	hung           // the time limit was exceeded
	unbuilt
)

// A verdict is an ending with its details.
type verdict struct {
	ending ending
	wants  string // what is missing if skipped; "" means a server
	test   string // the first test that failed
	seed   int    // the first seed with which the simulation failed, or 0
	took   time.Duration
	output string // the end of the printed output
}

// try runs the tests of one line on the bench's current tree. It builds the
// binary first, so that the time limit applies to the tests alone, and code
// that does not compile is told from a test that fails.
func (b *bench) try(ctx context.Context, k killer, o *options) verdict {
	if !b.raceful && slices.Contains(k.flags, "-race") {
		return verdict{ending: skipped, wants: wantsRace}
	}
	if !k.sim {
		return b.run(ctx, k, o.limit)
	}
	k.pkg, k.tests = "./proof/sim", "TestSeeds"
	v := verdict{}
	for next, size := 1, fewSeeds; next <= o.seeds && v.ending == passed; next, size = next+size, 4*size {
		size = min(size, o.seeds-next+1)
		v = b.run(ctx, k, o.simLimit, "-sim.seeds="+strconv.Itoa(size), "-sim.first="+strconv.Itoa(next))
	}
	return v
}

// fewSeeds is a number of seeds that finds most of what is found at all. The
// simulation runs all its seeds whatever it finds. It begins with the first one:
// so the seed that finds a mutant is the number of seeds tried, and each run of
// this command tries the same ones.
const fewSeeds = 50

// run builds a package's tests and runs those of one line, with additional
// arguments.
func (b *bench) run(ctx context.Context, k killer, limit time.Duration, args ...string) verdict {
	// One binary per package, so that an unchanged package is not linked again.
	binary := filepath.Join(b.scratch, strings.Map(nameOnly, strings.Join(k.flags, "")+k.pkg)+".test")
	// With trimmed paths, all copies share one build cache.
	build := append([]string{"test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-o", binary}, k.flags...)
	if out, err := b.command(ctx, "go", append(build, k.pkg)...).CombinedOutput(); err != nil {
		return verdict{ending: unbuilt, output: tail(out)}
	}
	begun := time.Now()
	flags := []string{"-test.v", "-test.failfast", "-test.run=" + whole(k.tests), "-test.timeout=" + limit.String()}
	patience, cancel := context.WithTimeout(ctx, limit+10*time.Second) // the test binary itself ends earlier, and says more
	defer cancel()
	cmd := b.command(patience, binary, append(flags, args...)...)
	cmd.Dir = filepath.Join(b.tree, k.pkg)
	out, err := cmd.CombinedOutput()
	v := judge(out, err == nil)
	v.took = time.Since(begun)
	if !k.sim {
		v.seed = 0 // seeds that other tests print mean nothing here
	}
	if patience.Err() != nil {
		v.ending = hung
	}
	return v
}

// nameOnly keeps the runes of a text that may be part of a file name.
func nameOnly(r rune) rune {
	if r == '/' || r == '.' {
		return '-'
	}
	return r
}

func (b *bench) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = b.tree, b.env
	cmd.WaitDelay = 5 * time.Second // a grandchild may still hold the output
	ownGroup(cmd)
	return cmd
}

// environment returns this process's environment, with temporary files in
// scratch.
func environment(scratch string) []string {
	return append(os.Environ(), "TMPDIR="+scratch)
}

var (
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	passLine = regexp.MustCompile(`(?m)^--- PASS: `)
	skipLine = regexp.MustCompile(`(?m)^--- SKIP: `)
	runLine  = regexp.MustCompile(`(?m)^=== RUN +([^/\s]+)`)
	// The simulation prints the seed with each violation, or in the name of the
	// failed subtest.
	seedText = regexp.MustCompile(`(?m)\bseed (\d+): |^ +--- FAIL: \S*seed=(\d+)`)
)

// judge reads the output of a test binary with -test.v.
func judge(out []byte, ok bool) verdict {
	v := verdict{output: tail(out)}
	switch {
	case !ok && bytes.Contains(out, []byte("panic: test timed out after")):
		v.ending = hung
	case !ok:
		v.ending = failed
		if m := failLine.FindSubmatch(out); m != nil {
			v.test = string(m[1])
		} else if m := runLine.FindAllSubmatch(out, -1); m != nil {
			v.test = string(m[len(m)-1][1]) // a panic of another goroutine names no test
		}
		v.seed = firstSeed(out)
	case passLine.Match(out):
		v.ending = passed
	case skipLine.Match(out):
		v.ending = skipped
	default:
		v.ending = missing
	}
	return v
}

// firstSeed returns the lowest seed in an output that reports a failure, or 0
// if there is none.
func firstSeed(out []byte) int {
	first := 0
	for _, m := range seedText.FindAllSubmatch(out, -1) {
		seed, err := strconv.Atoi(string(m[1]) + string(m[2])) // one of the two is empty
		if err == nil && (first == 0 || seed < first) {
			first = seed
		}
	}
	return first
}

// tail returns the end of an output, enough to see the cause.
func tail(out []byte) string {
	const most = 4 << 10
	out = bytes.TrimSpace(out)
	return strings.ToValidUTF8(string(out[max(0, len(out)-most):]), "?")
}

// String tells the author of the line what an ending means.
func (v verdict) String() string {
	switch v.ending {
	case passed:
		return "survived"
	case failed:
		if v.seed != 0 {
			return fmt.Sprintf("%s (seed %d)", v.test, v.seed)
		}
		return cmp.Or(v.test, "the tests ended before any failed")
	case skipped:
		return "not covered: it needs " + cmp.Or(v.wants, "a real server")
	case missing:
		return "no such test"
	case hung:
		return "did not end"
	default:
		return "does not build"
	}
}
