//go:build linux

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// Tests about callers that read their own replies, over TCP and unix sockets.
// All of it must also hold if each node has a reader, so they run on both
// paths.

// Only the watch can wake a lone caller that waits for silent nodes: after the
// vote timeout, at its context's deadline, and after a cancellation, each in
// time (R26).
func TestFaultLoneCallerOfSilentNodes_R26(t *testing.T) {
	for name, over := range map[string]redistest.Option{"tcp": redistest.OverTCP, "unix": redistest.OverUnix} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5, over)
			c := f.client(redlock.Config{NodeTimeout: 100 * time.Millisecond}) // shed after four times that
			f.allUp(c, inTheEnd)
			for what, measure := range map[string]func(*redlock.Client) error{
				"vote timeout": f.lateAfterTimeout, "deadline": f.lateAfterDeadline, "cancelled": f.lateAfterCancel,
			} {
				bestOf(t, func() error {
					f.pairs(c, 20) // so that connections are in use, and only the caller polls
					f.stop(0, 2, 4)
					err := measure(c)
					f.continues(0, 2, 4)
					f.allUp(c, inTheEnd)
					f.noOrphans(unprompted)
					if err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
					return nil
				})
			}
		})
	}
}

// pairs acquires and releases n times, alone.
func (f *fleet) pairs(c *redlock.Client, n int) {
	f.Helper()
	for i := range n {
		lock := acquired(f, c, fmt.Sprint("pair:", i), time.Minute)
		if err := lock.Release(context.Background()); err != nil && !errors.Is(err, multiplex.ErrTimeout) {
			f.Fatal(err)
		}
	}
}

func (f *fleet) lateAfterTimeout(c *redlock.Client) error {
	start := time.Now()
	_, err := c.TryAcquire(context.Background(), "silent", 30*time.Second)
	late := time.Since(start) - 100*time.Millisecond
	f.Logf("answered %v after the vote timeout", late)
	if late > timingSlack*5*time.Millisecond {
		return fmt.Errorf("answered %v after the vote timeout", late)
	}
	return undecided(err, is(multiplex.ErrTimeout), 0, 2, 4)
}

func (f *fleet) lateAfterDeadline(c *redlock.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	return f.lateAfter(ctx, c, context.DeadlineExceeded, func() time.Time {
		end, _ := ctx.Deadline()
		return end
	})
}

func (f *fleet) lateAfterCancel(c *redlock.Client) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	at := make(chan time.Time, 1)
	time.AfterFunc(20*time.Millisecond, func() { at <- time.Now(); cancel() })
	return f.lateAfter(ctx, c, context.Canceled, func() time.Time { return <-at })
}

func (f *fleet) lateAfter(ctx context.Context, c *redlock.Client, want error, end func() time.Time) error {
	_, err := c.TryAcquire(ctx, "silent", 30*time.Second)
	late := time.Since(end())
	f.Logf("%v: noticed after %v", want, late)
	if !errors.Is(err, want) {
		return fmt.Errorf("not %w: %w", want, err)
	}
	if late > timingSlack*15*time.Millisecond {
		return fmt.Errorf("noticed after %v", late)
	}
	return nil
}

// The release of a lost attempt is sent while its caller leaves, to servers
// that have lost the script. They get it again and the key is deleted, without
// another call (R7, R24).
func TestFaultDetachedReleaseIsCured_R7_R24(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	for i := range 3 {
		f.must(i, "SET", "taken", "by another")
	}
	bestOf(t, func() error {
		f.pairs(c, 5)
		for i := range 5 {
			f.must(i, "SCRIPT", "FLUSH")
		}
		if _, err := c.TryAcquire(context.Background(), "taken", 30*time.Second); !errors.Is(err, redlock.ErrHeld) {
			t.Fatalf("not ErrHeld: %v", err)
		}
		took := eventually(t, inTheEnd, func() error {
			for i := 3; i < 5; i++ {
				if f.must(i, "EXISTS", "taken") != int64(0) {
					return fmt.Errorf("server %d still has the key", i)
				}
			}
			return nil
		})
		t.Logf("gone after %v", took)
		if took > timingSlack*(2*afterRoundTrip) {
			return fmt.Errorf("gone after %v", took)
		}
		return nil
	})
	for i, n := range c.Nodes() {
		if n.Connects != 1 {
			t.Errorf("node %d was connected %d times: %v", i, n.Connects, n.Err)
		}
	}
}

