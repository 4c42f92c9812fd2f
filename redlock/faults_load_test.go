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
	// inspect is called with some of the locks while they are held, unless nil.
	inspect func(redlock.Lock)
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

// noted returns how often an error has been noted.
func (l *load) noted(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[kind]
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
