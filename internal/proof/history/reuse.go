package history

import "math"

// reuse finds tokens that were granted twice (R3). A history has only 32 bits of each token's hash, so that two tokens look
// alike by chance in any long run: 16 times in a million grants, with what is remembered here. So a repetition is counted,
// and is a finding only when chance makes so many of them seen less often than once in ten thousand histories.
type reuse struct {
	grants   map[string]Event // by token, of the latest grants
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

// add takes a grant. It reports whether its token was granted before, and which grant that was.
func (r *reuse) add(e Event) (first Event, reused bool) {
	if e.Token == "" {
		return Event{}, false
	}
	if r.grants == nil {
		r.grants = make(map[string]Event)
	}
	first, seen := r.grants[e.Token]
	r.expected += float64(len(r.grants)) / digests
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

// tail is the probability that at least n events happen where mean are expected (Poisson).
func tail(mean float64, n int) float64 {
	// The sum of the terms from n on: the terms before it would leave 1 − (nearly 1).
	logTerm := float64(n)*math.Log(mean) - mean
	for i := 2; i <= n; i++ {
		logTerm -= math.Log(float64(i))
	}
	if float64(n) <= mean {
		return 1 // not worth a thought
	}
	term, sum := math.Exp(logTerm), 0.0
	for i := n; term > sum*1e-12 && i < n+1000; i++ {
		sum += term
		term *= mean / float64(i+1)
	}
	return sum
}
