package bench

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/redlock"
)

// tally counts the votes of one command in one word: granted in the low 16
// bits, then refused, then failed. Each vote learns the counts from its own
// addition, so exactly one of them finds that it settled the outcome.
type tally struct{ word atomic.Uint64 }

type vote uint64

const (
	granted vote = 1
	refused vote = 1 << 16
	failed  vote = 1 << 32
)

// counts is a tally at one moment.
type counts struct{ granted, refused, failed int }

func split(word uint64) counts {
	return counts{int(word & 0xffff), int(word >> 16 & 0xffff), int(word >> 32 & 0xffff)}
}

// add counts v and reports whether this vote must wake the waiter: the vote
// that decides, or, with all, the last of the n.
func (t *tally) add(v vote, n, quorum int, all bool) bool {
	c := split(t.word.Add(uint64(v)))
	against := c.refused + c.failed
	switch {
	case all:
		return c.granted+against == n
	case v == granted:
		return c.granted == quorum
	default:
		return against == n-quorum+1
	}
}

func (t *tally) counts() counts { return split(t.word.Load()) }

func (t *tally) reset() { t.word.Store(0) }

// Tokens hands out random tokens cut from a block: one read of the
// cryptographic source and one allocation for about two hundred tokens (R3). A
// token is a substring of an immutable string, because rueidis may still hold a
// command after its call failed, when pooled memory would already have another
// owner. For that reason redlock's own source, which overwrites what it
// returned, cannot be used here.
type Tokens struct {
	mu   sync.Mutex // guards the following
	rest string
}

const (
	tokenSize  = len(redlock.Token{})
	tokenBlock = 204 * tokenSize
)

// Next returns a token. It is safe for concurrent use.
func (t *Tokens) Next() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rest == "" {
		block := make([]byte, tokenBlock)
		rand.Read(block) // never fails: it ends the program where it cannot be served
		t.rest = string(block)
	}
	token := t.rest[:tokenSize]
	t.rest = t.rest[tokenSize:]
	return token
}

// The arithmetic of R4 is repeated here on purpose. redlock does not export its
// own, and a baseline that shared it would share its mistakes: no test would
// notice that both hold a lock for too long. The tests of both packages compute
// the example of the rules, 9.889 s.

// driftFloor is the absolute part of the drift.
const driftFloor = 2 * time.Millisecond

// defaultDrift is the usual relative part.
const defaultDrift = 0.01

// Validity returns what remains of a TTL at a time after start, at which nothing
// had been sent yet, with the usual drift factor. It is for peers that are not a
// [Rueidis].
func Validity(ttl time.Duration, start, now time.Time) time.Duration {
	return validity(ttl, elapsed(start, now), defaultDrift)
}

// validity returns what remains of a TTL.
func validity(ttl, elapsed time.Duration, driftFactor float64) time.Duration {
	return ttl - elapsed - time.Duration(float64(ttl)*driftFactor) - driftFloor
}

// elapsed returns the larger of the monotonic and the wall-clock difference, so
// that a suspend can only cost a lock.
func elapsed(start, now time.Time) time.Duration {
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}
