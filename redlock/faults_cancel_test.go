package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// The longest that a failed attempt's key may exist after its caller was told
// (R7).
const afterRoundTrip = 20 * time.Millisecond

// The delay to the distant nodes, and back.
const there, back = 30 * time.Millisecond, 20 * time.Millisecond

// A context that ends during an acquisition leaves no key on any reachable
// node, one round trip and 20 ms later (R7): neither where the SET arrived
// before, nor where it is still in flight.
func TestFaultCancelledAcquisition_R7(t *testing.T) {
	f := newFleet(t, 5)
	proxies := redistest.Proxies(t, f.servers)
	c := f.client(redlock.Config{Nodes: redlock.Nodes(redistest.URLs(proxies)...), NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	const trip = there + back
	// Two nodes are near, so their keys are set without a quorum; the SETs to
	// the others are in flight.
	for _, p := range proxies[2:] {
		p.Latency(there, back)
	}
	for _, callers := range []int{1, 32} {
		for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 35 * time.Millisecond, 45 * time.Millisecond} {
			t.Run(fmt.Sprintf("callers=%d/after=%v", callers, after), func(t *testing.T) {
				f := &fleet{t, f.servers}
				bestOf(t, func() error { return f.cancelAfter(c, callers, after, trip) })
			})
		}
	}
}

func (f *fleet) cancelAfter(c *redlock.Client, callers int, after, trip time.Duration) error {
	var wg sync.WaitGroup
	var granted atomic.Int64
	for i := range callers {
		wg.Go(func() {
			cause := errors.New("the user went away")
			ctx, cancel := context.WithTimeoutCause(context.Background(), after, cause)
			defer cancel()
			lock, err := c.TryAcquire(ctx, fmt.Sprint("cancelled:", i), 30*time.Second)
			if err == nil && after > 0 {
				// The quorum came before the cancellation was noticed.
				granted.Add(1)
				if err := lock.Release(context.Background()); err != nil {
					f.Errorf("Release: %v", err)
				}
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) || after > 0 && !errors.Is(err, cause) {
				f.Errorf("cancelled after %v: %v", after, err)
			}
		})
	}
	wg.Wait()
	time.Sleep(trip + afterRoundTrip)
	err := f.orphans(nil)
	f.noOrphans(unprompted) // if late, then at least in time for this
	// The cancellation must be noticed within 15 ms; grants before that are
	// allowed only as far as this machine was slow to tell.
	if n := int(granted.Load()); err == nil && n > callers/2 && after+15*time.Millisecond <= trip {
		return fmt.Errorf("%d of %d callers were not cancelled", n, callers)
	}
	return err
}

// The same at random moments of many concurrent attempts, with no delay but the
// machine's own.
func TestFaultCancelledAtRandom_R7(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	bestOf(t, func() error { return f.cancelAtRandom(c) })
}

func (f *fleet) cancelAtRandom(c *redlock.Client) error {
	l := f.load(c, workload{callers: 64, fresh: true, context: func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(1+rand.N(4*time.Millisecond), cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}})
	const enough = 100
	time.Sleep(time.Second)
	for patience := 30 * time.Second; l.noted("acquire: context canceled") < enough && l.now() < patience; {
		time.Sleep(10 * time.Millisecond) // on an idle machine most have their answer before their context is read
	}
	l.end()
	time.Sleep(afterRoundTrip)
	err := f.orphans(nil)
	f.noOrphans(unprompted) // if late, then at least in time for this
	l.fails(-1, context.Canceled)
	if l.errs["acquire: context canceled"] < enough {
		f.Errorf("too few were cancelled for this test to mean anything: %v", l.errs)
	}
	return err
}

// An attempt that lost, because another client has a quorum, takes back the
// keys that it got (R7).
func TestFaultLostAttempt_R7(t *testing.T) {
	f := newFleet(t, 5)
	proxies := redistest.Proxies(t, f.servers)
	c := f.client(redlock.Config{Nodes: redlock.Nodes(redistest.URLs(proxies)...), NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	held := map[string]bool{"taken": true}
	for i := range 3 {
		f.must(i, "SET", "taken", "by another")
	}
	trip := 30 * time.Millisecond
	for _, p := range proxies[3:] { // the nodes that grant are the slowest
		p.Latency(trip/2, trip/2)
	}
	for range 5 {
		bestOf(t, func() error {
			if _, err := c.TryAcquire(context.Background(), "taken", 30*time.Second); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("not ErrHeld: %v", err)
			}
			time.Sleep(trip + afterRoundTrip)
			for i := 3; i < 5; i++ {
				if n := f.must(i, "EXISTS", "taken"); n != int64(0) {
					return fmt.Errorf("server %d still has the key", i)
				}
			}
			return nil
		})
	}
	for i := range 3 {
		if v := f.must(i, "GET", "taken"); v != "by another" {
			t.Errorf("R9: the other's key on server %d is %v", i, v)
		}
	}
	if err := f.orphans(held); err != nil {
		t.Error(err)
	}
}
