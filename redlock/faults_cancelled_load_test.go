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

// Quitters are callers whose contexts end at random moments: before an attempt,
// during it, or after its grant. Each attempt has a key of its own, so a key
// that is found tells its caller and when that caller was told.
type quitters struct {
	*fleet
	client *redlock.Client
	ending atomic.Bool
	wg     sync.WaitGroup
	told   [quitting]struct {
		next atomic.Int64        // the attempt in progress
		at   [rings]atomic.Int64 // when the caller was told, by attempt, in nanoseconds since the start
	}
	begun   time.Time
	slowest time.Duration // the longest round trip seen

	// Outcomes of the attempts. Cancelled are those whose context had ended
	// when their caller was told.
	attempts, cancelled, before, granted, released atomic.Int64
}

const (
	quitting = 192
	rings    = 256
)

// Ten thousand attempts a second whose contexts end at random moments leave no
// key: on nodes that are always up, one round trip and 20 ms after the last
// caller was told; on one that is stopped for a while, and again at the end,
// 1.5 s after it continued (R7, R8, R26).
func TestFaultManyCancelledAttempts_R7_R8(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{})
	bestOf(t, func() error { return (&quitters{fleet: f, client: c, begun: time.Now()}).run() })
}

// run returns an error if keys were deleted too late.
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
	f.state(q.client, 4, inTheEnd, "down", "dialing") // until then its unanswered commands are not owed
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
	// During the load the machine is full, and a server may not be scheduled. A
	// node that was given up for that has 1.5 s to pay. A key found later than
	// that was left behind.
	if oldest > timingSlack*1500*time.Millisecond+q.slowest {
		return fmt.Errorf("R7: a key was there %v after its caller was told", oldest)
	}
	return left
}

// left returns an error if reachable nodes have keys one round trip and 20 ms
// after the last caller was told. There are so many that listing them takes a
// while, and the client is idle by now: it looks a few times in quick
// succession.
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

// standing describes the state of each node, to help find out why a key is
// left.
func (q *quitters) standing() (text string) {
	for i, n := range q.client.Nodes() {
		text += fmt.Sprintf("; node %d is %s after %d connects with %d debts, replies in %v", i, n.State, n.Connects, n.Debts, n.ReplyTime)
	}
	return text
}

// quit runs one caller.
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
		cancel() // unless it was before: the release is sent whatever the context (R9)
		if err := lock.Release(ctx); err == nil {
			q.released.Add(1)
		} else if !errors.Is(err, context.Canceled) && !errors.Is(err, redlock.ErrNoQuorum) {
			q.Errorf("Release: %v", err)
		}
	case !errors.Is(err, context.Canceled) && !errors.Is(err, redlock.ErrNoQuorum):
		q.Errorf("TryAcquire: %v", err) // such as held by itself
	}
}

// watchFor looks at the reachable nodes for a while, and returns the greatest
// age of a key that it saw, counted from when its caller was told.
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

// roundTrip returns the longest round trip to a reachable node, as the client
// measures it. On a full machine a server may be far behind with what is in its
// socket, including releases.
func (q *quitters) roundTrip() (longest time.Duration) {
	for _, n := range q.client.Nodes()[:4] {
		longest = max(longest, n.ReplyTime)
	}
	return longest
}

// age returns how long before looked the caller of a key was told, or 0 if it
// was not yet.
func (q *quitters) age(key string, looked time.Duration) time.Duration {
	parts := strings.Split(key, ":")
	caller, _ := strconv.Atoi(parts[1])
	n, _ := strconv.ParseInt(parts[2], 10, 64)
	told := &q.told[caller]
	latest := told.next.Load() - 1 // the last attempt whose caller was told
	if n > latest {
		return 0
	}
	// A key older than the ring is at least as old as the ring's oldest entry.
	return max(0, looked-time.Duration(told.at[max(n, latest-rings+2)%rings].Load()))
}
