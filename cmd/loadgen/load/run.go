package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The exit codes.
const (
	exitGood        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitViolated    = 3
	exitMissed      = 99
	exitInterrupted = 130
)

// Run is the command without its process: with the arguments of a command line
// it writes to stdout and stderr, and returns the exit code. The first signal
// ends it soon, the second at once.
func Run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal, others ...Implementation) int {
	return runWith(openSystem, args, stdout, stderr, signals, others...)
}

// opener opens the implementation of that name; tests use others.
type opener func(f *flags, name string, urls []string) (System, error)

// runWith watches for signals while the session runs in a goroutine of its own.
// The first signal ends the session's context, after which the session ends by
// itself; the second one does not wait for that.
func runWith(open opener, args []string, stdout, stderr io.Writer, signals <-chan os.Signal, others ...Implementation) int {
	f, err := parse(args, stdout, others...)
	if err != nil {
		return explain(stderr, err)
	}
	if f.ignored {
		fmt.Fprintf(stderr, "loadgen: %s is set and not used: it may name masters in use. To load them, say --nodes env.\n", nodesVariable)
	}
	s := &session{flags: f, title: titleOf(args), open: open, clock: newClock(), stdout: stdout, progress: newProgress(stderr, f.Quiet)}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	for {
		select {
		case err := <-done:
			return explain(stderr, err)
		case <-signals:
			if ctx.Err() != nil {
				s.closeTarget() // the process exits before the session can do it
				return exitInterrupted
			}
			interrupt()
		}
	}
}

// The errors with an exit code of their own. A violation is the graver finding
// and takes precedence over an interrupt.
var (
	errViolated    = errors.New("mutual exclusion was VIOLATED")
	errInterrupted = errors.New("interrupted")
)

// explain prints the error and returns the exit code.
func explain(stderr io.Writer, err error) int {
	if err == nil || errors.Is(err, errHelp) {
		return exitGood
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "loadgen: %s\n", strings.TrimSuffix(line, "\n"))
	}
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "loadgen: --help shows what can be said")
		return exitUsage
	case errors.Is(err, errViolated):
		return exitViolated
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errMissed):
		return exitMissed
	default:
		return exitFailed
	}
}

// session is all runs of one command.
type session struct {
	flags    *flags
	title    string // the command line, without secrets
	open     opener
	clock    clock
	stdout   io.Writer
	progress *progress

	// Set before the first run and then used by the goroutine of run. Attempts
	// are numbered over all runs, so that a client and a number identify one
	// attempt in the history.
	history   *history
	stats     *stats
	pageFile  *pageFile
	nodes     []nodeResult
	resources []string
	attempts  []int64
	result    result

	mu     sync.Mutex // guards the following
	target *target
	gone   bool // the target is closed, and must not be opened again
}

// run runs until all is done or an interrupt ends ctx.
func (s *session) run(ctx context.Context) (err error) {
	t, err := s.openTarget()
	if err != nil {
		return err
	}
	defer s.closeTarget()
	if err := s.prepare(t); err != nil {
		return err
	}
	s.result.Schema = schema
	s.result.Runs = []runResult{}
	err = s.runAll(ctx, t)
	if s.flags.earlier != nil && ctx.Err() == nil {
		s.result.Compared = compare(s.flags, s.result.Runs)
		if text := otherwise(s.flags, s.result.Runs); text != "" && s.flags.Output != "text" { // the text output says it itself
			s.progress.say("--compare: %s", text)
		}
		if err == nil { // a run that failed has no figures
			err = judgeComparison(s.result.Compared)
		}
	}
	s.result.Interrupted = ctx.Err() != nil
	err = errors.Join(err, s.history.close(), s.stats.close(), s.print(t), s.pageFile.write(s.page()))
	for _, r := range s.result.Runs {
		if r.Violations > 0 {
			return errors.Join(err, errViolated)
		}
	}
	if ctx.Err() != nil {
		return errors.Join(err, errInterrupted)
	}
	return err
}

// prepare asks the nodes, names the resources and opens the files.
func (s *session) prepare(t *target) error {
	f := s.flags
	f.backend = t.backend
	infos, err := t.probe(f)
	if err != nil {
		return err
	}
	for _, n := range infos {
		if n.Err != nil {
			s.progress.say("%s does not answer: %s", n.Addr, printable(n.Err.Error()))
		}
		s.nodes = append(s.nodes, nodeResult{n.Addr, printable(n.Product), printable(n.Version)})
	}
	if t.remark != "" && f.Output != "text" { // the text output says it itself
		s.progress.say("%s", t.remark)
	}
	if f.Seed == 0 {
		f.Seed = uint64(rand.Uint32()) // short enough to type, and exact in any JSON reader
	}
	s.result.Seed = f.Seed
	s.resources = resourceNames(f)
	s.attempts = make([]int64, f.Clients)
	return s.openFiles()
}

// openFiles opens the output files, so that a name that cannot be written is
// reported before anything is measured.
func (s *session) openFiles() (err error) {
	f := s.flags
	if f.History != "" {
		if s.history, err = createHistory(f.History, s.clock); err != nil {
			return err
		}
	}
	if f.Stats != "" {
		var addrs []string
		for _, n := range s.nodes {
			addrs = append(addrs, n.Addr)
		}
		if s.stats, err = createStats(f.Stats, s.clock, addrs); err != nil {
			return err
		}
	}
	if f.HTML != "" {
		s.pageFile, err = openPage(f.HTML)
	}
	return err
}

// resourceNames returns names that are the same in every process if resources
// are shared, and otherwise differ from those of other processes.
func resourceNames(f *flags) []string {
	if f.Keys == 0 {
		own := fmt.Sprintf("%sown:%08x:", f.Prefix, rand.Uint32())
		return numbered(own, f.Clients)
	}
	return numbered(f.Prefix+"k", f.Keys)
}

