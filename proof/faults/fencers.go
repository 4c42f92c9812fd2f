package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/redlock"
)

// The load with fenced locks and with locks on several resources. They compete
// with each other, and some of them with plain locks and those of clients
// without numbers.

// setKeys is the number of keys of which locks on several resources have some,
// up to mostTogether.
const (
	setKeys      = 8
	mostTogether = 3
)

func (w *worker) loadFenced(caller int) {
	number := firstFencer + caller
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Name)<<32|uint64(number)))
	for w.parking.pass() {
		client, resources := w.fenced, someKeys(random)
		switch random.IntN(4) {
		case 0:
			client = w.push
		case 1: // one that plain locks want
			resources = []string{fmt.Sprint("c:", random.IntN(contendedKeys))}
		}
		w.fence(random, client, number, resources)
		w.parking.sleep(randomTime(random, 10*time.Millisecond))
	}
}

// fence makes one attempt of one of the three ways.
func (w *worker) fence(random *rand.Rand, client *redlock.Client, caller int, resources []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond+randomTime(random, 500*time.Millisecond))
	defer cancel()
	switch random.IntN(8) {
	case 0:
		options := redlock.HoldOptions{TTL: 600*time.Millisecond + randomTime(random, w.MaxTTL-600*time.Millisecond)}
		options.Heal = len(resources) == 1
		w.hold(random, w.bid(caller, resources...), func(ctx context.Context) (*redlock.Hold, error) { return client.All(resources...).Hold(ctx, options) }, randomTime(random, 500*time.Millisecond))
	case 1, 2, 3:
		w.compete(ctx, random, caller, resources, trying(client))
	default:
		w.compete(ctx, random, caller, resources, waiting(client))
	}
}

// someKeys draws some of the keys, in any order.
func someKeys(random *rand.Rand) (some []string) {
	for _, i := range random.Perm(setKeys)[:1+random.IntN(mostTogether)] {
		some = append(some, fmt.Sprint("s:", i))
	}
	return some
}
