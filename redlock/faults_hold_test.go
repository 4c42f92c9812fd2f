package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// All nodes are stopped while a lock is held: the context ends by the local
// clock, before the validity, with each node's cause (R13).
func TestFaultAllNodesStoppedUnderAHold_R13(t *testing.T) {
	redistest.Alone(t)
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{})
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second} {
		bestOf(t, func() error { return f.stopUnder(c, ttl) })
	}
}

// stopUnder stops all nodes under a hold, and returns what was wrong about its
// end. A busy machine may keep this process from running at that moment; then a
// timer of the test for the end of the validity is late too.
func (f *fleet) stopUnder(c *redlock.Client, ttl time.Duration) error {
	f.allUp(c, inTheEnd)
	h, err := c.Hold(context.Background(), "r", redlock.HoldOptions{TTL: ttl})
	if err != nil {
		return err
	}
	ended := make(chan time.Duration, 1)
	context.AfterFunc(h.Context(), func() { ended <- time.Until(h.Until()) })
	done := h.Context().Done()
	f.stop(0, 1, 2, 3, 4)
	late := !endsBy(h, done, h.Until())
	early := <-ended
	f.continues(0, 1, 2, 3, 4)
	defer func() {
		_ = h.Release(context.Background())
		f.allUp(c, 5*time.Second)
		f.noOrphans(5 * time.Second)
	}()
	cause := context.Cause(h.Context())
	f.Logf("TTL %v: cancelled %v before the end of validity: %v", ttl, early, cause)
	if late || early > ttl/100+5*time.Millisecond {
		return fmt.Errorf("TTL %v: cancelled %v before the end of validity, when a timer for that fired: %t", ttl, early, !late)
	}
	var lost *redlock.LostError
	switch {
	case !errors.Is(cause, redlock.ErrLost), !errors.As(cause, &lost):
		f.Fatalf("not lost: %v", cause)
	case len(lost.Nodes) == 0: // a busy machine has kept the renewal from beginning
		return fmt.Errorf("TTL %v: no node was asked: %w", ttl, cause)
	case len(lost.Nodes) != 5:
		f.Fatalf("not lost with each node's answer: %v", cause)
	}
	for i, n := range lost.Nodes {
		named := n.Addr != "" && strings.Contains(cause.Error(), n.Addr)
		switch {
		case errors.Is(n.Err, redlock.ErrUpButTooFew):
			named = !named // it is not at fault
		case errors.Is(n.Err, multiplex.ErrTimeout), errors.Is(n.Err, multiplex.ErrSilent), errors.Is(n.Err, multiplex.ErrDown):
		case errors.Is(n.Err, redlock.ErrNoAnswerYet): // on a busy machine, which gives up late
		default:
			f.Errorf("node %d: %v", i, n.Err)
		}
		if !named {
			f.Errorf("node %d, %v, in %q", i, n.Err, cause)
		}
	}
	return nil
}

// endsBy reports whether a hold's context has ended, of which done is the
// channel, when a timer for the end of its validity fires. A renewal that was
// granted meanwhile moves the end, by a third of a second or more. A call of
// the context, or of Err, would end it by itself.
func endsBy(h *redlock.Hold, done <-chan struct{}, end time.Time) bool {
	time.Sleep(time.Until(end))
	select {
	case <-done:
		return true
	default:
	}
	moved := h.Until()
	return moved.Sub(end) > 100*time.Millisecond && endsBy(h, done, moved)
}

// manyHolds says how long ten thousand locks are held; see
// TestFaultManyHolds_R13.
const manyHolds = "REDMUX_TEST_MANY_HOLDS"

// Ten thousand locks on five nodes, each renewed in time, by one goroutine
// (R13). The test reports the cost. It takes some seconds, or the time in the
// environment variable, such as "1m".
func TestFaultManyHolds_R13(t *testing.T) {
	lasts, locks := 4*time.Second, 10_000
	if testing.Short() {
		locks = 2_000
	}
	if text := os.Getenv(manyHolds); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, ttl := range []time.Duration{10 * time.Second, 30 * time.Second} {
		if ttl/3 > lasts {
			continue // nothing would be renewed
		}
		for _, heal := range []bool{false, true} {
			t.Run(fmt.Sprintf("ttl=%v/heal=%t", ttl, heal), func(t *testing.T) {
				f := newFleet(t, 5, redistest.OverUnix)
				f.holdMany(f.client(redlock.Config{ReleaseOnClose: true}), locks, lasts, redlock.HoldOptions{TTL: ttl, Heal: heal})
			})
		}
	}
}

