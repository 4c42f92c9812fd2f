package bench

import "sync/atomic"

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
