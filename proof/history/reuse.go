package history

import "math"

// reuse finds tokens that were granted twice (R3). A history has only 32 bits
// of each token's hash, so two tokens look alike by chance in any long run: 16
// times in a million grants, with the number of tokens kept here. So
// repetitions are counted, and reported only if chance would produce so many in
// less than one of ten thousand histories.
type reuse struct {
	grants   map[string]Event // the latest grants, by token
	ring     []string
	next     int
	expected float64 // repetitions by chance so far
	repeated int
}

const (
	rememberedTokens = 1 << 16
	digests          = 1 << (8 * digestBytes)
	chance           = 1e-4
)

// add adds a grant. It reports whether its token was granted before, and
// returns that grant.
func (r *reuse) add(e Event) (first Event, reused bool) {
	if e.Token == "" {
		return Event{}, false
	}
	if r.grants == nil {
		r.grants = make(map[string]Event)
	}
	first, seen := r.grants[e.Token]
	r.expected += float64(len(r.grants)) / digests
	if seen && first.Source == e.Source && first.Client == e.Client && first.Attempt == e.Attempt && first.Resource != e.Resource {
		return Event{}, false // another resource of the same lock
	}
	if seen {
		r.repeated++
		return first, tail(r.expected, r.repeated) < chance
	}
	if len(r.ring) < rememberedTokens {
		r.ring = append(r.ring, e.Token)
	} else {
		delete(r.grants, r.ring[r.next])
		r.ring[r.next] = e.Token
		r.next = (r.next + 1) % rememberedTokens
	}
	r.grants[e.Token] = e
	return Event{}, false
}

// tail returns the probability of at least n events if mean are expected
// (Poisson).
func tail(mean float64, n int) float64 {
	// Sum the terms from n on; 1 minus the terms before n would lose precision.
	logTerm := float64(n)*math.Log(mean) - mean
	for i := 2; i <= n; i++ {
		logTerm -= math.Log(float64(i))
	}
	if float64(n) <= mean {
		return 1 // too likely to matter
	}
	term, sum := math.Exp(logTerm), 0.0
	for i := n; term > sum*1e-12 && i < n+1000; i++ {
		sum += term
		term *= mean / float64(i+1)
	}
	return sum
}
