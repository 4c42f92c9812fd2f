package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// After Close there are no more goroutines and descriptors than before, at once
// and not some time later (R28).
func TestFaultNothingLeftAfterClose_R28(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	for _, what := range []string{"idle", "used", "one stopped", "three stopped", "one dead"} {
		goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(f) // once, so that leaks of one try do not hide in the next
		bestOf(t, func() error { return f.closeAfter(what, goroutines, descriptors) })
	}
}

func (f *fleet) closeAfter(what string, goroutines, descriptors int) error {
	c, err := redlock.New(context.Background(), redlock.Config{Nodes: redlock.Nodes(redistest.URLs(f.servers)...), Forgetful: true})
	if err != nil {
		f.Fatal(err)
	}
	f.provoke(c, what)
	start := time.Now()
	if err := c.Close(context.Background()); err != nil {
		f.Errorf("%s: Close: %v", what, err)
	}
	took := time.Since(start)
	if n := openDescriptors(f); n > descriptors {
		f.Errorf("%s: %d descriptors before, %d after Close", what, descriptors, n)
	}
	// A goroutine may take a moment to end after its WaitGroup is done.
	_, late := soon(time.Second, func() error {
		if n := runtime.NumGoroutine(); n > goroutines {
			return fmt.Errorf("%s: %d goroutines before, %d after Close", what, goroutines, n)
		}
		return nil
	})
	f.Logf("%s: Close took %v", what, took)
	f.refuseAfterClose(c)
	f.continues(0, 1, 2, 3)
	if took > timingSlack*300*time.Millisecond {
		return fmt.Errorf("%s: Close took %v", what, took)
	}
	return late
}

func (f *fleet) provoke(c *redlock.Client, what string) {
	f.Helper()
	switch what {
	case "used":
		l := f.load(c, workload{callers: 16})
		time.Sleep(50 * time.Millisecond)
		l.end()
	case "one stopped":
		f.stop(0)
		_, _ = c.TryAcquire(context.Background(), "x", time.Minute)
	case "three stopped":
		f.stop(0, 1, 2)
		_, _ = c.TryAcquire(context.Background(), "x", time.Minute)
	case "one dead":
		if err := f.servers[4].Kill(); err != nil {
			f.Fatal(err)
		}
		_, _ = c.TryAcquire(context.Background(), "x", time.Minute)
	}
}

func (f *fleet) refuseAfterClose(c *redlock.Client) {
	f.Helper()
	if _, err := c.TryAcquire(context.Background(), "late", time.Second); !errors.Is(err, redlock.ErrClosed) {
		f.Errorf("TryAcquire after Close: %v", err)
	}
	if _, err := c.Acquire(context.Background(), "late", time.Second); !errors.Is(err, redlock.ErrClosed) {
		f.Errorf("Acquire after Close: %v", err)
	}
	if err := c.Close(context.Background()); err != nil {
		f.Errorf("Close after Close: %v", err)
	}
}

func openDescriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // no such folder here: only goroutines count
	}
	return len(all)
}

// A failed attempt followed at once by Close leaves no key: the release was
// queued before the attempt returned, and Close writes what is queued and waits
// for the answers (R7, R28).
func TestFaultFailedAttemptThenClose_R7_R28(t *testing.T) {
	f := newFleet(t, 5)
	for i := range 3 {
		f.must(i, "SET", "taken", "by another")
	}
	times := 200
	if testing.Short() {
		times = 40
	}
	for n := range times {
		// Close waits for answers no longer than the vote timeout.
		c, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(redistest.URLs(f.servers)...), NodeTimeout: unhurried, Forgetful: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		resource := "taken"
		if n%2 == 1 { // cancelled in the middle instead
			resource = fmt.Sprint("cancelled:", n)
			ctx, cancel = context.WithTimeout(ctx, time.Duration(n)*2*time.Microsecond)
		}
		lock, err := c.TryAcquire(ctx, resource, time.Minute)
		cancel()
		if err == nil {
			err = lock.Release(context.Background()) // it was faster than the cancellation
		}
		start := time.Now()
		_ = c.Close(context.Background())
		if took := time.Since(start); took >= unhurried/2 {
			t.Fatalf("attempt %d (%v): Close took %v, as if an answer were missing", n, err, took)
		}
		if leftover := f.orphans(map[string]bool{"taken": true}); leftover != nil {
			t.Fatalf("attempt %d (%v): %v", n, err, leftover)
		}
		for i := 3; i < 5; i++ {
			if f.must(i, "EXISTS", "taken") != int64(0) {
				t.Fatalf("attempt %d (%v): server %d has the key that another holds", n, err, i)
			}
		}
	}
}