// An idle client, used before or not, notices that a server was killed, and
// costs no CPU.
func TestFaultIdleClient(t *testing.T) {
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprint("used=", used), func(t *testing.T) {
			f := newFleet(t, 3, redistest.OverTCP)
			c := f.client(redlock.Config{})
			f.allUp(c, inTheEnd)
			if used {
				f.pairs(c, 20)
			}
			bestOf(t, func() error {
				time.Sleep(20 * time.Millisecond)
				before := cpu(t)
				time.Sleep(300 * time.Millisecond)
				spent := cpu(t) - before
				t.Logf("%v of CPU in 300 ms of idleness", spent)
				if spent > timingSlack*6*time.Millisecond {
					return fmt.Errorf("%v of CPU in 300 ms of idleness", spent)
				}
				return nil
			})
			bestOf(t, func() error {
				if err := f.servers[0].Kill(); err != nil {
					return err
				}
				took := eventually(t, inTheEnd, func() error {
					if n := c.Nodes()[0]; n.State == "up" {
						return errors.New("it is still thought to be up")
					}
					return nil
				})
				t.Logf("noticed after %v", took)
				if took > timingSlack*20*time.Millisecond {
					if err := f.servers[0].Restart(); err != nil { // for the next try
						t.Fatal(err)
					}
					f.allUp(c, inTheEnd)
					return fmt.Errorf("noticed after %v", took)
				}
				return nil
			})
		})
	}
}

// cpu returns the CPU time of this process.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Close after the death of every server returns, however much later (R28).
func TestFaultCloseWhenAllServersDied_R28(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Millisecond} {
		f := newFleet(t, 3, redistest.OverTCP)
		c, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(redistest.URLs(f.servers)...), Forgetful: true})
		if err != nil {
			t.Fatal(err)
		}
		f.pairs(c, 5)
		f.each([]int{0, 1, 2}, (*redistest.Server).Kill)
		for i := range f.servers {
			f.state(c, i, inTheEnd, "down", "dialing")
		}
		time.Sleep(after)
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }()
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("Close: %v", err)
			}
		case <-time.After(unprompted):
			t.Fatalf("Close hangs, %v after the last node was known to be down", after)
		}
	}
}

// A lone caller's connections are cut within short replies, which it reads
// itself: the others decide, it connects again, and nothing remains (R8, R16).
func TestFaultCutWhileALoneCallerReads_R8_R16(t *testing.T) {
	f := newFleet(t, 5)
	p := redistest.Proxies(t, f.servers[:1])[0]
	c := f.client(redlock.Config{
		Nodes: redlock.Nodes(append([]string{p.URL()}, redistest.URLs(f.servers[1:])...)...), NodeTimeout: unhurried,
	})
	f.allUp(c, inTheEnd)
	f.looked(p)
	for _, n := range []int64{1, 4, 6, 8} { // within each of the two replies of 9 bytes
		connects := c.Nodes()[0].Connects
		p.CutOnce(redistest.Down, n)
		eventually(t, inTheEnd, func() error {
			lock, err := c.TryAcquire(context.Background(), fmt.Sprint("cut:", n), 30*time.Second)
			if err == nil {
				err = lock.Release(context.Background())
			}
			if err != nil {
				t.Errorf("cut after %d bytes: %v", n, err)
			}
			if now := c.Nodes()[0]; now.Connects == connects || now.State != "up" {
				return fmt.Errorf("cut after %d bytes: %s after %d connects", n, now.State, now.Connects)
			}
			return nil
		})
	}
	f.allUp(c, inTheEnd)
	f.noOrphans(unprompted)
}

// One node's segments arrive late and in odd pieces, while callers that read
// for themselves come and go. What one leaves unread belongs to another. No
// caller gets another's answer (R16), nor is its SET overtaken by its own
// release (R8).
func TestFaultLateSegmentsOfOneNode_R8_R16(t *testing.T) {
	f := newFleet(t, 3)
	proxies := redistest.Proxies(t, f.servers[:2])
	c := f.client(redlock.Config{
		Nodes: redlock.Nodes(append(redistest.URLs(proxies), f.servers[2].URL())...), NodeTimeout: unhurried,
	})
	f.allUp(c, inTheEnd)
	proxies[0].Latency(3*time.Millisecond, 2*time.Millisecond) // never part of the quorum
	proxies[0].Chunk(redistest.Down, 3)
	proxies[1].Chunk(redistest.Down, 1)
	var longest []time.Duration
	for _, callers := range []int{1, 2, 7} {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range callers {
			wg.Go(func() {
				for range 120 / callers { // always the same resource: only its own key could refuse it
					start := time.Now()
					lock, err := c.TryAcquire(context.Background(), fmt.Sprint("late:", i), 30*time.Second)
					if err == nil {
						err = lock.Release(context.Background())
					}
					if err != nil {
						t.Errorf("%d callers: %v", callers, err)
					}
					mu.Lock()
					longest = append(longest, time.Since(start))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	}
	slices.Sort(longest)
	t.Logf("a pair takes %v, 99 of 100 less than %v", longest[len(longest)/2], longest[len(longest)*99/100])
	f.allUp(c, inTheEnd)
	f.noOrphans(unprompted)
	if n := c.Nodes()[0]; n.Connects != 1 {
		t.Errorf("the late node was connected %d times: %v", n.Connects, n.Err)
	}
}
