package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// handovers measures several times how long a lock takes from one client to
// another that waits for it, and returns the median. pass gives up the lock and
// returns when that was.
func handovers(f *fleet, a, b *redlock.Client, pass func(redlock.Lock) time.Time) time.Duration {
	f.Helper()
	var took []time.Duration
	for i := range 7 {
		resource := fmt.Sprint("handover:", i)
		held := acquired(f, a, resource, 300*time.Millisecond)
		got := make(chan time.Time, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if lock, err := b.Acquire(ctx, resource, time.Minute); err == nil {
				got <- time.Now()
				_ = lock.Release(ctx)
			}
			close(got)
		}()
		time.Sleep(100 * time.Millisecond) // only the poller's own goroutine still reads
		passed := pass(held)
		at, ok := <-got
		if !ok {
			f.Fatal("it did not get the lock")
		}
		took = append(took, at.Sub(passed))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func released(l redlock.Lock) time.Time {
	start := time.Now()
	_ = l.Release(context.Background())
	return start
}

// forgotten returns when the keys of a lock that is never released expire.
func forgotten(l redlock.Lock) time.Time { return l.Until().Add(5 * time.Millisecond) }

// A waiting caller learns of a release and of an expiry, whichever goroutine
// reads the sockets. The bounds are generous for a busy machine, and far below
// the half second after which it would try anyway.
func TestFaultWaitersAreTold_R11(t *testing.T) {
	redistest.Alone(t)
	for name, over := range map[string]redistest.Option{
		"tcp": redistest.OverTCP, "unix": redistest.OverUnix, "tls": redistest.OverTLS,
	} {
		for _, portable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/portable=%t", name, portable), func(t *testing.T) {
				f := newFleet(t, 5, over)
				a := f.client(redlock.Config{NodeTimeout: 100 * time.Millisecond}) // its TTL is short, its patience is not
				b := f.client(redlock.Config{Connect: redlock.Connect{NetDial: redistest.Portable(portable)}, NodeTimeout: unhurried})
				f.allUp(a, inTheEnd)
				f.allUp(b, inTheEnd)
				for what, pass := range map[string]func(redlock.Lock) time.Time{"release": released, "expiry": forgotten} {
					bestOf(t, func() error {
						took := handovers(f, a, b, pass)
						t.Logf("%s: %v", what, took)
						if took > 50*time.Millisecond {
							return fmt.Errorf("%s was noticed after %v", what, took)
						}
						return nil
					})
				}
				for i, n := range b.Nodes() {
					if n.Connects != 1 {
						t.Errorf("node %d was connected %d times: %v", i, n.Connects, n.Err)
					}
				}
			})
		}
	}
}

