package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// A worker takes one lock after another and uses it.
type worker struct {
	process *process
	index   int
	random  *rand.Rand
}

// signature tells workers of one process apart by their TTLs: nothing else in a
// SET would.
const signature = 8

type workerKey struct{}

func (k *worker) work() {
	for k.process.ctx.Err() == nil {
		k.once(fmt.Sprintf("r%d", k.random.IntN(k.process.world.draw.resources)))
		k.pause(span(k.random, 20*ms))
	}
}

// once is the use of one lock, from the call to the end.
func (k *worker) once(resource string) {
	if k.process.world.draw.sets && k.random.IntN(3) == 0 {
		k.lockAll()
		k.process.world.tokens.over(k, 0)
		return
	}
	if k.process.world.draw.lockers && k.random.IntN(3) == 0 {
		k.lockWith()
		k.process.world.tokens.over(k, 0)
		return
	}
	switch k.random.IntN(10) {
	case 0, 1, 2, 3:
		k.lock(resource)
	case 4, 5, 6, 7:
		k.hold(resource)
	case 8:
		k.do(resource)
	case 9:
		k.inspect(resource)
	}
	// All use has ended, except of dropped locks, which have been recorded.
	k.process.world.tokens.over(k, 0)
}

// pause lets time pass; if the process is stopped, it also waits until that
// ends.
func (k *worker) pause(d time.Duration) {
	timer := time.NewTimer(max(pure.Soon, d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.process.ctx.Done():
	}
	k.process.awake()
}

// ttl returns a random TTL with the worker's signature.
func (k *worker) ttl() time.Duration {
	d := k.process.world.draw
	steps := int((d.longest - d.shortest) / ms / signature)
	if k.process.handsOver { // no keys with a longer TTL are handed over
		return d.shortest.Truncate(signature*ms) + time.Duration(min(steps-1, k.random.IntN(2))*signature)*ms
	}
	return d.shortest.Truncate(signature*ms) + time.Duration(k.random.IntN(steps)*signature+k.index)*ms
}

// patience returns a context that ends at random, now or later, or with the
// process.
func (k *worker) patience(most time.Duration) (context.Context, context.CancelFunc) {
	ctx := context.WithValue(k.process.ctx, workerKey{}, k)
	switch k.random.IntN(4) {
	case 0:
		return context.WithCancel(ctx)
	case 1: // cancelled from outside, at an awkward time
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(max(pure.Soon, span(k.random, 4*k.process.world.draw.latency)), cancel)
		return ctx, func() { timer.Stop(); cancel() }
	default:
		return context.WithTimeout(ctx, span(k.random, most))
	}
}

// detached returns a context that does not end with the process.
func (k *worker) detached() (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.Background(), workerKey{}, k)
	if k.random.IntN(4) == 0 {
		return context.WithTimeout(ctx, span(k.random, 2*ms))
	}
	return context.WithCancel(ctx)
}

// lock takes a plain lock, extends it or not, and releases it sooner, later, or
// never.
func (k *worker) lock(resource string) {
	w, p := k.process.world, k.process
	ttl := k.ttl()
	ctx, cancel := k.patience(300 * ms)
	defer cancel()
	start := time.Now()
	lock, waited, err := k.acquire(ctx, p.client.Lock(resource), 0, ttl)
	if err != nil {
		return
	}
	if latest := start.Add(ttl - w.draw.slack(ttl)); !waited && !p.config.Fenced && lock.Until().After(latest) {
		w.violate("R4", "%s: valid for %v more than is left of a TTL of %v", p.name, lock.Until().Sub(latest), ttl)
	}
	t := w.referee.granted(k, resource, start, ttl, lock, nil)
	p.awake()
	for k.random.IntN(3) == 0 {
		if k.random.IntN(3) == 0 {
			k.pause(lock.Validity() - span(k.random, 4*w.draw.latency)) // right before the end, so that the answers come too late
		} else {
			k.pause(span(k.random, lock.Validity()/time.Duration(1+k.random.IntN(4))))
		}
		lock = k.extend(t, lock)
	}
	switch k.random.IntN(4) {
	case 0: // the lock is left to its TTL
		k.pause(span(k.random, lock.Validity()))
		w.tokens.drop(lock.Token())
		return
	case 1:
		k.pause(lock.Validity())
	case 2:
		k.pause(span(k.random, lock.Validity()))
	}
	k.expectHeld("Release", lock, k.release(t, 0, lock.Release))
}

// acquire takes a lock, waiting or not. once is how long an attempt may take
// besides the vote timeout.
func (k *worker) acquire(ctx context.Context, with redlock.Locker, once, ttl time.Duration) (lock redlock.Lock, waited bool, err error) {
	name, take := "TryAcquire", with.TryAcquire
	if waited = k.random.IntN(2) == 0; waited {
		name, once, take = "Acquire", waitForCtx, with.Acquire
	}
	err = k.call(name, once, ctx, attemptErrors, func() (err error) {
		lock, err = take(ctx, ttl)
		return err
	})
	return lock, waited, err
}

