package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/cmd/internal/commandline"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
)

// flags is the command line. Passwords are not part of it, because other users
// of the machine can read command lines.
type flags struct {
	// Where: given nodes, servers to start, or in-process ones.
	Nodes    []string `sep:"none" placeholder:"URL" help:"Masters to use; \"env\" takes those that $REDLOCK_NODES names. Without it servers are started: the variable alone loads nothing, since in an operator's shell it names masters in use."`
	Spawn    *int     `placeholder:"N" help:"How many servers to start (default 5)."`
	Server   string   `placeholder:"PATH" help:"The server to start (default: redis-server or valkey-server on PATH)."`
	Network  string   `enum:"unix,tcp,tls" default:"unix" help:"How callers reach the servers that are started: ${enum}."`
	Embedded bool     `help:"Use in-process servers, as where none is installed."`

	// How much: a run ends by time or by count, whichever is first.
	Duration  time.Duration `short:"d" default:"10s" help:"How long a run lasts."`
	Ops       int64         `short:"n" placeholder:"N" help:"End a run after N acquisitions, if that is sooner."`
	Callers   *int          `name:"clients" aliases:"callers" short:"c" placeholder:"N" help:"Callers working at once (default 64; 4 on in-process servers, which are slow)."`
	Instances int           `default:"1" placeholder:"N" help:"Clients of the implementation, each with connections of its own, as so many processes have; they divide the callers."`
	Rate      float64       `short:"r" placeholder:"N" help:"Open loop: attempts per second, begun by the clock; latencies count from the intended start. 0: closed loop, each caller begins when it is done."`
	Runs      int           `default:"1" help:"Runs of each implementation, which take turns."`
	Warmup    time.Duration `default:"1s" help:"Unmeasured time before each run; the history shows it."`
	Impl      []string      `sep:"," default:"redlock" placeholder:"NAME" help:"What is measured: redlock, redlock-portable (without the poller), redlock-alone (hands no lock over within a client), rueidis, rueidis-all, rueidis-tuned${others}."`

	// What the callers do.
	Keys        int           `placeholder:"M" help:"Resources the callers compete for. 0: each has its own."`
	Dist        dist          `default:"uniform" placeholder:"DIST" help:"How callers choose among --keys: uniform (default), or zipf:1.1 with that exponent."`
	Kind        kind          `default:"plain" placeholder:"KIND" help:"What is locked: plain (default); fenced, with a number that only increases; fair, in order; multi:3, so many of --keys at once; rw:90, readers and writers with so many percent of readers; or permits:5, up to so many holders."`
	Prefix      string        `help:"What the names of resources begin with."`
	TTL         time.Duration `name:"ttl" default:"10s" help:"Of the locks."`
	Hold        hold          `default:"0s" help:"How long a lock is held; exp:5ms is a random time with that mean."`
	Wait        time.Duration `default:"0s" help:"How long an attempt may retry. 0: one try."`
	NodeTimeout time.Duration `default:"0s" help:"How long a node's vote is waited for. 0: as the implementation sees fit."`
	MaxTTL      time.Duration `name:"max-ttl" default:"0s" help:"The longest TTL of the deployment: redlock keeps nodes that restarted out for so long; rueidis knows no such thing. 0: 30s, or on servers started here --ttl if that is longer."`
	CancelAfter time.Duration `default:"0s" help:"Cancel each attempt's context after this time."`
	Seed        uint64        `help:"Of the choice of resources and random times. 0: a random one."`
	Fault       []fault       `sep:"none" placeholder:"AT:KIND:NODE:FOR" help:"What is done to a started server while a run goes on, as 3s:stop:2:1s; may be repeated. Nodes count from 0. Kinds: ${faults}."`

	// Credentials for nodes whose URL has none.
	User        string `help:"User name for nodes whose URL has none."`
	PasswordEnv string `placeholder:"VAR" help:"Environment variable that holds the password."`

	// What comes out.
	History string `placeholder:"FILE" help:"Write one JSON line per event to this file."`
	Stats   string `placeholder:"FILE" help:"Write one JSON line a second to this file: goroutines, descriptors, memory, calls in flight, debts, states of nodes."`
	Output  string `short:"o" enum:"text,json,csv,bench" default:"text" help:"Form of the result: ${enum} (bench is for benchstat)."`
	HTML    string `name:"html" placeholder:"FILE" help:"Write a page of charts to this file, which needs nothing else to be shown; with --compare the earlier runs are on it, too."`
	Quiet   bool   `short:"q" help:"No progress on standard error."`

	// Against an earlier result.
	Compare string      `placeholder:"FILE" help:"Compare with this earlier result of -o json."`
	FailIf  []condition `sep:"none" placeholder:"CONDITION" help:"Exit with 99 if a figure changed too much against --compare, as 'p99>+10%' or 'pairs_per_s<-5%'; may be repeated. Medians of all runs are compared. Metrics: ${metrics}."`

	// Clients is the number of callers: Callers, or the default, which
	// openTarget lowers for in-process servers.
	Clients int `kong:"-"`

	others   []Implementation // that --impl may name besides those of this package
	ignored  bool             // REDLOCK_NODES names masters, but the command line does not use them
	password string           // from PasswordEnv; never printed (R27)
	backend  string           // of the target, once it is open
	earlier  *result          // from Compare
}