// Real servers register only the query. The scripts that release and extend
// also read the key, but must not cause pushes.
func TestFaultOnlyQuestionsAreTracked(t *testing.T) {
	f := newFleet(t, 1)
	a := f.client(redlock.Config{NodeTimeout: 100 * time.Millisecond}) // its TTL is short
	b := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(b, inTheEnd)
	f.allUp(a, inTheEnd)
	handovers(f, a, b, released) // tracking is on
	for i := range 50 {
		l := acquired(t, b, fmt.Sprint("untracked:", i), time.Minute)
		l, err := l.Extend(context.Background(), 2*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Release(context.Background())
	}
	info, _ := f.must(0, "INFO", "stats").(string)
	if !strings.Contains(info, "tracking_total_keys:0\r\n") {
		i := strings.Index(info, "tracking_total_keys")
		t.Errorf("keys are tracked: %q", info[i:i+40])
	}
	if !strings.Contains(f.must(0, "CLIENT", "LIST").(string), " flags=t") {
		t.Error("no connection is tracked, so this test proves nothing")
	}
}

// Pushes need the rights client|tracking and client|caching; without them a
// waiting caller polls, and everything else works.
func TestFaultUserWhoMayNotTrack(t *testing.T) {
	f := newFleet(t, 3)
	const most = "reset on >secret resetchannels ~* +set +get +del +pexpire +pttl +eval +evalsha +script|load " +
		"+hello +auth +client|setname +client|id +client|info +client|kill +ping +info +time +select"
	for name, c := range map[string]struct {
		may  string
		told bool
	}{
		"both":         {" +client|tracking +client|caching", true},
		"not to cache": {" +client|tracking", false},
		"neither":      {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range f.servers {
				f.must(i, append([]string{"ACL", "SETUSER", "locker"}, strings.Fields(most+c.may)...)...)
			}
			a := f.client(redlock.Config{NodeTimeout: 100 * time.Millisecond})
			b := f.client(redlock.Config{Username: "locker", Password: "secret", NodeTimeout: unhurried})
			f.allUp(a, inTheEnd)
			f.allUp(b, inTheEnd)
			bestOf(t, func() error {
				took := handovers(f, a, b, released)
				t.Logf("handed over after %v", took)
				if took > 400*time.Millisecond {
					return fmt.Errorf("handed over after %v", took)
				}
				return nil
			})
			asked, tracked := 0, 0
			for i := range f.servers {
				stats, _ := f.must(i, "INFO", "commandstats").(string)
				for line := range strings.Lines(stats) {
					if strings.HasPrefix(line, "cmdstat_client|caching:") {
						asked++
					}
				}
				list, _ := f.must(i, "CLIENT", "LIST").(string)
				for line := range strings.Lines(list) {
					if strings.Contains(line, " flags=t") && strings.Contains(line, " user=locker ") {
						tracked++
					}
				}
				f.must(i, "CONFIG", "RESETSTAT")
			}
			if c.told && (asked != 3 || tracked != 3) {
				t.Errorf("%d nodes were asked to track, and %d do", asked, tracked)
			}
			_ = b.Close(context.Background())
		})
	}
}

// Many waiters of several clients compete for a few locks, while servers are
// stopped, connections killed, scripts flushed and pushes forced: no two
// callers have the same lock, every caller gets one in the end, and nothing is
// left.
func TestFaultManyWaiters_R11(t *testing.T) {
	f := newFleet(t, 5)
	var clients []*redlock.Client
	for i := range 3 {
		clients = append(clients, f.client(redlock.Config{Connect: redlock.Connect{NetDial: redistest.Portable(i == 0)}}))
		f.allUp(clients[i], inTheEnd)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	begun := time.Now()
	var grants [3]atomic.Int64
	ended := func() bool { // when all had it, however long that takes
		enough := time.Since(begun) > 4*time.Second && grants[0].Load() > 0 && grants[1].Load() > 0 && grants[2].Load() > 0
		if enough {
			cancel()
		}
		return enough || ctx.Err() != nil
	}
	var holders [2]atomic.Int32
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r := rand.IntN(len(holders))
				patience, cancel := context.WithTimeout(ctx, time.Duration(1+rand.IntN(2000))*time.Millisecond)
				lock, err := clients[i%3].Acquire(patience, fmt.Sprint("crowd:", r), 2*time.Minute)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					continue
				}
				if n := holders[r].Add(1); n != 1 && lock.Validity() > 0 {
					t.Errorf("%d hold one lock", n)
				}
				grants[i%3].Add(1)
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				holders[r].Add(-1)
				_ = lock.Release(context.Background())
			}
		})
	}
	for !ended() {
		i := rand.IntN(len(f.servers))
		switch rand.IntN(5) {
		case 0:
			f.stop(i)
			time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
			f.continues(i)
		case 1:
			_, _ = f.servers[i].Do("CLIENT", "KILL", "TYPE", "normal")
		case 2:
			f.must(i, "SCRIPT", "FLUSH")
		case 3:
			f.must(i, "CONFIG", "SET", "tracking-table-max-keys", "1") // pushes for keys that did not change
		case 4:
			f.must(i, "CONFIG", "SET", "tracking-table-max-keys", "0")
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
	wg.Wait()
	for _, c := range clients {
		f.allUp(c, inTheEnd)
	}
	f.noOrphans(unprompted)
	for i := range grants {
		t.Logf("client %d: %d grants", i, grants[i].Load())
		if grants[i].Load() == 0 {
			t.Errorf("client %d never had a lock", i)
		}
	}
}