// numbered names are made in advance: the measuring loop creates no strings.
func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}

// runAll lets the implementations take turns, so that a machine that slows down
// or is shared hits all of them. A run without a grant is an error, but the
// others still have their turn.
func (s *session) runAll(ctx context.Context, t *target) error {
	var errs []error
	for i := range s.flags.Runs {
		for _, impl := range s.flags.Impl {
			if ctx.Err() != nil {
				return errors.Join(errs...)
			}
			err := s.runOne(ctx, t, impl, i)
			switch {
			case errors.Is(err, errNothing):
				errs = append(errs, fmt.Errorf("%s: run %d: %w", impl, i+1, err))
			case err != nil:
				return errors.Join(append(errs, fmt.Errorf("%s: %w", impl, err))...)
			}
		}
	}
	return errors.Join(errs...)
}

// errNothing is a run without a grant.
var errNothing = errors.New("nothing was granted")

// closeTimeout bounds the wait for releases in flight.
const closeTimeout = 5 * time.Second

// runOne opens an implementation, warms it up, measures it and closes it: only
// the measured one has connections, buffers or goroutines.
func (s *session) runOne(ctx context.Context, t *target, impl string, i int) error {
	sys, err := s.openAll(impl, t.urls)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("run %d of %d: %s, %s, %s", i+1, s.flags.Runs, impl, count(s.flags.Clients, "caller"), count(len(t.urls), t.backend+" node"))
	r, measured, err := s.measure(ctx, sys, t, title)

	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if sys.close(closing) != nil {
		// The measurement stands all the same.
		r.Errors["closed with releases still on their way"]++
	}
	if measured {
		r.Impl, r.Backend, r.N, r.Nodes = impl, t.backend, len(t.urls), s.nodes
		s.result.Runs = append(s.result.Runs, r)
	}
	if len(s.flags.Fault) > 0 && ctx.Err() == nil {
		err = errors.Join(err, t.settle(ctx))
	}
	return err
}

// openAll opens the clients of an implementation, which share the callers.
func (s *session) openAll(impl string, urls []string) (System, error) {
	sys, err := s.open(s.flags, impl, urls)
	for range s.flags.Instances - 1 {
		if err != nil {
			break
		}
		var next System
		if next, err = s.open(s.flags, impl, urls); err == nil {
			sys.join(next)
		}
	}
	if err != nil && sys != nil {
		_ = sys.close(context.Background())
	}
	return sys, err
}

// measure warms up and measures. If nothing was granted in the warm-up, that is
// the result, since a run would only say the same later; to see nodes come
// back, the user disables the warm-up. measured is false if an interrupt came
// before the run: then there is nothing worth printing, unless exclusion has
// been violated.
func (s *session) measure(ctx context.Context, sys System, t *target, title string) (r runResult, measured bool, err error) {
	violations := int64(0)
	if s.flags.Warmup > 0 {
		p := s.newPhase()
		stop := s.stats.watch(p, sys)
		r = newRunResult(p, s.drive(ctx, sys, p, s.flags.Warmup))
		stop()
		switch {
		case r.failed():
			return r, true, fmt.Errorf("%w in the warm-up", errNothing)
		case ctx.Err() != nil:
			return r, r.Violations > 0, nil
		}
		violations = r.Violations
	}
	p := s.newPhase()
	p.limit(s.flags.Ops)
	r, err = s.observe(ctx, sys, t, p, title)
	r.Violations += violations
	if r.fruitless() {
		err = errors.Join(err, errNothing)
	}
	return r, true, err
}

// observe drives the measured phase while it takes samples, reports progress
// and makes faults.
func (s *session) observe(ctx context.Context, sys System, t *target, p *phase, title string) (runResult, error) {
	sampler := startSampler(p, sys)
	stopProgress := s.progress.watch(title, p, sampler)
	stopStats := s.stats.watch(p, sys)
	faults := startInflictor(p, t.servers, s.progress.say)
	totals := s.drive(ctx, sys, p, s.flags.Duration)
	stopStats()
	samples := sampler.stop()
	err := faults.stop()
	stopProgress()

	r := newRunResult(p, totals)
	r.samples, r.states = samples, sys.nodes()
	r.Faults, r.FaultsNotMade = faults.done, faults.notMade
	return r, err
}

// newPhase creates a phase of this session. It starts with new
// referees, since a phase ends with everything released.
func (s *session) newPhase() *phase {
	return newPhase(s.flags, s.clock, s.history, s.resources, s.attempts)
}

// drive runs a phase; an interrupt halts it.
func (s *session) drive(ctx context.Context, sys System, p *phase, d time.Duration) *totals {
	defer context.AfterFunc(ctx, p.halt)()
	return sys.drive(p, d)
}

// print writes the result, even of an interrupted session.
func (s *session) print(t *target) error {
	switch s.flags.Output {
	case "json":
		return s.result.writeJSON(s.stdout)
	case "csv":
		return s.result.writeCSV(s.stdout)
	case "bench":
		return s.result.writeBench(s.stdout)
	}
	return s.result.writeText(s.stdout, s.flags, t.remark)
}

// openTarget and closeTarget may be called from two goroutines: a second
// interrupt ends the servers while the session still runs. If it comes while
// they start, it waits for the start, since an incomplete start would leave
// their folders behind.
func (s *session) openTarget() (*target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, errInterrupted
	}
	t, err := openTarget(s.flags)
	s.target = t
	return t, err
}

func (s *session) closeTarget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.target != nil && !s.gone {
		s.target.close()
	}
	s.gone = true
}
