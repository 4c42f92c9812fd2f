package faults

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// A deck is the kinds of one scope, shuffled, each as often as it weighs. The
// first deck has each kind once, so that a short run has all of them.
type deck struct {
	mu     sync.Mutex // guards the following
	random *rand.Rand
	kinds  []*Kind
	left   []*Kind
	leave  []*Kind // those that leave something behind
	dealt  bool    // the first deck was dealt
}

func newDeck(kinds []*Kind, scope Scope, seed uint64) *deck {
	d := &deck{random: rand.New(rand.NewPCG(seed, uint64(len(scope))))}
	for _, k := range kinds {
		if k.Scope == scope {
			d.kinds = append(d.kinds, k)
			if k.leaves {
				d.leave = append(d.leave, k)
			}
		}
	}
	return d
}

// drawLast draws for the time right before a rest, whatever is left in the
// deck. It returns nil if no kind leaves anything behind.
func (d *deck) drawLast() *Kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leave) == 0 || !d.dealt {
		return nil
	}
	return d.leave[d.random.IntN(len(d.leave))]
}

// draw takes a kind that is allowed now, or returns nil.
func (d *deck) draw(allowed func(*Kind) bool) *Kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 {
		d.dealLocked()
	}
	i := slices.IndexFunc(d.left, allowed)
	if i < 0 {
		return nil
	}
	k := d.left[i]
	d.left = slices.Delete(d.left, i, i+1)
	return k
}

func (d *deck) dealLocked() {
	for _, k := range d.kinds {
		times := k.weight
		if !d.dealt {
			times = 1
		}
		d.left = append(d.left, slices.Repeat([]*Kind{k}, times)...)
	}
	d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	if !d.dealt { // the rare ones first, and before all the one that may not be made at any time
		slices.SortStableFunc(d.left, func(a, b *Kind) int { return a.urgency() - b.urgency() })
	}
	d.dealt = true
}

// urgency is the order of the first deck.
func (k *Kind) urgency() int {
	if k.Name == killKind {
		return 0
	}
	return k.weight
}
