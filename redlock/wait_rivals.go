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

// How clients share a lock, if all of them want it again and again. A server
// tells waiting clients in an order of its own: redis-server begins with the
// last to connect. The client that releases the lock hears of it as early as
// they do. So
//
//   - a client leaves a lock to others for a moment, if it had to wait for the
//     lock and releases it with no other caller waiting here (leaveToRivals);
//   - a client that comes again after a lost contest draws a lot for the next
//     free lock (enter).
//
// A client without rivals does neither.

// rivals are the locks after a wait by callers of this client, each from its
// grant to some time after its release.
type rivals struct {
	// known is how many there are. It changes under the mutex and is read
	// without it: a lock without rivals costs nothing.
	known atomic.Int64

	mu    sync.Mutex // guards the following
	of    map[uint64]rivalry
	swept time.Time
}

// keyOf returns a number for a lock. Two locks with one hash share a rivalry,
// at the cost of a pause.
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
	// maxRivals bounds the remembered locks (R26).
	maxRivals = 1024
	// rivalsFor is how long a lock is remembered after its release.
	rivalsFor = time.Second
	// maxAlone is how often a client gives way in vain before it stops: rivals
	// on a busy machine may be late several times.
	maxAlone = 8
)

// note remembers a caller's lock after another client has had it.
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

// released records the coming release of a lock.
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

// regained records another grant by the nodes, with no other client's lock in
// between. gave means that this client had given way. After a few times without
// a rival, it is alone.
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
// just released the lock and others wanted it. It does not wait beyond the
// deadline of ctx.
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

// givingWay returns how long a client leaves a lock to others after it had the
// lock for the given time. Their window for lots follows from the same time.
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

// enter waits for the head's lot, after the nodes have reported a free lock.
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

// hear records the nodes' report of a free lock. They say the same of an
// extension, and a caller without rivals must not take this for a contest. So
// it is one only if it comes too soon for a renewal.
func (k *contests) hear(now time.Time) {
	k.on = pure.IsContest(now.Sub(k.told), k.ends.Sub(k.told)) && !k.told.IsZero()
	if k.on {
		k.period = now.Sub(k.told)
	}
	k.told, k.ends = now, time.Time{}
}

// lose records the error of a refused attempt.
func (k *contests) lose(err error) {
	if k.on && isHeld(err) {
		k.lost++
		k.wary = pure.ContestsWary
	}
	k.on = false
}

// win records the grant of the lock.
func (k *contests) win() {
	if k.on {
		k.wary = max(0, k.wary-1)
	}
	k.on, k.lost, k.told, k.ends = false, 0, time.Time{}, time.Time{}
}

// recall remembers a lock of the head of a queue if another client had it
// before. Otherwise it records a lock regained.
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

// How long the callers of this client keep a lock among themselves, by handing
// it over or by way of the nodes, and how they leave it to other clients then.
// The nodes do not tell of other waiting clients, since those ask for news of
// changes on their own connections only.

// A streak is the time in which a lock goes from one caller of this client to
// the next. Other clients hear of a release too late: the next SET of this
// client is already on its way. With callers waiting here, they would never get
// the lock. The streak travels with the lock, since a queue without callers is
// gone.
type streak struct {
	ends time.Time // when the lock goes to other clients, as a rule
	long time.Duration
}

const (
	// streakLong is how long a streak lasts without Config.HandOver: long
	// compared with the pause for other clients, and short enough for callers
	// there.
	streakLong = 50 * time.Millisecond
	// streakLeast is how long it lasts at least, in times to a quorum: the pause
	// takes two to four of them.
	streakLeast = 4
)

// over reports whether a streak ends with a holder since begun. It does if now
// is closer to the streak's end than the end of one more holder of the same
// length.
func (s streak) over(begun, now time.Time) bool {
	return !now.Add(now.Sub(begun) / 2).Before(s.ends)
}

// over reports whether other clients are to get the lock after its release.
func (t *tenure) over(now time.Time) bool { return t.streak.over(t.begun, now) }

// streakAfter returns the streak of a lock granted by the nodes, for an attempt
// since start, from what was before.
//
// After another client has had the lock, this one keeps it for as long as it
// was without: so of two clients each has about half of the time, however many
// callers wait in each. A rival may come and go during this client's pause
// without any refusal. Without a rival, the next streak is at most twice as
// long as the last: a rival that thinks between two locks is still there.
func (c *Client) streakAfter(before yielding, start time.Time) streak {
	if s := before.streak; !s.ends.IsZero() {
		return s
	}
	long := c.config.HandOver
	if long < 0 {
		long = streakLong
	}
	long = max(long, streakLeast*time.Duration(c.quorumTime.Load()))
	switch {
	case before.taken, before.rival:
		long = min(long, start.Sub(before.gave))
	case !before.gave.IsZero():
		long = min(long, 2*before.last)
	}
	return streak{start.Add(long), long}
}

// A yielding is what a queue knows of streaks before the next grant. The mutex
// of the queues guards it.
type yielding struct {
	streak streak        // that the next grant continues; zero if that begins one
	over   bool          // one is: the head is to give way before its attempt
	last   time.Duration // how long that was
	gave   time.Time     // when the head gave way; zero if it did not
	rival  bool          // another client had the lock shortly before that
	taken  bool          // another client was granted the lock after that
}

// left records a release by this client.
func (y *yielding) left(t *tenure, now time.Time) {
	switch {
	case t == nil: // it belonged to no streak
	case t.over(now):
		y.over, y.last = true, t.streak.long
	default:
		y.streak = t.streak
	}
}

// failed records the error of an attempt.
func (y *yielding) failed(err error) {
	y.streak = streak{}
	y.taken = isHeld(err) && !y.gave.IsZero()
}

// giveWay waits before the attempt of the head, if a streak ended here with the
// last release: other clients get the time for an attempt.
func (w *waiter) giveWay(ctx context.Context) error {
	c := w.client
	if !c.queues.yields(w) {
		return nil
	}
	pause := w.pause(rand.Float64())
	if known, ok := c.rivals.find(&w.request); ok {
		pause = max(pause, c.givingWay(known.period()))
		c.queues.gaveToRival(w.queue)
	}
	return sleep(ctx, pause, c.over(ctx))
}
