package probe

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Sample is one reading of a node's clock, by TIME.
type Sample struct {
	// Sent and Received are times of our monotonic clock, since the Probe was
	// made.
	Sent, Received time.Duration
	// Ahead is how far the node's time of day was ahead of ours halfway between
	// the two. It is wrong by at most half of the round trip, since the node
	// read its clock somewhere in between.
	Ahead time.Duration
	// Elapsed is how far the node's clock has advanced since the Probe's first
	// sample, with the same error for each of the two. If our own time of day
	// steps, Ahead changes and Elapsed does not.
	Elapsed time.Duration
}

// RoundTrip is how long the answer took.
func (s Sample) RoundTrip() time.Duration { return s.Received - s.Sent }

// Error bounds the error of Ahead and Elapsed, in both directions. TIME omits
// up to a microsecond.
func (s Sample) Error() time.Duration { return s.RoundTrip()/2 + time.Microsecond }

// middle is when the node read its clock, by our clock, plus or minus Error.
func (s Sample) middle() time.Duration { return s.Sent + s.RoundTrip()/2 }

// A Clock is what samples show of a node's clock.
type Clock struct {
	// Ahead is its offset from ours, by the most exact sample, and AheadError
	// the error of that.
	Ahead, AheadError time.Duration
	// Span is how long the rate was watched. If zero, it was not, and the
	// following fields mean nothing.
	Span time.Duration
	// Gained is how much further than our monotonic clock it advanced in that
	// time, negative if less, and GainedError the error of that. Gained/Span is
	// the difference of the rates, unless the clock stepped.
	Gained, GainedError time.Duration
	// Stepped reports whether it gained that in one part of the time and not in
	// another: the clock was set, and does not run at another rate.
	Stepped bool
	// RoundTrip is the median of the round trips.
	RoundTrip time.Duration
}

// Rate returns the relative difference of the clock's rate from ours, 0.01
// being one percent fast, and the error of that. What was gained too much is
// missing in the span, and a clock that runs fast gains that much faster.
func (c Clock) Rate() (rate, wrong float64) {
	if c.Span <= 0 {
		return 0, 0
	}
	rate = float64(c.Gained) / float64(c.Span)
	shortest := max(c.Span-c.GainedError, 1)
	return rate, float64(c.GainedError) * (1 + math.Abs(rate)) / float64(shortest)
}

// Estimate evaluates bursts of samples, the earliest burst first. The samples
// of a burst were taken right after one another, and only the quickest counts,
// since it is the most exact. Two bursts show a rate, and three whether it was
// a step. ok is false if there is no sample.
func Estimate(bursts [][]Sample) (c Clock, ok bool) {
	var best []Sample
	var trips []time.Duration
	for _, burst := range bursts {
		for _, s := range burst {
			trips = append(trips, s.RoundTrip())
		}
		if len(burst) > 0 {
			best = append(best, slices.MinFunc(burst, func(a, b Sample) int { return cmp.Compare(a.RoundTrip(), b.RoundTrip()) }))
		}
	}
	if len(best) == 0 {
		return Clock{}, false
	}
	slices.Sort(trips)
	newest := best[len(best)-1]
	c = Clock{RoundTrip: trips[len(trips)/2], Ahead: newest.Ahead, AheadError: newest.Error()}
	if len(best) > 1 {
		c.Span = newest.middle() - best[0].middle()
		c.Gained, c.GainedError = gained(best[0], newest)
		c.Stepped = stepped(best)
	}
	return c, true
}

// gained returns how much further than ours the node's clock advanced between
// two samples.
func gained(a, b Sample) (gain, wrong time.Duration) {
	return (b.Elapsed - a.Elapsed) - (b.middle() - a.middle()), a.Error() + b.Error()
}

// stepped reports whether no single rate explains all samples, whatever their
// errors: two consecutive intervals bound the rate from both sides, and the
// bounds of one exclude those of the other.
func stepped(best []Sample) bool {
	for i := 2; i < len(best); i++ {
		first, ok1 := rateBetween(best[i-2], best[i-1])
		second, ok2 := rateBetween(best[i-1], best[i])
		if ok1 && ok2 && (first.highest < second.lowest || second.highest < first.lowest) {
			return true
		}
	}
	return false
}

// rates bounds how fast a clock ran: 1 is as fast as ours.
type rates struct{ lowest, highest float64 }

// rateBetween bounds the rate of the node's clock from one sample to the next.
// What the node's clock showed is exact up to a microsecond; when it showed
// that, by our clock, may be wrong by both errors. ok is false if the error is
// as long as the interval.
func rateBetween(a, b Sample) (r rates, ok bool) {
	shortest := b.middle() - a.middle() - a.Error() - b.Error()
	longest := b.middle() - a.middle() + a.Error() + b.Error()
	if shortest <= 0 {
		return rates{}, false
	}
	elapsed := b.Elapsed - a.Elapsed
	over := func(elapsed, span time.Duration) float64 { return float64(elapsed) / float64(span) }
	return rates{
		lowest:  min(over(elapsed-time.Microsecond, shortest), over(elapsed-time.Microsecond, longest)),
		highest: max(over(elapsed+time.Microsecond, shortest), over(elapsed+time.Microsecond, longest)),
	}, true
}
