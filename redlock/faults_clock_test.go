package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Masters whose clocks differ by as much as the drift allows, and that step
// back now and then, grant a lock to one client at a time: the margin taken off
// the TTL is sufficient, and a step back only makes keys live longer (R4).
func TestFaultClocksWithinTheDrift_R4(t *testing.T) {
	lasts := 5 * time.Second
	if testing.Short() {
		lasts = 2 * time.Second
	}
	f := newFleet(t, 5, redistest.OverTCP, redistest.OwnClock)
	for i, rate := range []float64{0.99, 0.995, 1, 1.009, 1.009} {
		f.servers[i].Clock().SetRate(rate)
	}
	bestOf(t, func() error {
		c := clockContest{fleet: f, lasts: lasts, steps: true}
		r := c.run()
		t.Logf("%d grants, %d extensions, %d holds outlived a TTL, %d refusals, %d steps back",
			r.grants, r.extensions, r.outlived, r.refusals, r.steps)
		for _, v := range r.violations {
			t.Error(v)
		}
		if r.grants < 20 || r.extensions < 3 || r.refusals < 50 || r.steps < 3 {
			return errors.New("too little happened to prove anything")
		}
		return nil
	})
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

// The checker works: clocks beyond the drift give two holders.
func TestFaultClocksBeyondTheDriftAreFound_R4(t *testing.T) {
	for _, rate := range []float64{1.2, 1.5, 10} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			f := newFleet(t, 5, redistest.OverTCP, redistest.OwnClock)
			for _, s := range f.servers[:3] { // a quorum is enough
				s.Clock().SetRate(rate)
			}
			r := clockContest{fleet: f, lasts: 30 * time.Second}.run()
			if len(r.violations) == 0 {
				t.Fatalf("not found in %d grants", r.grants)
			}
			t.Logf("after %d grants: %s", r.grants, r.violations[0])
		})
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

// A clockContest is clients that compete for few locks of real servers, whose
// clocks differ. Time is real, and all clients share it.
type clockContest struct {
	*fleet
	lasts time.Duration
	steps bool // clocks step back during the contest
}

const (
	clockClients   = 4
	clockWorkers   = 3 // per client
	clockResources = 6
)

func (c clockContest) run() *clockReferee {
	c.Helper()
	seed := rand.Uint64()
	c.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(context.Background(), c.lasts)
	defer cancel()
	r := &clockReferee{stop: cancel, held: make(map[string]tenure)}
	var wg sync.WaitGroup
	for i := range clockClients {
		client := c.client(redlock.Config{NodeTimeout: 20 * timingSlack * time.Millisecond})
		for j := range clockWorkers {
			w := clockWorker{client: client, referee: r, random: rand.New(rand.NewPCG(seed, uint64(i*clockWorkers+j)))}
			wg.Go(func() { w.work(ctx) })
		}
	}
	if c.steps {
		wg.Go(func() { r.steps = c.stepBack(ctx, rand.New(rand.NewPCG(seed, 1<<32))) })
	}
	wg.Wait()
	return r
}

// stepBack sets one clock after another back, by up to half a TTL.
func (c clockContest) stepBack(ctx context.Context, random *rand.Rand) (steps int) {
	for pause(ctx, time.Duration(50+random.IntN(300))*time.Millisecond) {
		c.servers[random.IntN(len(c.servers))].Clock().Jump(-time.Duration(random.IntN(150)) * time.Millisecond)
		steps++
	}
	return steps
}

// pause waits, and reports whether the time passed before the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(max(pure.Soon, d)):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// A clockWorker takes one lock after another and keeps it in some way: to the
// very end, extended, or renewed.
type clockWorker struct {
	client  *redlock.Client
	referee *clockReferee
	random  *rand.Rand
}

func (w clockWorker) span(most time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(most)))
}

func (w clockWorker) ttl() time.Duration { return 200*time.Millisecond + w.span(200*time.Millisecond) }

