package probe

import (
	"cmp"
	"slices"
	"time"
)

// A Sample is one look at a node's clock, by TIME.
type Sample struct {
	// Sent and Received are when, by our monotonic clock, since the Probe was made.
	Sent, Received time.Duration
	// Ahead is how far the node's time of day was ahead of ours halfway between the two. It may be wrong by half of the
	// round trip, and no more: the node read its clock somewhere in between.
	Ahead time.Duration
	// Elapsed is what the node's clock had gone on since the Probe's first sample, with the same error for each of the two.
	// Where our own time of day steps, Ahead shows it and Elapsed does not.
	Elapsed time.Duration
}

// RoundTrip is how long the answer took.
func (s Sample) RoundTrip() time.Duration { return s.Received - s.Sent }

// Error bounds how far Ahead and Elapsed may be wrong, to either side. A microsecond is what TIME leaves out.
func (s Sample) Error() time.Duration { return s.RoundTrip()/2 + time.Microsecond }

// middle is when the node read its clock, give or take Error.
func (s Sample) middle() time.Duration { return s.Sent + s.RoundTrip()/2 }

// A Clock is what some samples tell of a node's clock.
type Clock struct {
	// Ahead is its offset to ours, as of the sample that knows it best, and AheadError how wrong that may be.
	Ahead, AheadError time.Duration
	// Span is how long the rate was watched; 0 if it was not, and then the following say nothing.
	Span time.Duration
	// Gained is what it went on more than our monotonic clock in that time, negative if less, and GainedError how wrong that
	// may be. Gained/Span is by how much its rate differs from ours, unless it stepped.
	Gained, GainedError time.Duration
	// Stepped says that it gained that in one part of the time and not in another: a clock that was set, and not one that
	// runs at another rate.
	Stepped bool
	// RoundTrip is the median of the samples'.
	RoundTrip time.Duration
}

// Rate is the relative difference of the clock's rate to ours, 0.01 being one percent fast, and how wrong it may be.
func (c Clock) Rate() (rate, wrong float64) {
	if c.Span <= 0 {
		return 0, 0
	}
	return float64(c.Gained) / float64(c.Span), float64(c.GainedError) / float64(c.Span)
}

// Estimate tells what bursts of samples show, each burst being samples taken right after one another, the earliest first. Of
// a burst only the quickest answer counts, since it is the most exact one. Two bursts show a rate, and three whether it was a
// step. ok is false where there is no sample.
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

// gained is by how much more than ours the node's clock went on between two samples.
func gained(a, b Sample) (gain, wrong time.Duration) {
	return (b.Elapsed - a.Elapsed) - (b.middle() - a.middle()), a.Error() + b.Error()
}

// stepped reports that no one rate explains all the samples, whatever their
// errors: two intervals that follow one another bound the rate from both sides,
// and the bounds of one exclude those of the other.
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
// What the node's clock showed is exact but for the microseconds that TIME
// leaves out; when it showed it, by ours, may be wrong by both errors. ok is
// false where the error is as long as the interval.
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