func (f *fleet) holdMany(c *redlock.Client, n int, lasts time.Duration, o redlock.HoldOptions) {
	f.allUp(c, inTheEnd)
	// One more hold first, so that the goroutine which looks after them exists.
	if err := c.Do(context.Background(), "first", time.Minute, func(context.Context) error { return nil }); err != nil {
		f.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	validity := o.TTL - o.TTL/100 - 2*time.Millisecond
	holds := make([]*redlock.Hold, n)
	var wg sync.WaitGroup
	const callers = 64
	for i := range callers {
		wg.Go(func() {
			for j := i; j < n; j += callers {
				h, err := c.Hold(context.Background(), fmt.Sprint("held:", j), o)
				if err != nil {
					f.Error(err)
					return
				}
				holds[j] = h
			}
		})
	}
	wg.Wait()
	if f.Failed() {
		return
	}
	first := make([]time.Time, n)
	for i, h := range holds {
		first[i] = h.Until()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	busy, start := processTime(f), time.Now()
	connects := c.Nodes()
	most, usual := f.countGoroutines(c, connects, start.Add(lasts))
	spent := time.Since(start)
	busy = processTime(f) - busy
	runtime.ReadMemStats(&after)
	least, renewals := time.Hour, 0.0
	lost := 0
	for i, h := range holds {
		if err := h.Err(); err != nil {
			if lost++; lost == 1 {
				f.Errorf("lock %d, among others: %v", i, err)
			}
			continue
		}
		least = min(least, h.Validity())
		renewals += float64(h.Until().Sub(first[i])) / float64(validity/3) // each moves the end by a third, or a little more
	}
	f.Logf("%d locks for %v: %d lost, %d goroutines more, %d at most, least validity %v; %.0f renewals a second, "+
		"%.2f allocations and %.0f bytes for each, %.1f µs of this process's CPU (%.1f %% of one)",
		n, spent.Round(time.Millisecond), lost, usual-goroutines, most-goroutines, least.Round(time.Millisecond), renewals/spent.Seconds(),
		float64(after.Mallocs-before.Mallocs)/renewals, float64(after.TotalAlloc-before.TotalAlloc)/renewals,
		float64(busy.Microseconds())/renewals, 100*busy.Seconds()/spent.Seconds())
	// At most one goroutine of the runtime may be counted for a moment.
	if usual > goroutines || most > goroutines+1 {
		f.Errorf("%d goroutines before, %d usually and %d at most while %d locks are held", goroutines, usual, most, n)
	}
	begun := time.Now()
	if err := c.Close(context.Background()); err != nil {
		f.Errorf("Close: %v", err)
	}
	took := time.Since(begun)
	// On a busy machine a node may answer too late; then its keys are left to
	// their TTL.
	f.Logf("released by Close in %v; then %v", took.Round(time.Millisecond), f.orphans(nil))
}

// countGoroutines counts goroutines until the given time, and returns the
// highest and the usual number. A node that a busy machine starves is dialed
// again; the goroutines of a dial are not counted.
func (f *fleet) countGoroutines(c *redlock.Client, before []redlock.NodeStatus, end time.Time) (most, usual int) {
	var counted []int
	for time.Now().Before(end) {
		n := runtime.NumGoroutine()
		for i, node := range c.Nodes() {
			if node.State != "up" || node.Connects != before[i].Connects {
				n -= perDial
			}
		}
		counted = append(counted, n)
		time.Sleep(2 * time.Millisecond) // a renewal takes no longer than that
	}
	slices.Sort(counted)
	return counted[len(counted)-1], counted[len(counted)/2]
}

const perDial = 3 // goroutines
