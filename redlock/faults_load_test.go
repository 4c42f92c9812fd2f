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

	"github.com/redmux/redmux/redlock"
)

// A workload is callers that acquire and release, each its own keys, until they are told to end. Nobody else wants these
// keys and a node that comes back has paid before it votes (R8), so nothing may ever be held: ErrHeld or ErrNotHeld is
// then an answer to another's question (R16).
type workload struct {
	callers int
	ttl     time.Duration // if zero, 30 s: nothing expires during a test
	prefix  string        // of resources
	fresh   bool          // each attempt has a resource of its own
	turns   int           // resources that each caller takes in turn. If zero, 4
	// context gives each attempt its context. If nil, the background.
	context func() (context.Context, context.CancelFunc)
	// inspect is called with some of the locks while they are held. If nil, nothing.
	inspect func(redlock.Lock)
}

// A load is a workload that runs.
type load struct {
	workload
	tb     testing.TB
	client *redlock.Client
	begun  time.Time
	ending atomic.Bool
	wg     sync.WaitGroup
	grants [maxLoad]atomic.Uint32 // by the millisecond

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

// end stops the callers and waits until each has released what it holds.
func (l *load) end() {
	l.ending.Store(true)
	l.wg.Wait()
}

// until waits until there were so many more grants: that others go on is a question of whether, not of how fast on a
// machine that is busy with something else.
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

// now is the time since the load began.
func (l *load) now() time.Duration { return time.Since(l.begun) }

func (l *load) call(caller int) {
	var samples []sample
	for n := 0; !l.ending.Load(); n++ {
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
			time.Sleep(time.Millisecond) // what is known at once is not to be asked a million times
		}
		return s, false
	}
	if ms := s.at.Milliseconds(); ms < maxLoad {
		l.grants[ms].Add(1)
	}
	if l.inspect != nil && n%64 == caller%64 {
		l.inspect(lock)
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

// note counts an error by what it is, "acquire: redlock: resource is held".
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

// noted is how often something was noted so far.
func (l *load) noted(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[kind]
}

// fails checks after the end that there were only errors of the kinds given, and of each at most so many for a thousand
// grants, or any number if that is negative.
func (l *load) fails(perThousand int, allowed ...error) {
	l.tb.Helper()
	if err := l.fewFail(perThousand, allowed...); err != nil {
		l.tb.Error(err)
	}
}

// fewFail is the same for a measurement: that there were too many is returned. A machine that stands still for as long as a
// vote may take fails all callers at once; other errors than those that are allowed are wrong on any machine.
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

// gap is the longest time without a grant between two times.
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

// A span is a stretch of a load's time.
type span struct{ from, to time.Duration }

// rate is grants a second over all the spans together.
func (l *load) rate(spans []span) float64 {
	var count uint64
	var took time.Duration
	for _, s := range spans {
		count += l.granted(s.from, s.to)
		took += s.to - s.from
	}
	return float64(count) / took.Seconds()
}

// p99 is of the acquisitions that ended within the spans; after the end only.
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
