package faults

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// A bag is from which kinds are drawn.
type bag struct {
	mu     sync.Mutex // guards the following
	random *rand.Rand
	kinds  []*Kind
	left   []*Kind
	leave  []*Kind // those that leave something behind
	drawn  bool    // the first bag was filled
}

func newBag(kinds []*Kind, scope Scope, seed uint64) *bag {
	b := &bag{random: rand.New(rand.NewPCG(seed, uint64(len(scope))))}
	for _, k := range kinds {
		if k.Scope == scope {
			b.kinds = append(b.kinds, k)
			if k.leaves {
				b.leave = append(b.leave, k)
			}
		}
	}
	return b
}

// drawLast draws for the time right before a rest, whatever is in the bag; nil if no kind leaves anything behind.
func (b *bag) drawLast() *Kind {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.leave) == 0 || !b.drawn {
		return nil
	}
	return b.leave[b.random.IntN(len(b.leave))]
}

// draw takes a kind that is allowed now, or nil.
func (b *bag) draw(allowed func(*Kind) bool) *Kind {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.left) == 0 {
		for _, k := range b.kinds {
			times := k.weight
			if !b.drawn {
				times = 1
			}
			b.left = append(b.left, slices.Repeat([]*Kind{k}, times)...)
		}
		b.random.Shuffle(len(b.left), func(i, j int) { b.left[i], b.left[j] = b.left[j], b.left[i] })
		if !b.drawn { // the rare ones first, and before all the one that may not be made at any time
			slices.SortStableFunc(b.left, func(a, b *Kind) int { return a.urgency() - b.urgency() })
		}
		b.drawn = true
	}
	i := slices.IndexFunc(b.left, allowed)
	if i < 0 {
		return nil
	}
	k := b.left[i]
	b.left = slices.Delete(b.left, i, i+1)
	return k
}

// urgency is the order of the first bag.
func (k *Kind) urgency() int {
	if k.Name == killKind {
		return 0
	}
	return k.weight
}