// The same when a service ends as most do: the context of its callers ends, and
// Close gets that same context (signal.NotifyContext, "defer
// client.Close(ctx)").
func TestFaultCloseWithAnEndedContext_R7_R28(t *testing.T) {
	f := newFleet(t, 3)
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		c, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(redistest.URLs(f.servers)...), NodeTimeout: unhurried, Forgetful: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var mu sync.Mutex
		kept := make(map[string]bool) // held, or perhaps held, when the caller left
		var wg sync.WaitGroup
		for i := range []int{1, 8, 64}[round%3] {
			wg.Go(func() {
				for n := 0; ; n++ {
					key := fmt.Sprintf("c:%d:%d", i, n)
					lock, err := c.TryAcquire(ctx, key, time.Minute)
					if err != nil {
						return
					}
					if lock.Release(ctx) != nil || ctx.Err() != nil {
						mu.Lock()
						kept[key] = true
						mu.Unlock()
						return
					}
				}
			})
		}
		time.Sleep(time.Millisecond + time.Duration(round%20)*100*time.Microsecond)
		cancel()
		_ = c.Close(ctx)
		wg.Wait()
		eventually(t, inTheEnd, func() error { return f.orphans(kept) })
		for i := range f.servers {
			f.must(i, "FLUSHALL")
		}
	}
}

// Close under load: every caller gets its lock or an error, and only keys whose
// release was refused remain on the servers (R28: held locks stay).
func TestFaultCloseUnderLoad_R28(t *testing.T) {
	f := newFleet(t, 5)
	for range 5 {
		c := f.client(redlock.Config{NodeTimeout: unhurried, Forgetful: true})
		f.allUp(c, inTheEnd)
		var mu sync.Mutex
		kept := make(map[string]bool)
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for n := 0; ; n++ {
					key := fmt.Sprintf("c:%d:%d", i, n)
					lock, err := c.TryAcquire(context.Background(), key, time.Minute)
					switch {
					case errors.Is(err, redlock.ErrClosed):
						return
					case err != nil:
						t.Errorf("TryAcquire: %v", err)
						return
					}
					if err := lock.Release(context.Background()); err != nil {
						if !errors.Is(err, redlock.ErrClosed) {
							t.Errorf("Release: %v", err)
						}
						mu.Lock()
						kept[key] = true
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(60 * time.Millisecond)
		start := time.Now()
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		took := time.Since(start)
		wg.Wait()
		t.Logf("Close took %v; %d locks could not be released any more", took, len(kept))
		eventually(t, inTheEnd, func() error { return f.orphans(kept) })
		for i := range f.servers {
			f.must(i, "FLUSHALL")
		}
	}
}

// Close does not wait longer than its context, and not forever for nodes that
// do not answer (R28).
func TestFaultCloseWithStoppedNodesIsBounded_R28(t *testing.T) {
	for name, over := range map[string]redistest.Option{"tcp": redistest.OverTCP, "tls": redistest.OverTLS} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5, over)
			for _, wait := range []time.Duration{0, 300 * time.Millisecond} { // believed to be up, and known to be down
				bestOf(t, func() error { return f.closeHastily(wait) })
			}
		})
	}
}

// closeHastily stops a majority, waits, and closes a busy client with little
// time.
func (f *fleet) closeHastily(wait time.Duration) error {
	c := f.client(redlock.Config{})
	f.allUp(c, inTheEnd)
	lock := acquired(f, c, "x", time.Minute)
	l := f.load(c, workload{callers: 32, fresh: true})
	time.Sleep(30 * time.Millisecond)
	f.stop(0, 1, 2)
	time.Sleep(wait)
	released := make(chan error, 1)
	go func() { released <- lock.Release(context.Background()) }()
	time.Sleep(5 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	start := time.Now()
	err := c.Close(ctx)
	took := time.Since(start)
	cancel()
	if err := <-released; err == nil {
		f.Error("a release without a quorum of answers returned nil")
	}
	l.end()
	l.fails(-1, redlock.ErrClosed, redlock.ErrNoQuorum)
	f.continues(0, 1, 2)
	for i := range f.servers {
		f.must(i, "FLUSHALL")
	}
	if took > timingSlack*150*time.Millisecond {
		return fmt.Errorf("Close took %v (%v) though its context ended after 20ms", took, err)
	}
	return nil
}
