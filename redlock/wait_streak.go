package redlock

import (
	"context"
	"math/rand/v2"
	"time"
)

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
