package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// A fleet is the real servers of one test, with ways to inspect them from
// outside.
type fleet struct {
	testing.TB
	servers []*redistest.Server
}

// newFleet starts servers for a test, which fails if it leaves a goroutine or a
// descriptor behind (R28). Tests with servers do not run in parallel, because
// they measure.
func newFleet(tb testing.TB, n int, options ...redistest.Option) *fleet {
	tb.Helper()
	redistest.NoLeaks(tb)
	return &fleet{tb, redistest.Servers(tb, n, options...)}
}

// client creates a client of these servers, or of the nodes in the
// configuration, and closes it with the test. Without MaxTTL it is forgetful:
// most tests are not about quarantine.
func (f *fleet) client(config redlock.Config) *redlock.Client {
	f.Helper()
	config.Forgetful = config.MaxTTL == 0
	c, err := redlock.New(context.Background(), f.reach(config))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// reach returns a configuration with the way to these servers.
func (f *fleet) reach(config redlock.Config) redlock.Config {
	if config.Nodes == nil {
		config.Nodes = redlock.Nodes(redistest.URLs(f.servers)...)
	}
	if config.TLS == nil {
		config.TLS = f.servers[0].TLSConfig()
	}
	return config
}

// allUp waits until every node of the client is up and owes nothing.
func (f *fleet) allUp(c *redlock.Client, within time.Duration) time.Duration {
	f.Helper()
	return eventually(f, within, func() error {
		for i, n := range c.Nodes() {
			if n.State != "up" || n.Debts > 0 {
				return fmt.Errorf("node %d is %s with %d debts: %v", i, n.State, n.Debts, n.Err)
			}
		}
		return nil
	})
}

// state waits until a node is in one of the states.
func (f *fleet) state(c *redlock.Client, node int, within time.Duration, states ...string) time.Duration {
	f.Helper()
	return eventually(f, within, func() error {
		if n := c.Nodes()[node]; !slices.Contains(states, string(n.State)) {
			return fmt.Errorf("node %d is %s, not %v: %v", node, n.State, states, n.Err)
		}
		return nil
	})
}

// must runs a command on a server.
func (f *fleet) must(server int, args ...string) any {
	f.Helper()
	v, err := f.servers[server].Do(args...)
	if err != nil {
		f.Fatalf("server %d: %s: %v", server, args[0], err)
	}
	return v
}

// keys lists the keys of a server, except the given ones.
func (f *fleet) keys(server int, except map[string]bool) []string {
	f.Helper()
	var all []string
	for _, k := range f.must(server, "KEYS", "*").([]any) {
		if !except[k.(string)] {
			all = append(all, k.(string))
		}
	}
	return all
}

// orphans returns an error that lists the servers' keys without a holder, or
// nil.
func (f *fleet) orphans(held map[string]bool) error {
	f.Helper()
	found := make(map[string]int)
	for i := range f.servers {
		for _, k := range f.keys(i, held) {
			found[k]++
		}
	}
	if len(found) == 0 {
		return nil
	}
	some := slices.Collect(maps.Keys(found))
	return fmt.Errorf("%d keys without a holder, among them %q", len(found), some[:min(3, len(some))])
}

// noOrphans waits until the servers have no keys at all. TTLs are long in these
// tests, so nothing expires meanwhile.
func (f *fleet) noOrphans(within time.Duration) time.Duration {
	f.Helper()
	return eventually(f, within, func() error { return f.orphans(nil) })
}

// on counts the servers on which a key has the given value.
func (f *fleet) on(key, value string) int {
	f.Helper()
	count := 0
	for _, s := range f.servers {
		if v, err := s.Do("GET", key); err == nil && v == value {
			count++
		}
	}
	return count
}

// each runs a function for each of the given servers, all at once.
func (f *fleet) each(which []int, do func(s *redistest.Server) error) {
	f.Helper()
	errs := make([]error, len(which))
	var wg sync.WaitGroup
	for i, w := range which {
		wg.Go(func() { errs[i] = do(f.servers[w]) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		f.Fatal(err)
	}
}

// stop stops servers with SIGSTOP, and continues ends that.
func (f *fleet) stop(which ...int)      { f.each(which, (*redistest.Server).Stop) }
func (f *fleet) continues(which ...int) { f.each(which, (*redistest.Server).Continue) }

const (
	// unhurried is a vote timeout for tests about something else: a machine
	// that stalls for a moment costs no vote and no connection. A node that
	// hangs is noticed after four times that, so these tests stop no node that
	// must be noticed.
	unhurried = 5 * time.Second
	// inTheEnd is the patience for events whose time is not tested. Keys whose
	// deletion is awaited for that long have at least twice that TTL, or they
	// would expire.
	inTheEnd = 15 * time.Second
	// unprompted is the patience for what an idle client must send by itself.
	// It is less than five seconds, after which a connection is probed, and the
	// probe would carry along whatever was forgotten (R26), and after which a
	// seal is read.
	unprompted = 4 * time.Second
)

// The bounds of R5, R6 and R26 as written. The race detector makes this process
// five to ten times slower, but not the servers, so a test under it mostly
// measures the detector: its bounds only detect hangs.
var (
	leastThroughput = unlessRaceful(0.9, 0.4)             // of the healthy throughput, with one of five nodes stopped
	mostTail        = unlessRaceful(2.0, 8.0)             // times the healthy p99
	timingSlack     = unlessRaceful[time.Duration](1, 10) // factor on bounds of a few milliseconds
	fewFailures     = unlessRaceful(2, 100)               // per thousand, when votes of two healthy nodes are late on a busy machine
)

func unlessRaceful[T any](bound, raceful T) T {
	if redistest.Raceful {
		return raceful
	}
	return bound
}

// eventually waits until a condition holds, and returns how long it took.
func eventually(tb testing.TB, within time.Duration, holds func() error) time.Duration {
	tb.Helper()
	took, err := soon(within, holds)
	if err != nil {
		tb.Fatal(err)
	}
	return took
}

// soon is eventually as a measurement.
func soon(within time.Duration, holds func() error) (took time.Duration, late error) {
	start := time.Now()
	for {
		err := holds()
		took = time.Since(start)
		switch {
		case err == nil:
			return took, nil
		case took > within:
			return took, fmt.Errorf("not within %v: %w", within, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// bestOf measures until one measurement holds, five times and for a quarter of
// a minute at least: other programs share the machine, and can only slow it
// down, usually for a while. What fails for so long is not noise. Each time the
// whole is measured again: another look at the same measurement would only
// extend its time.
func bestOf(tb testing.TB, measure func() error) {
	tb.Helper()
	var err error
	begun := time.Now()
	for try := 0; try < 5 || time.Since(begun) < 15*time.Second; try++ {
		time.Sleep(time.Duration(min(try, 5)) * 200 * time.Millisecond)
		if err = measure(); err == nil {
			return
		}
		if tb.Failed() {
			break // what is wrong on any machine has been reported
		}
		tb.Logf("again: %v", err)
	}
	tb.Error(err)
}

// acquired is a TryAcquire that must succeed, except for votes that are late on
// a busy machine.
func acquired(tb testing.TB, c *redlock.Client, resource string, ttl time.Duration) redlock.Lock {
	tb.Helper()
	l, err := c.TryAcquire(context.Background(), resource, ttl)
	for range 5 {
		if errors.Is(err, multiplex.ErrTimeout) {
			l, err = c.TryAcquire(context.Background(), resource, ttl)
		}
	}
	if err != nil {
		tb.Fatalf("TryAcquire(%q): %v", resource, err)
	}
	return l
}

// acquireAll acquires n locks that no other client wants.
func acquireAll(f *fleet, c *redlock.Client, name func(i int) string, n int) []redlock.Lock {
	f.Helper()
	var locks []redlock.Lock
	for i := range n {
		locks = append(locks, acquired(f, c, name(i), time.Minute))
	}
	return locks
}

// releaseAll releases locks at once and returns each one's error.
func releaseAll(ctx context.Context, locks []redlock.Lock) []error {
	errs := make([]error, len(locks))
	var ready, wg sync.WaitGroup
	ready.Add(1)
	for i, lock := range locks {
		wg.Go(func() {
			ready.Wait()
			errs[i] = lock.Release(ctx)
		})
	}
	ready.Done()
	wg.Wait()
	return errs
}

// is returns a function that reports whether an error is cause.
func is(cause error) func(error) bool { return func(err error) bool { return errors.Is(err, cause) } }

// undecided checks that an error is ErrNoQuorum and names exactly these nodes,
// each with a matching reason (R12).
func undecided(err error, reason func(error) bool, nodes ...int) error {
	var all *multiplex.UndecidedError
	switch {
	case err == nil:
		return errors.New("there was a quorum")
	case !errors.Is(err, redlock.ErrNoQuorum):
		return fmt.Errorf("not ErrNoQuorum: %w", err)
	case !errors.As(err, &all):
		return fmt.Errorf("no UndecidedError: %w", err)
	}
	var named []int
	for _, n := range all.Nodes {
		named = append(named, n.Node)
		if !reason(n) {
			return fmt.Errorf("node %d failed for another reason: %w", n.Node, n.Err)
		}
		if n.Addr == "" || !strings.Contains(err.Error(), n.Addr) {
			return fmt.Errorf("the error does not name the address of node %d: %w", n.Node, err)
		}
	}
	if !slices.Equal(named, nodes) {
		return fmt.Errorf("names the nodes %v, not %v: %w", named, nodes, err)
	}
	return nil
}

// A workload is callers that acquire and release, each its own keys, until it
// ends. No other client wants these keys, and a node that comes back has paid
// before it votes (R8), so no key may ever be held: ErrHeld or ErrNotHeld would
// then be the answer to another request (R16).
type workload struct {
	callers int
	ttl     time.Duration // if zero, 30 s: nothing expires during a test
	prefix  string        // of resources
	fresh   bool          // each attempt has its own resource
	turns   int           // resources that each caller uses in turn. If zero, 4
	// context returns the context of an attempt. If nil, the background.
	context func() (context.Context, context.CancelFunc)
}

// A load is a running workload.
type load struct {
	workload
	tb     testing.TB
	client *redlock.Client
	begun  time.Time
	ending atomic.Bool
	calmed atomic.Bool
	wg     sync.WaitGroup
	grants [maxLoad]atomic.Uint32 // per millisecond

	mu      sync.Mutex // guards the following
	samples []sample
	errs    map[string]int
	first   map[string]error
}

type sample struct{ at, took time.Duration }

const maxLoad = 60_000

func (f *fleet) load(c *redlock.Client, w workload) *load {
	if w.ttl == 0 {
		w.ttl = 30 * time.Second
	}
	if w.turns == 0 {
		w.turns = 4
	}
	l := &load{
		workload: w, tb: f, client: c, begun: time.Now(), errs: make(map[string]int), first: make(map[string]error),
	}
	for i := range w.callers {
		l.wg.Go(func() { l.call(i) })
	}
	f.Cleanup(func() { l.end() })
	return l
}

// calm makes the callers pause between their locks from now on, since what is
// waited for next takes as long without all of the machine's time.
func (l *load) calm() { l.calmed.Store(true) }

// end stops the callers and waits until each has released its lock.
func (l *load) end() {
	l.ending.Store(true)
	l.wg.Wait()
}

// until waits for this many more grants: it asks whether others make progress,
// not how fast on a busy machine.
func (l *load) until(grants uint64, within time.Duration) {
	l.tb.Helper()
	from := l.now()
	for l.granted(from, l.now()+time.Millisecond) < grants {
		if l.now()-from > within {
			l.tb.Errorf("only %d grants within %v", l.granted(from, l.now()), within)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// now returns the time since the load started.
func (l *load) now() time.Duration { return time.Since(l.begun) }

func (l *load) call(caller int) {
	var samples []sample
	for n := 0; !l.ending.Load(); n++ {
		if l.calmed.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		if s, ok := l.pair(caller, n); ok {
			samples = append(samples, s)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = append(l.samples, samples...)
}

// pair acquires and releases once.
func (l *load) pair(caller, n int) (s sample, ok bool) {
	turn := n
	if !l.fresh {
		turn = n % l.turns
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if l.context != nil {
		ctx, cancel = l.context()
	}
	defer cancel()
	start := l.now()
	lock, err := l.client.TryAcquire(ctx, fmt.Sprintf("%sload:%d:%d", l.prefix, caller, turn), l.ttl)
	s = sample{l.now(), l.now() - start}
	if err != nil {
		l.note("acquire", err)
		if l.turns > 1 || !errors.Is(err, context.Canceled) {
			time.Sleep(time.Millisecond) // what is known at once must not be asked a million times
		}
		return s, false
	}
	if ms := s.at.Milliseconds(); ms < maxLoad {
		l.grants[ms].Add(1)
	}
	if err := lock.Release(ctx); err != nil {
		l.note("release", err)
	}
	return s, true
}

var outcomes = []error{
	context.Canceled, context.DeadlineExceeded, redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired,
	redlock.ErrNotHeld, redlock.ErrOverloaded, redlock.ErrClosed,
}

// note counts an error by its text, "acquire: redlock: resource is held".
func (l *load) note(op string, err error) {
	kind := op + ": unknown: " + err.Error()
	for _, known := range outcomes {
		if errors.Is(err, known) {
			kind = op + ": " + known.Error()
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs[kind]++
	if l.first[kind] == nil {
		l.first[kind] = err
	}
}

// fails checks after the end that there were only errors of the given kinds,
// each at most perThousand times per thousand grants, or any number of times if
// that is negative.
func (l *load) fails(perThousand int, allowed ...error) {
	l.tb.Helper()
	if err := l.fewFail(perThousand, allowed...); err != nil {
		l.tb.Error(err)
	}
}

// fewFail is the same for a measurement: it returns an error for too many. A
// machine that stalls for as long as a vote timeout fails all callers at once;
// other errors than the allowed ones are wrong on any machine.
func (l *load) fewFail(perThousand int, allowed ...error) (tooMany error) {
	l.tb.Helper()
	most := max(1, int(l.granted(0, maxLoad*time.Millisecond))*perThousand/1000)
	if perThousand < 0 {
		most = math.MaxInt
	}
	for _, kind := range slices.Sorted(maps.Keys(l.errs)) {
		fine := slices.ContainsFunc(allowed, func(e error) bool { return strings.HasSuffix(kind, e.Error()) })
		text := fmt.Sprintf("%d × %s; the first: %v", l.errs[kind], kind, l.first[kind])
		if !fine {
			l.tb.Error(text)
		} else if l.errs[kind] > most {
			tooMany = errors.New(text)
		}
	}
	return tooMany
}

// granted counts the grants between two times.
func (l *load) granted(from, to time.Duration) (count uint64) {
	for ms := from.Milliseconds(); ms < min(to.Milliseconds(), maxLoad); ms++ {
		count += uint64(l.grants[ms].Load())
	}
	return count
}

// gap returns the longest time without a grant between two times.
func (l *load) gap(from, to time.Duration) (longest time.Duration) {
	run := time.Duration(0)
	for ms := from.Milliseconds(); ms < min(to.Milliseconds(), maxLoad); ms++ {
		run += time.Millisecond
		if l.grants[ms].Load() > 0 {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// A span is a part of a load's time.
type span struct{ from, to time.Duration }

// rate returns the grants per second over all the spans.
func (l *load) rate(spans []span) float64 {
	var count uint64
	var took time.Duration
	for _, s := range spans {
		count += l.granted(s.from, s.to)
		took += s.to - s.from
	}
	return float64(count) / took.Seconds()
}

// p99 returns the 99th percentile of the acquisitions that ended within the
// spans. The load must have ended.
func (l *load) p99(spans []span) time.Duration {
	var all []time.Duration
	for _, x := range l.samples {
		if slices.ContainsFunc(spans, func(s span) bool { return x.at >= s.from && x.at < s.to }) {
			all = append(all, x.took)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}
