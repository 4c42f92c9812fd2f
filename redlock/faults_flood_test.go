package redlock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// A node that endlessly sends unsolicited data holds up neither the others nor
// a hold: its connection is ended each time, the others grant locks, and the
// hold is renewed (R32). Tested both where callers read replies themselves and
// where each node has its own goroutine.
func TestFaultFloodingNode_R32(t *testing.T) {
	f := newFleet(t, 4)
	for _, portable := range []bool{false, true} {
		for _, h := range redistest.Floods {
			t.Run(fmt.Sprintf("portable=%v/%s", portable, h.Name), func(t *testing.T) {
				f := &fleet{t, f.servers}
				node := startHostile(t, h)
				c := f.client(redlock.Config{Nodes: redlock.Nodes(append(redistest.URLs(f.servers), node.URL())...), Connect: redlock.Connect{NetDial: redistest.Portable(portable)}, NodeTimeout: unhurried})
				f.allUp(c, inTheEnd)
				hold, err := c.Hold(context.Background(), "held", redlock.HoldOptions{TTL: 6 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer hold.Release(context.Background())
				defer f.waiter(c)()
				var grants, failures atomic.Int64
				stop := f.flow(c, &grants, &failures)
				defer stop()
				for i := range f.servers { // the awaited key changes, so the nodes are asked again
					f.must(i, "SET", "taken", fmt.Sprint(i), "PX", "60000")
				}
				deaths := func() uint64 {
					n := c.Nodes()[len(f.servers)].Counts.Deaths
					return n["unexpected"] + n["protocol"]
				}
				eventually(t, inTheEnd, func() error {
					if deaths() == 0 {
						return fmt.Errorf("the connection lives: %v", c.Nodes()[len(f.servers)].Counts)
					}
					return nil
				})
				before, until := grants.Load(), hold.Until()
				eventually(t, inTheEnd, func() error {
					if got := grants.Load() - before; got < 50 {
						return fmt.Errorf("%d grants since the flood began", got)
					}
					if !hold.Until().After(until) {
						return fmt.Errorf("not renewed since the flood began: %v", hold.Err())
					}
					return nil
				})
				t.Logf("%d grants, %d failures, the node's connection was ended %d times", grants.Load(), failures.Load(), deaths())
				if err := hold.Err(); err != nil {
					t.Errorf("the hold: %v", err)
				}
				for i := range f.servers {
					if n := c.Nodes()[i].Counts.Deaths; n["unexpected"]+n["protocol"] > 0 {
						t.Errorf("an honest node's connection was ended: %v", n)
					}
				}
			})
		}
	}
}

// waiter waits for a taken lock, so that tracking is turned on.
func (f *fleet) waiter(c *redlock.Client) (stop func()) {
	for i := range f.servers {
		f.must(i, "SET", "taken", "by another", "PX", "60000")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Acquire(ctx, "taken", time.Second)
	}()
	return func() { cancel(); <-done }
}

// flow lets a caller acquire and release, and counts the outcomes. It is one
// caller, since the node answers no merged release, and would not come to its
// flood.
func (f *fleet) flow(c *redlock.Client, grants, failures *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			lock, err := c.TryAcquire(ctx, "own", 6*time.Second)
			if err != nil {
				failures.Add(1)
				continue
			}
			grants.Add(1)
			_ = lock.Release(ctx)
			time.Sleep(time.Millisecond) // it is the node that floods
		}
	}()
	return func() { cancel(); <-done }
}