func (w clockWorker) work(ctx context.Context) {
	for pause(ctx, w.span(5*time.Millisecond)) {
		resource := fmt.Sprint("r", w.random.IntN(clockResources))
		if w.random.IntN(8) == 0 {
			w.hold(ctx, resource)
		} else {
			w.lock(ctx, resource)
		}
	}
}

func (w clockWorker) lock(ctx context.Context, resource string) {
	lock, err := w.client.TryAcquire(ctx, resource, w.ttl())
	if err != nil {
		w.referee.refused(err)
		return
	}
	mine := w.referee.granted(resource, tenure{valid: lock.Validity})
	for w.random.IntN(3) == 0 {
		pause(ctx, w.span(max(1, lock.Validity()/2)))
		longer, err := lock.Extend(ctx, w.ttl())
		if err != nil {
			break // it lasts as long as before
		}
		lock = longer
		mine = w.referee.extended(resource, mine, tenure{valid: lock.Validity})
	}
	if w.random.IntN(3) == 0 {
		pause(ctx, lock.Validity()) // to the very end, and without a release
		return
	}
	pause(ctx, w.span(max(1, lock.Validity()/2)))
	w.referee.gaveUp(resource, mine)
	_ = lock.Release(ctx)
}

func (w clockWorker) hold(ctx context.Context, resource string) {
	patience, cancel := context.WithTimeout(ctx, w.span(300*time.Millisecond))
	defer cancel()
	ttl := w.ttl()
	hold, err := w.client.Hold(patience, resource, redlock.HoldOptions{TTL: ttl})
	if err != nil {
		w.referee.refused(err)
		return
	}
	mine := w.referee.granted(resource, tenure{valid: func() time.Duration {
		if hold.Err() != nil {
			return 0
		}
		return hold.Validity()
	}})
	begun := time.Now()
	pause(hold.Context(), w.span(2*ttl))
	if time.Since(begun) > ttl && hold.Err() == nil {
		w.referee.keptOn()
	}
	w.referee.gaveUp(resource, mine)
	_ = hold.Release(context.Background())
}

// A tenure is one lock from its grant to its end. Its number identifies it.
type tenure struct {
	number int
	valid  func() time.Duration // what is left
}

// A clockReferee knows who holds which lock. It asks the holders at the moment
// of a grant. That is sound because all of them are in one process, and so both
// answers come from one clock.
type clockReferee struct {
	stop context.CancelFunc // one violation is enough

	mu                                     sync.Mutex // guards the following
	held                                   map[string]tenure
	grants, extensions, outlived, refusals int
	violations                             []string

	steps int // written before run returns
}

// granted returns the tenure's number.
func (r *clockReferee) granted(resource string, t tenure) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants++
	t.number = r.grants
	before, there := r.held[resource]
	if there {
		// The new one first: time that passes between the two can only hide a
		// violation, not cause a false one.
		if mine, theirs := t.valid(), before.valid(); mine > 0 && theirs > 0 {
			r.violated("%s: granted for %v while another holds it for another %v", resource, mine, theirs)
		}
	}
	r.held[resource] = t
	return t.number
}

// extended replaces a tenure by a longer one, unless its resource has been
// granted to another client meanwhile.
func (r *clockReferee) extended(resource string, number int, t tenure) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extensions++
	now := r.held[resource]
	if now.number != number && now.valid != nil {
		if mine, theirs := t.valid(), now.valid(); mine > 0 && theirs > 0 {
			r.violated("%s: extended for %v while another holds it for another %v", resource, mine, theirs)
		}
		return number
	}
	t.number = number
	r.held[resource] = t
	return number
}

// gaveUp is called before the release: from then on others may hold the lock.
func (r *clockReferee) gaveUp(resource string, number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[resource].number == number {
		delete(r.held, resource)
	}
}

// keptOn counts a hold that lasted longer than it would have without renewal.
func (r *clockReferee) keptOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outlived++
}

func (r *clockReferee) refused(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals++
	for _, fine := range []error{redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, fine) {
			return
		}
	}
	r.violated("unexpected error: %v", err)
}

// violated records a violation. The caller must hold the mutex.
func (r *clockReferee) violated(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
	r.stop()
}
