package redlock

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
)

// Stats counts the outcomes of calls to a client since it was made. The numbers
// are not read at one instant. Stats has a JSON form, and holds nothing secret.
type Stats struct {
	// Attempts counts the attempts of TryAcquire and Acquire, Extensions the
	// calls to Extend and the renewals of holds, and Releases the calls to
	// Release, of locks and of holds.
	Attempts   CallCounts `json:"attempts"`
	Extensions CallCounts `json:"extensions"`
	Releases   CallCounts `json:"releases"`
	// HandedOver is how many of the granted attempts asked no node, since a
	// caller of this client handed its lock over (Config.HandOver).
	HandedOver uint64 `json:"handed_over"`
	// Renumbered is how many attempts asked the nodes a second time, since
	// their first fencing number was too low (Config.Fenced).
	Renumbered uint64 `json:"renumbered"`
	// Holds is how many holds are not released at this moment, and HoldsBegun
	// how many there were in all. Lost is how many of those were lost. In
	// LostNotHeld of these losses a quorum did not hold the lock for us any more
	// (LostError.NotHeld); in the others, the validity ended.
	Holds       int    `json:"holds"`
	HoldsBegun  uint64 `json:"holds_begun"`
	Lost        uint64 `json:"lost"`
	LostNotHeld uint64 `json:"lost_not_held"`
	// ElectionsLed is how many terms this client's candidates have led, and
	// ElectionsLost how many of these ended by a loss, which Lost has too.
	ElectionsLed  uint64 `json:"elections_led"`
	ElectionsLost uint64 `json:"elections_lost"`
	// Waits has the times of all calls to Acquire, Hold and Do until they had
	// the lock or gave up.
	Waits Histogram `json:"waits"`
	// QuorumTime is the smoothed time of an attempt to its quorum of grants, and
	// Quorum has the times of all attempts.
	QuorumTime time.Duration `json:"-"`
	Quorum     Histogram     `json:"quorum"`
	// ReleaseForm is the command that releases locks: "DELEX" or "DELIFEQ" while
	// every node that is up supports it, otherwise "script" (R25).
	ReleaseForm string `json:"release_form"`
	// Polling: callers read their own replies where they can.
	Polling bool `json:"polling"`
}

// MarshalJSON returns the numbers with the names of docs/cli.md.
func (s Stats) MarshalJSON() ([]byte, error) {
	type plain Stats
	return json.Marshal(struct {
		QuorumTime float64 `json:"quorum_time_us"`
		plain
	}{float64(s.QuorumTime) / float64(time.Microsecond), plain(s)})
}

// Stats returns the current numbers. It asks no node, and waits only for a
// mutex.
func (c *Client) Stats() Stats {
	c.made()
	polling, _ := c.group.Polls()
	holds, begun := c.keeper.holds()
	notHeld := c.stats.lostNotHeld.Load()
	return Stats{
		Attempts:    c.stats.attempts.snapshot(),
		Extensions:  c.stats.extensions.snapshot(),
		Releases:    c.stats.releases.snapshot(),
		HandedOver:  c.stats.handedOver.Load(),
		Renumbered:  c.stats.renumbered.Load(),
		Holds:       holds,
		HoldsBegun:  begun,
		Lost:        notHeld + c.stats.lostExpired.Load(),
		LostNotHeld: notHeld,

		ElectionsLed:  c.stats.electionsLed.Load(),
		ElectionsLost: c.stats.electionsLost.Load(),

		Waits:       c.stats.waits.snapshot(),
		QuorumTime:  time.Duration(c.quorumTime.Load()),
		Quorum:      c.stats.quorum.snapshot(),
		ReleaseForm: cmp.Or(c.group.NativeForm(kind.PlainRelease()), "script"),
		Polling:     polling,
	}
}

// stats are the counters of Stats. Each call adds to one number, and a granted
// attempt to two more.
type stats struct {
	attempts, extensions, releases callCounts
	handedOver, renumbered         atomic.Uint64
	lostNotHeld, lostExpired       atomic.Uint64
	electionsLed, electionsLost    atomic.Uint64
	quorum, waits                  histogram
}

// A Histogram counts times by magnitude. Bucket 0 has those below 1,024 ns, and
// each further bucket reaches twice as far as the one before, so that a
// quantile is known within a factor of two. The last bucket has all times from
// 68.7 s on.
type Histogram struct {
	// Counts has the number of times in each bucket.
	Counts [28]uint64 `json:"counts"`
	// Sum is the sum of all times; divided by Total, it is their mean.
	Sum time.Duration `json:"sum_ns"`
}

// firstBits is the power of two, in nanoseconds, at which the first bucket
// ends; lastBucket is open.
const (
	firstBits  = 10
	lastBucket = len(Histogram{}.Counts) - 1
)