// lengthen extends the lock of some tenures without a limit of time.
func (k *worker) lengthen(lock redlock.Lock, ttl time.Duration, all ...*tenure) redlock.Lock {
	longer, err := lock.Extend(context.WithValue(context.Background(), workerKey{}, k), ttl)
	k.expectHeld("Extend", lock, err)
	if err != nil {
		return lock
	}
	for _, t := range all {
		k.process.world.referee.extended(t, ttl, longer)
	}
	return longer
}

// expectHeld checks an answer about a lock that is still valid: unless a master
// forgot it, a quorum has it (R9).
func (k *worker) expectHeld(name string, lock redlock.Lock, err error) {
	w := k.process.world
	if errors.Is(err, redlock.ErrNotHeld) && lock.Validity() > 0 && !w.draw.forgets() {
		w.violate("R9", "%s: %s says that a lock is not held that is valid for another %v", k.process.name, name, lock.Validity())
	}
}

// extend extends the lock once.
func (k *worker) extend(t *tenure, lock redlock.Lock) redlock.Lock {
	w := k.process.world
	ttl := k.ttl()
	ctx, cancel := k.patience(50 * ms)
	defer cancel()
	var longer redlock.Lock
	start := time.Now()
	err := k.call("Extend", 0, ctx, extendErrors, func() (err error) {
		longer, err = lock.Extend(ctx, ttl)
		return err
	})
	if err != nil {
		k.expectHeld("Extend", lock, err)
		return lock
	}
	w.count("extensions", 1)
	switch latest := start.Add(ttl - w.draw.slack(ttl)); {
	case longer.Until().Before(lock.Until()):
		w.violate("R10", "%s: an extension shortened the lock by %v", k.process.name, lock.Until().Sub(longer.Until()))
	case longer.Until().After(latest) && longer.Until().After(lock.Until()):
		w.violate("R4", "%s: an extension is valid for %v more than is left", k.process.name, longer.Until().Sub(latest))
	case !time.Now().Before(lock.Until()):
		w.violate("R10", "%s: an extension was complete only after the lock's end", k.process.name)
	}
	w.referee.extended(t, ttl, longer)
	return longer
}

// release releases a lock. The masters are told before the call returns. If
// keys are kept for a while (MinHold), they must be gone only after that.
func (k *worker) release(t *tenure, stand time.Duration, release func(context.Context) error) error {
	w, p := k.process.world, k.process
	if p.isDead() {
		return nil // the process is gone
	}
	ctx, cancel := k.detached()
	defer cancel()
	w.referee.gaveUp(t)
	w.tokens.over(k, stand)
	w.count("releases", 1)
	return k.call("Release", 0, ctx, releaseErrors, func() error { return release(ctx) })
}

// hold takes a lock that renews itself.
func (k *worker) hold(resource string) {
	w, p := k.process.world, k.process
	o := k.holdOptions()
	ctx, cancel := k.patience(300 * ms)
	defer cancel()
	start := time.Now()
	with, h := p.client.Lock(resource), (*redlock.Hold)(nil)
	name, most, take := "TryHold", time.Duration(0), with.TryHold
	if k.random.IntN(2) == 0 {
		name, most, take = "Hold", waitForCtx, with.Hold
	}
	err := k.call(name, most, ctx, attemptErrors, func() (err error) {
		h, err = take(ctx, o)
		return err
	})
	if err != nil {
		return
	}
	granted := time.Now()
	first := h.Until()
	ttl := o.TTL
	if o.MaxHold > 0 {
		ttl = 0 // the validity may be shorter than the keys' lives
	}
	t := w.referee.granted(k, resource, start, ttl, h.Current(), h)
	t.watchEnd(h, o, granted)
	p.awake()
	k.underHold(h, span(k.random, pick(k.random, 30*ms, 150*ms, 600*ms)))
	if h.Until().After(first) {
		w.count("renewed holds", 1)
	}
	if errors.Is(h.Err(), redlock.ErrLost) {
		w.count("lost holds", 1)
	}
	if o.MinHold == 0 && p.ctx.Err() != nil && k.random.IntN(2) == 0 {
		p.leave(h) // to Close
		return
	}
	stand := time.Duration(0)
	if rest := time.Until(granted.Add(o.MinHold)); o.MinHold > 0 && rest > 0 {
		stand = rest + 2*w.draw.slack(rest) // the keys' lives, and so what is left of them, are longer by the drift
	}
	_ = k.release(t, stand, h.Release)
}

func (k *worker) holdOptions() redlock.HoldOptions {
	o := redlock.HoldOptions{TTL: k.ttl(), Heal: k.random.IntN(2) == 0, NoRenewal: k.random.IntN(8) == 0}
	if k.random.IntN(4) == 0 {
		o.MinHold = span(k.random, o.TTL).Truncate(ms)
	}
	if k.random.IntN(4) == 0 {
		o.MaxHold = span(k.random, 400*ms)
	}
	return o
}

