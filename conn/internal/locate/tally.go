package locate

import "slices"

// mostNamed bounds the addresses of one search.
const mostNamed = 32

// A Tally counts which addresses the seeds name.
type Tally struct {
	// Seeds is how many were asked.
	Seeds int
	// Hurry is set once the answers that are missing are not waited for.
	Hurry bool

	heard int // seeds that answered, or failed to
	named []named
}

// A named is an address, with the number of seeds that named it.
type named struct {
	addr  string
	votes int
	tried bool
}

// Heard counts the answer of a seed. A seed without an answer names "".
func (t *Tally) Heard(addr string) {
	t.heard++
	if addr != "" {
		t.Add(addr)
	}
}

// Add counts a vote for an address, besides those of the seeds.
func (t *Tally) Add(addr string) {
	for i := range t.named {
		if t.named[i].addr == addr {
			t.named[i].votes++
			return
		}
	}
	if len(t.named) < mostNamed {
		t.named = append(t.named, named{addr: addr, votes: 1})
	}
}

// Decided reports whether the answers to come cannot change which address has
// the most votes: all were heard, or more than half of the seeds agree.
func (t *Tally) Decided() bool {
	agreed := func(n named) bool { return n.votes > t.Seeds/2 }
	return t.heard >= t.Seeds || slices.ContainsFunc(t.named, agreed)
}

// Next returns the address to try next: of those that were not tried, the one
// with the most votes, and of several the first that was named. While answers
// may still come, it must have the votes of more than half of the seeds.
func (t *Tally) Next() (addr string, ok bool) {
	best := -1
	for i := range t.named {
		if !t.named[i].tried && (best < 0 || t.named[i].votes > t.named[best].votes) {
			best = i
		}
	}
	if best < 0 || !t.Hurry && t.heard < t.Seeds && t.named[best].votes <= t.Seeds/2 {
		return "", false
	}
	t.named[best].tried = true
	return t.named[best].addr, true
}

// Exhausted reports whether no answer is to come, and every address was tried.
func (t *Tally) Exhausted() bool {
	return t.heard >= t.Seeds && !slices.ContainsFunc(t.named, func(n named) bool { return !n.tried })
}

// Outvoted reports whether another address has more votes.
func (t *Tally) Outvoted(addr string) bool {
	votes, most := 0, 0
	for _, n := range t.named {
		if n.addr == addr {
			votes = n.votes
		}
		most = max(most, n.votes)
	}
	return most > votes
}
