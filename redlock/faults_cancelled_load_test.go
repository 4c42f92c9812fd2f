package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Quitters are callers whose contexts end at random moments: before an attempt, during it, after it was granted. Each attempt
// has a key of its own, so that a key that is found says whose it is and when that caller was told.
type quitters struct {
	*fleet
	client *redlock.Client
	ending atomic.Bool
	wg     sync.WaitGroup
	told   [quitting]struct {
		next atomic.Int64        // the attempt that is under way
		at   [rings]atomic.Int64 // when the caller was told, by attempt, nanoseconds since the begin
	}
	begun   time.Time
	slowest time.Duration // round trip that was seen

	// What came of the attempts. Cancelled are those whose context had ended when their caller was told.
	attempts, cancelled, before, granted, released atomic.Int64
}

const (
	quitting = 192
	rings    = 256
)

// Ten thousand attempts a second whose contexts end at random moments leave no key behind: not on nodes that are there all the
// time, one round trip and 20 ms after the last caller was told, and not on one that is stopped for a while, and again at the
// end, 1.5 s after it went on (R7, R8, R26).
func TestFaultManyCancelledAttempts_R7_R8(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{})
	bestOf(t, func() error { return (&quitters{fleet: f, client: c, begun: time.Now()}).run() })
}

// run says what came too late.
func (q *quitters) run() error {
	f := q.fleet
	f.allUp(q.client, inTheEnd)
	for i := range quitting {
		q.wg.Go(func() { q.quit(i) })
	}
	begun := time.Now()
	oldest := q.watchFor(600 * time.Millisecond)
	f.stop(4)
	oldest = max(oldest, q.watchFor(600*time.Millisecond))
	f.continues(4)
	f.state(q.client, 4, inTheEnd, "up")
	oldest = max(oldest, q.watchFor(300*time.Millisecond))
	f.stop(4)
	oldest = max(oldest, q.watchFor(600*time.Millisecond))
	took := time.Since(begun)
	q.ending.Store(true)
	q.wg.Wait()
	left := q.left()
	f.state(q.client, 4, inTheEnd, "down", "dialing") // until then what it has not answered is not owed
	owed := q.client.Nodes()[4].Debts
	f.continues(4)
	paid := f.noOrphans(inTheEnd)
	settled := paid + f.allUp(q.client, inTheEnd)
	rate := float64(q.cancelled.Load()) / took.Seconds()
	f.Logf("%.0f cancelled attempts a second of %.0f; %d before they began, %d granted all the same, %d released",
		rate, float64(q.attempts.Load())/took.Seconds(), q.before.Load(), q.granted.Load(), q.released.Load())
	f.Logf("oldest key seen on a reachable node, after its caller was told: %v; %d debts of the stopped node, no key %v after it "+
		"went on, all paid after %v%s", oldest, owed, paid, settled, q.standing())
	if q.cancelled.Load() < 1000 || q.granted.Load() < 100 || owed < 10 {
		f.Error("too little happened for this test to mean anything")
	}
	if paid > timingSlack*1500*time.Millisecond {
		return fmt.Errorf("R26: the stopped node was rid of its keys only %v after it went on", paid)
	}
	// While it goes on, the machine is full, a server may not get to run, and a node that was given up for that has 1.5 s to
	// pay. What is found later than that was left behind.
	if oldest > timingSlack*1500*time.Millisecond+q.slowest {
		return fmt.Errorf("R7: a key was there %v after its caller was told", oldest)
	}
	return left
}

// left says what keys the reachable nodes have, one round trip and 20 ms after the last caller was told. They are so many that
// to name them takes a while, and the client is no longer busy: a few looks, one right after the other.
func (q *quitters) left() (err error) {
	reachable := &fleet{q.TB, q.servers[:4]}
	for range 5 {
		time.Sleep(q.roundTrip() + afterRoundTrip)
		if err = reachable.orphans(nil); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", err, q.standing())
}

// standing says how each node stands, for who has to find out why a key is there.
func (q *quitters) standing() (text string) {
	for i, n := range q.client.Nodes() {
		text += fmt.Sprintf("; node %d is %s after %d connects with %d debts, replies in %v", i, n.State, n.Connects, n.Debts, n.ReplyTime)
	}
	return text
}

// quit is one caller.
func (q *quitters) quit(caller int) {
	for n := int64(0); !q.ending.Load(); n++ {
		q.told[caller].next.Store(n)
		q.attempt(fmt.Sprintf("quit:%d:%d", caller, n))
		q.told[caller].at[n%rings].Store(int64(time.Since(q.begun)))
	}
	q.told[caller].next.Add(1)
}

// attempt ends its context before, during or after an acquisition.
func (q *quitters) attempt(resource string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch moment := rand.IntN(20); {
	case moment == 0:
		cancel()
		q.before.Add(1)
	case moment < 17:
		defer time.AfterFunc(1+rand.N(3*time.Millisecond), cancel).Stop()
	}
	q.attempts.Add(1)
	lock, err := q.client.TryAcquire(ctx, resource, 30*time.Second)
	if ctx.Err() != nil {
		q.cancelled.Add(1)
	}
	switch {
	case err == nil:
		q.granted.Add(1)
		cancel() // if it was not before: the release is sent whatever the context says (R9)
		if err := lock.Release(ctx); err == nil {
			q.released.Add(1)
		} else if !errors.Is(err, context.Canceled) && !errors.Is(err, redlock.ErrNoQuorum) {
			q.Errorf("Release: %v", err)
		}
	case !errors.Is(err, context.Canceled) && !errors.Is(err, redlock.ErrNoQuorum):
		q.Errorf("TryAcquire: %v", err) // held by itself, say
	}
}

// watchFor looks at the reachable nodes for a while, and returns the age of the oldest key that it saw, counted from when its
// caller was told.
func (q *quitters) watchFor(d time.Duration) (oldest time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		q.slowest = max(q.slowest, q.roundTrip())
		for i := range 4 {
			looked := time.Since(q.begun)
			for _, key := range q.keys(i, nil) {
				oldest = max(oldest, q.age(key, looked))
			}
		}
	}
	return oldest
}

// roundTrip is the longest to a reachable node, as the client measures it. On a machine that is full a server may be far behind
// with what is in its socket, the releases included.
func (q *quitters) roundTrip() (longest time.Duration) {
	for _, n := range q.client.Nodes()[:4] {
		longest = max(longest, n.ReplyTime)
	}
	return longest
}

// age is how long before the given time the caller of a key was told; 0 if it was not yet.
func (q *quitters) age(key string, looked time.Duration) time.Duration {
	parts := strings.Split(key, ":")
	caller, _ := strconv.Atoi(parts[1])
	n, _ := strconv.ParseInt(parts[2], 10, 64)
	told := &q.told[caller]
	latest := told.next.Load() - 1 // the last whose caller was told
	if n > latest {
		return 0
	}
	// What is older than the ring is at least as old as its oldest entry.
	return max(0, looked-time.Duration(told.at[max(n, latest-rings+2)%rings].Load()))
}