// usageError is a wrong command line: exit code 2.
type usageError struct{ error }

// errHelp is returned after help was printed.
var errHelp = errors.New("help was printed")

const description = `Acquires and releases distributed locks, as fast as it can or at a given rate, and counts.

Examples:

  loadgen -d 3s                                      servers of its own, closed loop
  loadgen --nodes redis://a,redis://b,redis://c
  loadgen --nodes env                                the masters of $REDLOCK_NODES
  loadgen --impl redlock,rueidis --runs 5 -c 128     compared, alternating
  loadgen -r 5000 --fault 3s:stop:2:1s --html p.html an open loop, one node stopped
  loadgen --keys 100 --dist zipf:1.1 --hold exp:5ms --wait 1s
  loadgen -o json >before.json; loadgen --compare before.json --fail-if 'p99>+10%'

Exit codes: 0 good; 1 a run failed; 2 usage; 3 exclusion was violated; 99 a --fail-if was missed; 130 interrupted.`

// parse reads the command line and refuses invalid combinations.
func parse(args []string, stdout io.Writer, others ...Implementation) (*flags, error) {
	f := &flags{others: others}
	helped := false
	parser, err := kong.New(f,
		kong.Name("loadgen"),
		kong.Description(description),
		kong.Vars{
			"others":  named(others),
			"faults":  "stop (the process, which goes on afterwards), kill (another comes afterwards, empty), pause (by CLIENT PAUSE), refuse (connections, and cut those that are there)",
			"metrics": strings.Join(metricNames(), ", ") + " (latencies without release_ are of acquisitions)",
		},
		commandline.Bytes(),
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		return nil, err // a mistake in the struct above, not on the command line
	}
	line, err := parser.Parse(args)
	if helped {
		return nil, errHelp
	}
	if err == nil {
		err = commandline.Empty(line)
	}
	if err == nil {
		err = f.takeDefaults()
	}
	if err == nil {
		err = f.validate()
	}
	if err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

// named lists other implementations for the help.
func named(others []Implementation) (text string) {
	for _, other := range others {
		text += ", " + other.Name
		if other.About != "" {
			text += " (" + other.About + ")"
		}
	}
	return text
}

// nodesVariable names the masters of a deployment, mainly for cmd/redlock.
const nodesVariable = "REDLOCK_NODES"

// The default number of callers. In-process servers share the processor with
// the callers and are a hundred times slower than real ones: with 64 callers
// votes time out, which looks like a defect of the library.
const (
	defaultCallers  = 64
	embeddedCallers = 4
)

// takeDefaults sets what depends on the environment. REDLOCK_NODES must be
// requested by name: an operator's shell has it for cmd/redlock, and there it
// names masters in use.
func (f *flags) takeDefaults() error {
	f.Clients = defaultCallers
	if f.Callers != nil {
		f.Clients = *f.Callers
	}
	variable := os.Getenv(nodesVariable)
	lists, fromEnv := f.Nodes, len(f.Nodes) == 1 && f.Nodes[0] == "env"
	if fromEnv {
		lists = []string{variable}
	}
	var err error
	switch f.Nodes, err = commandline.SplitURLs(lists...); {
	case err != nil:
		return fmt.Errorf("--nodes: %w", err)
	case fromEnv && len(f.Nodes) == 0:
		return fmt.Errorf("--nodes env: the environment variable %s is empty", nodesVariable)
	case len(f.Nodes) == 0:
		f.ignored = strings.TrimSpace(variable) != ""
	}
	return nil
}

// validate refuses values that kong accepts, so that a mistake leads to an
// error message and not to a strange result.
func (f *flags) validate() error {
	if err := cmp.Or(
		errtext.Negative("--ops", f.Ops), errtext.Negative("--keys", f.Keys), errtext.Negative("--warmup", f.Warmup),
		errtext.Negative("--wait", f.Wait), errtext.Negative("--node-timeout", f.NodeTimeout),
		errtext.Negative("--cancel-after", f.CancelAfter), errtext.Negative("--max-ttl", f.MaxTTL),
	); err != nil {
		return err
	}
	switch {
	case f.Embedded && len(f.Nodes) > 0:
		return errors.New("--embedded and --nodes exclude one another")
	case f.Embedded && f.Server != "":
		return errors.New("--embedded and --server exclude one another")
	case f.Server != "" && len(f.Nodes) > 0:
		return errors.New("--server and --nodes exclude one another")
	case f.Spawn != nil && len(f.Nodes) > 0:
		return errors.New("--spawn and --nodes exclude one another")
	case f.spawned() < 1 || f.spawned() > maxNodes:
		return fmt.Errorf("--spawn %d: 1 to %d servers can be started", f.spawned(), maxNodes)
	case f.Clients < 1 || f.Clients > maxCallers:
		return fmt.Errorf("--clients %d: 1 to %d callers", f.Clients, maxCallers)
	case f.Instances < 1 || f.Instances > f.Clients:
		return fmt.Errorf("--instances %d: 1 to as many as there are callers", f.Instances)
	case f.Network != "unix" && (f.Embedded || len(f.Nodes) > 0):
		return errors.New("--network is for servers that are started")
	case f.Runs < 1:
		return errors.New("--runs must be at least 1")
	case f.Duration <= 0:
		return errors.New("--duration must be more than 0")
	case f.TTL < time.Millisecond:
		return errors.New("--ttl must be at least 1ms")
	case !(f.Rate >= 0 && f.Rate <= maxRate): // also false for NaN
		return fmt.Errorf("--rate %v: 0 to %d a second", f.Rate, int(maxRate))
	case f.Dist.exponent > 0 && f.Keys == 0:
		return errors.New("--dist needs --keys: without it each caller has a resource of its own")
	case f.MaxTTL > 0 && f.TTL > f.MaxTTL:
		return fmt.Errorf("--ttl %v is longer than --max-ttl %v", f.TTL, f.MaxTTL)
	case f.User != "" && f.PasswordEnv == "":
		return errors.New("--user needs --password-env")
	}
	if err := errors.Join(f.validateNodes(), f.validateImpl(), f.validateKind(), f.validateFaults(), f.readPassword()); err != nil {
		return err
	}
	return f.readEarlier()
}

// spawned returns how many servers to start.
func (f *flags) spawned() int {
	if f.Spawn == nil {
		return 5
	}
	return *f.Spawn
}

// nodeCount returns how many masters there will be.
func (f *flags) nodeCount() int {
	if len(f.Nodes) > 0 {
		return len(f.Nodes)
	}
	return f.spawned()
}

// maxCallers need 4 GB: each has two histograms of 30 KB.
const maxCallers = 1<<16 - 1

// maxRate is more than one process can start.
const maxRate = 1e7

// maxNodes is how many masters one lock may have (R1).
const maxNodes = 16

// validateNodes refuses an invalid URL before anything is started or asked.
// Nodes that do not answer are accepted: they may answer later.
func (f *flags) validateNodes() error {
	if len(f.Nodes) > maxNodes {
		return fmt.Errorf("--nodes: %d of them, but at most %d can be used", len(f.Nodes), maxNodes)
	}
	for i, raw := range f.Nodes {
		if _, err := conn.ParseURL(raw); err != nil {
			return fmt.Errorf("--nodes: number %d: %w", i+1, err) // the error shows no password (R27)
		}
	}
	return nil
}

// validateImpl refuses duplicate names: the comparison of implementations would
// mix their runs.
func (f *flags) validateImpl() error {
	if len(f.Impl) == 0 {
		return errors.New("--impl names nothing")
	}
	for i, name := range f.Impl {
		if !slices.Contains(f.implementations(), name) {
			return fmt.Errorf("--impl %s: choose from %s%s", name, strings.Join(f.implementations(), ", "), f.elsewhere())
		}
		if other := f.other(name); other != nil && other.MostNodes > 0 && f.nodeCount() > other.MostNodes {
			return fmt.Errorf("--impl %s uses at most %s", name, count(other.MostNodes, "node"))
		}
		if slices.Contains(f.Impl[:i], name) {
			return fmt.Errorf("--impl names %s twice; --runs repeats", name)
		}
	}
	return nil
}

// readPassword refuses an empty variable: without a password the nodes would
// answer every command with NOAUTH.
func (f *flags) readPassword() error {
	if f.PasswordEnv == "" {
		return nil
	}
	f.password = os.Getenv(f.PasswordEnv)
	if f.password == "" {
		return fmt.Errorf("--password-env: the environment variable %s is empty", f.PasswordEnv)
	}
	return nil
}

// implementations returns the names that --impl accepts.
func (f *flags) implementations() []string {
	all := append([]string{"redlock", "redlock-portable", "redlock-alone"}, bench.Variants...)
	for _, other := range f.others {
		all = append(all, other.Name)
	}
	return all
}

// other returns the implementation of that name that this package was given, or
// nil.
func (f *flags) other(name string) *Implementation {
	i := slices.IndexFunc(f.others, func(other Implementation) bool { return other.Name == name })
	if i < 0 {
		return nil
	}
	return &f.others[i]
}

// elsewhere says where other libraries can be named, if not here.
func (f *flags) elsewhere() string {
	if len(f.others) > 0 {
		return ""
	}
	return "; redsync, go-redis and others are in the loadgen of bench/compare"
}
