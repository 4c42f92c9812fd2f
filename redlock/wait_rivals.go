package redlock

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock/internal/kind"
)

// How clients share a lock that all of them want again and again. A server
// tells those that wait in an order of its own, redis-server the client that
// connected last first, and the one that releases the lock hears of it as early
// as they do. So
//
//   - a client that had to wait for a lock, and releases it while no other
//     caller waits here, leaves it to others for a moment (leaveToRivals);
//   - a client that comes again, and lost a contest, draws a lot when the lock
//     is free next (enter).
//
// A client that waits alone, or whose lock no other wants, does neither.

// rivals are the locks for which callers of this client had to wait, each from
// its grant until some time after its release.
type rivals struct {
	// known is how many there are. It changes under the mutex and is read
	// without it, so that a lock that no other client wants costs nothing.
	known atomic.Int64

	mu    sync.Mutex // guards the following
	of    map[uint64]rivalry
	swept time.Time
}

// keyOf returns what stands for a lock. Two locks with one hash share a
// rivalry, which costs them a pause and no more.
func keyOf(key kind.Key) uint64 { return maphash.Comparable(rivalSeed, key) }

var rivalSeed = maphash.MakeSeed()

// A rivalry is what is known of one lock.
type rivalry struct {
	wary     int       // as contests.wary, for the next queue
	granted  time.Time // by the nodes
	released time.Time // there; zero until then
	ends     time.Time // when it is forgotten
	alone    int       // how often this client gave way and no other came
}

// period is how long this client had the lock, and the others waited.
func (r *rivalry) period() time.Duration { return r.released.Sub(r.granted) }

const (
	// maxRivals bounds the locks that are remembered (R26).
	maxRivals = 1024
	// rivalsFor is how long a lock is remembered after its release.
	rivalsFor = time.Second
	// maxAlone is how often a client gives way in vain before it stops: rivals
	// on a busy machine may be late several times.
	maxAlone = 8
)

// note remembers a lock that was granted to a caller after another client had
// it.
func (rs *rivals) note(w *waiter, wary int) {
	key, now := keyOf(w.key()), time.Now()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.sweepLocked(now)
	if rs.of == nil {
		rs.of = make(map[uint64]rivalry)
	}
	if len(rs.of) < maxRivals {
		rs.of[key] = rivalry{wary: wary, granted: now, ends: now.Add(w.ttl)}
		rs.known.Store(int64(len(rs.of)))
	}
}

// sweepLocked forgets what is over, now and then.
func (rs *rivals) sweepLocked(now time.Time) {
	if now.Sub(rs.swept) < rivalsFor {
		return
	}
	rs.swept = now
	for key, r := range rs.of {
		if now.After(r.ends) {
			delete(rs.of, key)
		}
	}
	rs.known.Store(int64(len(rs.of)))
}

// find returns what is known of a lock.
func (rs *rivals) find(of *request) (r rivalry, ok bool) {
	if rs.known.Load() == 0 {
		return r, false
	}
	now := time.Now()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.sweepLocked(now)
	r, ok = rs.of[keyOf(of.key())]
	return r, ok && !now.After(r.ends)
}

// released records that a lock is about to be released.
func (rs *rivals) released(l *Lock) {
	if rs.known.Load() == 0 {
		return
	}
	key, now := keyOf(l.key()), time.Now()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, ok := rs.of[key]; ok {
		r.released, r.ends = now, now.Add(rivalsFor)
		rs.of[key] = r
	}
}

// regained records that the nodes granted a lock again that no other client
// had meanwhile, and whether this one had given way. If none comes a few times,
// it is alone.
func (rs *rivals) regained(of *request, gave bool) {
	if rs.known.Load() == 0 {
		return
	}
	key := keyOf(of.key())
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, ok := rs.of[key]
	if !ok {
		return
	}
	r.granted = time.Now()
	if gave {
		r.alone++
	}
	if rs.of[key] = r; r.alone >= maxAlone {
		delete(rs.of, key)
		rs.known.Store(int64(len(rs.of)))
	}
}

