package redlock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
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

// The same when a service ends as most do: the context of its callers ends, and
// Close gets that same context (signal.NotifyContext, "defer
// client.Close(ctx)").
func TestFaultCloseWithAnEndedContext_R7_R28(t *testing.T) {
	f := newFleet(t, 3)
	for round := range redistest.Few(20, 60) {
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

// A quorum of keys that expires exactly as the drift allows lets the next
// client in no earlier than the end of the validity. It is also not much later,
// so the contest above tested something.
func TestFaultClockAtTheEdgeOfTheDrift_R4(t *testing.T) {
	f := newFleet(t, 3, redistest.OwnClock)
	for _, s := range f.servers {
		s.Clock().SetRate(1 / (1 - 0.01)) // the fastest for which 1 % is enough
	}
	first, second := f.client(redlock.Config{NodeTimeout: unhurried}), f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(first, inTheEnd)
	f.allUp(second, inTheEnd)
	const ttl = 2 * time.Second
	for range 3 {
		a := acquired(t, first, "r", ttl)
		time.Sleep(ttl * 8 / 10) // if it is too short, then by a little
		for {
			b, err := second.TryAcquire(context.Background(), "r", ttl)
			left := a.Validity()
			if err == nil {
				t.Logf("granted again %v after the end", -left)
				if left > 0 {
					t.Errorf("a second grant %v before the end of the first", left)
				}
				t.Logf("a second grant %v after the end of the first", -left) // the exact time depends on the machine
				_ = b.Release(context.Background())
				break
			}
			if !errors.Is(err, redlock.ErrHeld) {
				t.Fatal(err)
			}
		}
	}
}

// A step forward expires a node's keys. While a quorum of the others has the
// key, no other client gets the lock: after a grant of all five, that holds
// while no more than two clocks step.
func TestFaultClockStepsForwardUnderAGrantOfAll_R4(t *testing.T) {
	f := newFleet(t, 5, redistest.OwnClock)
	holder, other := f.client(redlock.Config{NodeTimeout: unhurried}), f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(holder, inTheEnd)
	f.allUp(other, inTheEnd)
	lock := acquired(t, holder, "r", time.Minute)
	token := lock.Token()
	eventually(t, inTheEnd, func() error {
		if n := f.on("r", string(token[:])); n != 5 {
			return fmt.Errorf("only %d of five granted it", n)
		}
		return nil
	})
	for stepped := 1; stepped <= 2; stepped++ {
		f.servers[stepped-1].Clock().Jump(time.Hour)
		if n := f.on("r", string(token[:])); n != 5-stepped {
			t.Fatalf("%d keys are there after %d steps", n, stepped)
		}
		for range 50 {
			if _, err := other.TryAcquire(context.Background(), "r", 30*time.Second); !errors.Is(err, redlock.ErrHeld) {
				t.Fatalf("with %d clocks stepped: %v", stepped, err)
			}
		}
	}
	longer, err := lock.Extend(context.Background(), 2*time.Minute)
	if err != nil {
		t.Fatalf("the three that are left are a quorum: %v", err)
	}
	if err := longer.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// What is not promised, and why the package comment names it: if exactly a
// quorum granted the lock, a step forward of one of their clocks makes room for
// a second holder.
func TestFaultClockStepsForwardUnderAGrantOfExactlyAQuorum_IsNotPromised(t *testing.T) {
	f := newFleet(t, 5, redistest.OwnClock)
	holder, other := f.client(redlock.Config{NodeTimeout: unhurried}), f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(holder, inTheEnd)
	f.allUp(other, inTheEnd)
	for i := range 2 { // these two have granted the resource to another client, which is gone
		f.must(i, "SET", "r", "foreign", "PX", "60000")
	}
	lock := acquired(t, holder, "r", 30*time.Second)
	for i := range 2 {
		f.must(i, "DEL", "r")
	}
	if _, err := other.TryAcquire(context.Background(), "r", 30*time.Second); !errors.Is(err, redlock.ErrHeld) {
		t.Fatalf("before the step: %v", err)
	}
	f.servers[4].Clock().Jump(time.Hour)
	second, err := other.TryAcquire(context.Background(), "r", 30*time.Second)
	if err != nil {
		t.Fatalf("the step was to make room for a second holder: %v", err)
	}
	if lock.Validity() <= 0 || second.Validity() <= 0 {
		t.Fatal("the machine was too busy for 30 s of validity")
	}
	t.Logf("two holders at once: one for another %v, the other for %v", lock.Validity(), second.Validity())
}

// Another program that follows the algorithm's description and our client
// exclude each other on the same masters, also by tokens of raw bytes, which
// older versions have: whole values are compared (R1, R2, R3, R9).
func TestFaultInterop_R1_R2_R3_R9(t *testing.T) {
	f := newFleet(t, 5)
	others := map[string]*byHand{
		"raw commands": {f.servers, byDo, hex.EncodeToString},
		"raw tokens":   {f.servers, byDo, func(random []byte) string { return string(random) }},
	}
	if _, err := exec.LookPath("redis-cli"); err == nil {
		others["redis-cli"] = &byHand{f.servers, byCLI, hex.EncodeToString}
	} else {
		t.Log("redis-cli is not on PATH: the other program is raw commands only")
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			f := &fleet{t, f.servers}
			c := f.client(redlock.Config{NodeTimeout: unhurried})
			f.allUp(c, inTheEnd)
			f.excludeInTurn(c, other)
			f.excludeInTheRace(c, other)
			f.noOrphans(unprompted)
		})
	}
}

// byHand is the algorithm as described, one server after another.
type byHand struct {
	servers []*redistest.Server
	run     func(s *redistest.Server, args ...string) (string, error)
	text    func(random []byte) string // turns random bytes into a token
}

func byDo(s *redistest.Server, args ...string) (string, error) {
	v, err := s.Do(args...)
	if v == nil {
		v = ""
	}
	return fmt.Sprint(v), err
}

func byCLI(s *redistest.Server, args ...string) (string, error) {
	socket := strings.TrimPrefix(s.UnixURL(), "unix://")
	out, err := exec.Command("redis-cli", append([]string{"-s", socket}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

const releaseByHand = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func (b *byHand) acquire(key string, ttl time.Duration) (token string, ok bool) {
	random := make([]byte, 20)
	_, _ = rand.Read(random)
	token = b.text(random)
	start, granted := time.Now(), 0
	for _, s := range b.servers {
		if v, err := b.run(s, "SET", key, token, "NX", "PX", fmt.Sprint(ttl.Milliseconds())); err == nil && v == "OK" {
			granted++
		}
	}
	if granted > len(b.servers)/2 && time.Since(start) < ttl-ttl/100-2*time.Millisecond {
		return token, true
	}
	b.release(key, token)
	return "", false
}

func (b *byHand) release(key, token string) {
	for _, s := range b.servers {
		_, _ = b.run(s, "EVAL", releaseByHand, "1", key, token)
	}
}

// excludeInTurn tests each way of being excluded once.
func (f *fleet) excludeInTurn(c *redlock.Client, other *byHand) {
	f.Helper()
	ours := acquired(f, c, "turn", 30*time.Second)
	if _, ok := other.acquire("turn", 30*time.Second); ok {
		f.Error("the other got a lock that we hold")
	}
	if _, err := ours.Extend(context.Background(), time.Minute); err != nil {
		f.Errorf("the other's attempt took something from us: %v", err)
	}
	other.release("turn", "a token that no client has")
	if err := ours.Release(context.Background()); err != nil {
		f.Errorf("Release: %v", err)
	}
	f.noOrphans(unprompted) // a release returns with a quorum of answers
	token, ok := other.acquire("turn", 30*time.Second)
	if !ok {
		f.Fatal("the other did not get what we released")
	}
	if _, err := c.TryAcquire(context.Background(), "turn", 30*time.Second); !errors.Is(err, redlock.ErrHeld) {
		f.Errorf("not ErrHeld while the other holds it: %v", err)
	}
	if err := ours.Release(context.Background()); !errors.Is(err, redlock.ErrNotHeld) {
		f.Errorf("releasing twice, while the other holds it: %v", err)
	}
	if n := f.on("turn", token); n != 5 {
		f.Errorf("the other's lock stands on %d servers", n)
	}
	other.release("turn", token)
}

// excludeInTheRace lets both compete for one resource for a while; a holder
// must be alone.
func (f *fleet) excludeInTheRace(c *redlock.Client, other *byHand) {
	f.Helper()
	length := redistest.Few(300*time.Millisecond, 700*time.Millisecond)
	var inside, ours, theirs atomic.Int64
	alone := func() {
		if inside.Add(1) != 1 {
			f.Error("two holders at once")
		}
		time.Sleep(500 * time.Microsecond)
		inside.Add(-1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	begun := time.Now()
	enough := func() { // for the time, and until both have had it
		if time.Since(begun) > length && ours.Load() > 0 && theirs.Load() > 0 {
			cancel()
		}
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				lock, err := c.Acquire(ctx, "race", time.Minute)
				if err != nil {
					continue
				}
				alone()
				ours.Add(1)
				if err := lock.Release(context.Background()); err != nil {
					f.Errorf("Release: %v", err)
				}
				enough()
				time.Sleep(5 * time.Millisecond) // otherwise the slower program would never get it
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			token, ok := other.acquire("race", time.Minute)
			if !ok {
				continue
			}
			alone()
			theirs.Add(1)
			other.release("race", token)
			enough()
		}
	})
	wg.Wait()
	f.Logf("ours %d, theirs %d", ours.Load(), theirs.Load())
	if ours.Load() == 0 || theirs.Load() == 0 {
		f.Error("one of the two never got it")
	}
}