// Bound returns where a bucket ends. A time equal to the bound is in the next
// bucket. The bound of the last bucket is the longest time.Duration.
func (Histogram) Bound(bucket int) time.Duration {
	if bucket >= lastBucket {
		return math.MaxInt64
	}
	return 1 << (firstBits + bucket)
}

// Total returns how many times there are.
func (h Histogram) Total() uint64 {
	var total uint64
	for _, n := range h.Counts {
		total += n
	}
	return total
}

// Quantile estimates the time that a fraction q of all times, from 0 to 1, does
// not exceed. It assumes that the times of a bucket are evenly spread. For the
// last bucket, which has no end, it returns the start. It returns zero if there
// are no times, or if q is NaN.
func (h Histogram) Quantile(q float64) time.Duration {
	total := h.Total()
	if total == 0 || math.IsNaN(q) {
		return 0
	}
	// The rank of the time, from 1 to total.
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(total)))
	rank = min(max(rank, 1), total)
	var before uint64
	for bucket, n := range h.Counts {
		if before+n < rank {
			before += n
			continue
		}
		var from time.Duration
		if bucket > 0 {
			from = h.Bound(bucket - 1)
		}
		if bucket == lastBucket {
			return from
		}
		return from + time.Duration(float64(h.Bound(bucket)-from)*float64(rank-before)/float64(n))
	}
	return 0 // not reached: the counts add up to the total
}

// A histogram is a Histogram that times are added to.
type histogram struct {
	counts [lastBucket + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) record(d time.Duration) {
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
}

// bucketOf returns the bucket of a time. Times below zero are in the first.
func bucketOf(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 0))>>firstBits), lastBucket)
}

func (h *histogram) snapshot() Histogram {
	all := Histogram{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		all.Counts[i] = h.counts[i].Load()
	}
	return all
}

// A Tracer receives what a client does. Each of its functions may be nil.
//
// AttemptDone, AcquireDone, ExtendDone and ReleaseDone are called by the
// caller's own goroutine right before the call returns, with its context and
// the resource, but never a token (R27). The time they take shortens the lock's
// validity. The other functions are called by a goroutine of the client, one at
// a time; if they are too slow, the oldest events are dropped. They must not
// close the client.
type Tracer struct {
	// AttemptDone receives each single attempt, including those of Acquire.
	AttemptDone func(context.Context, CallInfo)
	// AcquireDone receives each call to Acquire as a whole, including waits.
	AcquireDone func(context.Context, CallInfo)
	// ExtendDone receives each call to Extend, but not renewals; Stats counts
	// those.
	ExtendDone func(context.Context, CallInfo)
	// ReleaseDone receives each call to Release, of locks and of holds.
	ReleaseDone func(context.Context, CallInfo)
	// NodeChanged receives each NodeChange: a node comes up or is no longer up,
	// or the cause for that changes.
	NodeChanged func(NodeChange)
	// RenewalFailed receives a hold at the first renewal that fails, while its
	// validity has not ended: until HoldInfo.Until, renewals are tried again.
	// What fails for one hold fails for all, so it is called once for a spell of
	// failures. A renewal of any hold that succeeds ends that, and so does a
	// minute without a failure.
	RenewalFailed func(HoldInfo)
	// HoldLost receives each hold that is lost before it is released.
	HoldLost func(HoldInfo)
}

// CallInfo describes one attempt or one call.
type CallInfo struct {
	Resource string        // without the prefix
	TTL      time.Duration // as requested; zero of a release
	// Tries is how many attempts a call to Acquire made, and of an attempt, its
	// number within Acquire, from 1.
	Tries int
	// HandedOver reports of an attempt that another caller of this client handed
	// its lock over, and no node was asked (Config.HandOver).
	HandedOver bool
	Start      time.Time     // when it began
	Elapsed    time.Duration // until it returned
	Validity   time.Duration // of the lock; zero if there is none
	Err        error         // as returned, but without the resource
}

// HoldInfo describes a hold: one that was lost or not renewed, or, from
// Client.Held, one that is not released yet.
type HoldInfo struct {
	Resource string    // without the prefix
	Since    time.Time // when the granted attempt began, or the hand-over
	Until    time.Time // when the validity ends, or when the hold was lost
	Err      error     // why it ended (*LostError) or was not renewed, or nil
	Dropped  uint64    // how many earlier events were dropped
}

// trace adds the time that a call took, and passes it to a tracer's function.
func trace(ctx context.Context, done func(context.Context, CallInfo), info CallInfo) {
	info.Elapsed = time.Since(info.Start)
	done(ctx, info)
}

// releaseDone counts and traces a release.
func (l *Lock) releaseDone(ctx context.Context, start time.Time, err error) {
	l.client.stats.releases.count(err)
	if done := l.client.tracer.ReleaseDone; done != nil {
		trace(ctx, done, CallInfo{Resource: l.grant.Name, Start: start, Err: err})
	}
}

// startIf reads the clock only if the call is traced.
func startIf(traced bool) time.Time {
	if !traced {
		return time.Time{}
	}
	return time.Now()
}