// underHold works until the hold or the work ends.
func (k *worker) underHold(h *redlock.Hold, work time.Duration) {
	timer := time.NewTimer(max(pure.Soon, work))
	defer timer.Stop()
	select {
	case <-h.Context().Done():
	case <-timer.C:
	case <-k.process.ctx.Done():
	}
	k.process.awake()
}

var errWork = errors.New("the work failed")

// do takes and uses a lock in one call.
func (k *worker) do(resource string) {
	w, p := k.process.world, k.process
	ctx, cancel := k.patience(400 * ms)
	defer cancel()
	start := time.Now()
	work := span(k.random, pick(k.random, 30*ms, 300*ms))
	var own error // the function's
	o := k.holdOptions()
	o.MinHold = 0 // hold tests MinHold
	err := p.client.Lock(resource).DoWith(ctx, o, func(ctx context.Context) error {
		own = errWork
		if h, ok := redlock.FromContext(ctx); ok && p.config.Fenced {
			w.referee.ordered(k, resource, start, h.Current().Fence())
		}
		t := w.referee.began(k, resource, ctx)
		defer w.referee.gaveUp(t)
		select {
		case <-ctx.Done():
			own = ctx.Err()
		case <-time.After(max(pure.Soon, work)):
		}
		return own
	})
	switch {
	case p.isDead():
	case own != nil && ctx.Err() == nil && errors.Is(err, context.Canceled):
		w.violate("R12", "%s: Do: the end of a hold looks like a cancellation: %v", p.name, err)
	case own != nil && errors.Is(err, own), own != nil && own != errWork && isOneOf(err, holdEnds):
		w.count("done", 1)
	case own != nil:
		w.violate("R14", "%s: Do lost the error of its function, %v: %v", p.name, own, err)
	case !isOneOf(err, attemptErrors):
		w.violate("R12", "%s: Do: an error that is not documented: %v", p.name, err)
	}
}

func (k *worker) inspect(resource string) {
	ctx, cancel := k.patience(200 * ms)
	most := time.Duration(waitForCtx)
	if k.random.IntN(2) == 0 {
		// Without a deadline, a bound of its own takes its place.
		ctx, most = context.Background(), 900*ms
		if k.process.config.NodeTimeout > 0 {
			most = k.process.config.NodeTimeout
		}
	}
	defer cancel()
	_ = k.call("Inspect", most, ctx, inspectErrors, func() error {
		_, err := admin.Inspect(ctx, k.process.client, resource)
		return err
	})
	k.process.world.count("inspections", 1)
}

// The errors that each call may return, as its documentation says.
var (
	attemptErrors = []error{
		redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrOverloaded, context.Canceled, context.DeadlineExceeded,
	}
	extendErrors = []error{
		redlock.ErrNotHeld, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrOverloaded,
		context.Canceled, context.DeadlineExceeded,
	}
	releaseErrors = []error{redlock.ErrNotHeld, redlock.ErrNoQuorum, context.Canceled, context.DeadlineExceeded}
	inspectErrors = []error{redlock.ErrNoQuorum, context.Canceled, context.DeadlineExceeded}
	holdEnds      = []error{redlock.ErrLost, redlock.ErrMaxHold, redlock.ErrClosed} // of a hold that is not released
)

func isOneOf(err error, known []error) bool {
	for _, e := range known {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// waitForCtx marks calls that only their context ends.
const waitForCtx = -1

// late is how much longer than its bound a call may take.
const late = 5 * ms

// call makes a call and checks that it returned in time, with a documented
// error. The result for a process that crashed does not matter. atLeast is how
// long the call may take besides the vote timeout.
func (k *worker) call(name string, atLeast time.Duration, ctx context.Context, known []error, f func() error) error {
	w := k.process.world
	start := time.Now()
	err := f()
	if k.process.isDead() {
		if err == nil {
			err = errDead
		}
		return err
	}
	now := time.Now()
	most := max(atLeast, w.draw.voteTimeout())
	if k.process.config.Fenced {
		most *= 2 // in a second round it has a higher number
	}
	switch deadline, ok := ctx.Deadline(); {
	case atLeast != waitForCtx && now.Sub(start) > most+late:
		w.violate("R26", "%s: %s came back after %v: %v", k.process.name, name, now.Sub(start), err)
	case ok && now.Sub(deadline) > late && now.Sub(start) > late:
		w.violate("R12", "%s: %s came back %v after its context had ended: %v", k.process.name, name, now.Sub(deadline), err)
	}
	switch {
	case err == nil:
	case !isOneOf(err, known):
		w.violate("R12", "%s: %s: an error that is not documented: %v", k.process.name, name, err)
	default:
		w.count("refusals", 1)
	}
	return err
}

// errDead replaces a grant to a process that crashed meanwhile.
var errDead = errors.New("the process is dead")

// voteTimeout returns the vote timeout (R6).
func (d *draw) voteTimeout() time.Duration {
	if d.nodeTimeout > 0 {
		return d.nodeTimeout
	}
	return d.longest / 10
}
