package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/bench/compare"
)

// flags is the command line.
type flags struct {
	// What is measured.
	Peers    []string `sep:"," placeholder:"NAME" help:"Peers to measure (default: all). See the table in the report."`
	Nodes    []int    `sep:"," default:"1,3,5" help:"Numbers of masters."`
	Callers  []int    `sep:"," default:"1,16,128,1024" help:"Numbers of callers at once."`
	Network  []string `sep:"," default:"tcp,unix,tls" enum:"tcp,unix,tls" help:"How clients reach the masters; over TLS with the most masters only."`
	Stopped  bool     `default:"true" negatable:"" help:"Also with one master stopped, with the most masters, if these are three or more."`
	Syscalls bool     `help:"Also system calls per pair, in windows of their own. Needs perf and the right to use it (root)."`

	// How long.
	Rounds     int           `default:"5" help:"Rounds; in each, every peer has one window per case."`
	Window     time.Duration `default:"400ms" help:"Measured time of a window."`
	Warmup     time.Duration `default:"100ms" help:"Unmeasured time before it; more for slow peers."`
	Settle     time.Duration `default:"300ms" help:"Unmeasured time between the stop of a master and the window."`
	StopWindow time.Duration `default:"1s" help:"Length of a window that has the stop in its middle; 0: none."`

	// What comes out.
	Out      string   `default:"../RESULTS.md" placeholder:"FILE" help:"The report."`
	Chart    string   `default:"../../docs/throughput.svg" placeholder:"FILE" help:"The chart."`
	JSON     string   `name:"json" placeholder:"FILE" help:"Raw data, kept up to date (default: a temporary file)."`
	FromJSON []string `name:"from-json" sep:"," placeholder:"FILE" help:"Measure nothing; write both from this data. Cases of a further file take the place of those before, and the report says so."`

	// The check for CI.
	Quick  bool `help:"Only N = 5, unix, 128 callers, ours against rueidis, rueidis-tuned and goredis-async; no report."`
	Assert bool `help:"With --quick: fail unless the ratios are what they must be at least."`
}

const (
	// ttl is that of all locks, long beside a window so that none runs out.
	ttl = 10 * time.Second
	// countTime is how long system calls are counted. perf takes time to begin
	// and end; all of it must lie within countWindow.
	countTime   = 500 * time.Millisecond
	countWindow = time.Second

	// warmPairs is how many pairs the callers make on average before they are
	// measured, and warmupLimit how long that is waited for. With a thousand
	// callers behind a pool of twenty connections the first pair alone takes
	// longer than most windows.
	warmPairs   = 4
	warmupLimit = 3 * time.Second

	mostNodes   = 16
	mostCallers = 1 << 14
)

type usageError struct{ error }

// errHelp is returned when help was asked for and printed.
var errHelp = errors.New("help was printed")

// parse reads the command line and refuses what cannot be meant.
func parse(args []string, stdout io.Writer) (*flags, error) {
	f := &flags{}
	helped := false
	parser, err := kong.New(f, kong.Name("compare"),
		kong.Description("Measures this module beside other implementations of distributed locks."),
		kong.Writers(stdout, io.Discard), kong.Exit(func(int) { helped = true }))
	if err != nil {
		return nil, err // the struct above is wrong, not the command line
	}
	_, err = parser.Parse(args)
	switch {
	case helped:
		return nil, errHelp
	case err == nil:
		err = f.validate()
	}
	if err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

func (f *flags) validate() error {
	switch {
	case f.Assert && !f.Quick:
		return errors.New("--assert goes with --quick")
	case f.Quick && len(f.FromJSON) > 0:
		return errors.New("--quick measures, --from-json does not")
	case f.Rounds < 1:
		return errors.New("--rounds must be at least 1")
	case f.Window <= 0:
		return errors.New("--window must be more than 0")
	case f.Warmup < 0 || f.Settle < 0 || f.StopWindow < 0:
		return errors.New("a time is negative")
	}
	for _, n := range f.Nodes {
		if n < 1 || n > mostNodes {
			return fmt.Errorf("--nodes %d: 1 to %d masters", n, mostNodes)
		}
	}
	for _, n := range f.Callers {
		if n < 1 || n > mostCallers {
			return fmt.Errorf("--callers %d: 1 to %d callers", n, mostCallers)
		}
	}
	for i, name := range f.Peers {
		if _, err := compare.Find(name); err != nil {
			return fmt.Errorf("--peers: %w", err)
		}
		if slices.Contains(f.Peers[:i], name) {
			return fmt.Errorf("--peers names %s twice", name)
		}
	}
	return nil
}

// wants reports whether the peer is to be measured.
func (f *flags) wants(p compare.Peer) bool {
	return len(f.Peers) == 0 || slices.Contains(f.Peers, p.Name)
}