// leaveToRivals waits before the first attempt of a call, if this client has
// released the lock a moment ago and others wanted it then. It does not wait
// for longer than ctx lasts.
func (c *Client) leaveToRivals(ctx context.Context, r *request) error {
	known, ok := c.rivals.find(r)
	if !ok || known.released.IsZero() {
		return nil
	}
	at := known.released.Add(c.givingWay(known.period()))
	left := time.Until(at)
	if ends, ok := ctx.Deadline(); left <= 0 || ok && ends.Before(at) {
		return nil
	}
	return sleep(ctx, left, c.over(ctx))
}

// contestWindow is pure.ContestWindow for this client. A lower Retry.MaxDelay
// bounds it.
func (c *Client) contestWindow(period time.Duration) time.Duration {
	return min(pure.ContestWindow(period, time.Duration(c.quorumTime.Load())), c.config.Retry.MaxDelay)
}

// givingWay is for how long a client leaves a lock to others that it had for
// the given time: they draw lots within a window that follows from the same.
func (c *Client) givingWay(period time.Duration) time.Duration {
	usual := time.Duration(c.quorumTime.Load())
	return min(c.contestWindow(period)+2*usual, c.config.Retry.MaxDelay)
}

// Contests are what the head of a queue knows of those in which it took part.
// The head owns it, and it passes to the next head with the turn.
type contests struct {
	begun  bool          // the following are set
	again  bool          // this client had just had the lock, after a wait
	wary   int           // see pure.DrawsLot
	period time.Duration // from one to the next; 0 if it is not known
	lost   int           // since this client had the lock
	told   time.Time     // when the lock was last known to be free; or zero
	ends   time.Time     // when the keys end that stood after that; or zero
	on     bool          // the next attempt is one
}

// compete prepares the head for contests.
func (w *waiter) compete() *contests {
	c := w.client
	k := &w.seat.contests
	if !k.begun {
		known, again := c.rivals.find(&w.request)
		*k = contests{begun: true, again: again, wary: known.wary, told: known.released}
	}
	return k
}

// enter waits for the head's lot, after the nodes have said that the lock is
// free.
func (w *waiter) enter(ctx context.Context) error {
	c := w.client
	k := &w.seat.contests
	if !w.kind.Traits().Contested {
		return nil
	}
	k.hear(time.Now())
	if !pure.DrawsLot(k.again, k.wary, k.lost, rand.Float64()) {
		return nil
	}
	_, err := w.doze(ctx, w.bound(pure.ContestDelay(k.lost, c.contestWindow(k.period), rand.Float64())), nil)
	return err
}

// hear records that the nodes say that the lock is free. They say the same when
// it was only extended, and a caller that waits alone must not take that for a
// contest. So it is one only if it comes too soon for a renewal.
func (k *contests) hear(now time.Time) {
	k.on = pure.IsContest(now.Sub(k.told), k.ends.Sub(k.told)) && !k.told.IsZero()
	if k.on {
		k.period = now.Sub(k.told)
	}
	k.told, k.ends = now, time.Time{}
}

// lose records that an attempt was refused with an error.
func (k *contests) lose(err error) {
	if k.on && isHeld(err) {
		k.lost++
		k.wary = pure.ContestsWary
	}
	k.on = false
}

// win records that the lock was granted.
func (k *contests) win() {
	if k.on {
		k.wary = max(0, k.wary-1)
	}
	k.on, k.lost, k.told, k.ends = false, 0, time.Time{}, time.Time{}
}

// recall remembers a lock that is granted to the head of a queue, if another
// client had it before, and otherwise that none came.
func (w *waiter) recall() {
	c := w.client
	elsewhere, gave := c.queues.had(w.queue)
	switch {
	case !w.kind.Traits().Contested:
	case elsewhere:
		w.seat.contests.win()
		c.rivals.note(w, w.seat.contests.wary)
	default:
		c.rivals.regained(&w.request, gave)
	}
}
