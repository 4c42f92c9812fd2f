package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/election"
)

// The load with an election: each process has one candidate. In the history a
// term is a lock with its number, from the call of the function to its return.

const electionKey = "e"

// A campaign is one call of Run.
type campaign struct {
	*worker
	random   *rand.Rand
	election *election.Election
	bid      bid
	lost     *time.Timer // ends the candidacy, unless it is elected before
	over     bool        // the function has returned by itself

	// Of the last term.
	lock redlock.Lock
	told time.Time
	hold *redlock.Hold
}

func (w *worker) loadElection() {
	if w.Broken == brokenQuorum {
		return // its clients have no numbers, and election.New refuses them
	}
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Name)<<32|candidate))
	for w.parking.pass() {
		w.stand(random)
		w.parking.sleep(randomTime(random, 50*time.Millisecond))
	}
}

// stand is a candidate until it is elected and has led for some time, or its
// patience ends. After a loss, or when it has stepped down, it stands again.
func (w *worker) stand(random *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &campaign{worker: w, random: random, lost: time.AfterFunc(time.Hour, cancel)}
	defer c.lost.Stop()
	ttl := 600*time.Millisecond + randomTime(random, w.MaxTTL-600*time.Millisecond)
	made, err := election.New(w.fenced, electionKey, election.Options{TTL: ttl, Rest: 20 * time.Millisecond, TermDone: c.done})
	if err != nil {
		panic(err) // the fault is this program's
	}
	c.election = made
	c.begin()
	if err := c.election.Run(ctx, c.lead); !c.over {
		w.denied(c.bid, err)
	}
}

// begin begins to wait for the next term.
func (c *campaign) begin() {
	c.bid = c.worker.bid(candidate, electionKey)
	c.attempts(c.bid)
	c.lost.Reset(50*time.Millisecond + randomTime(c.random, time.Second))
}

func (c *campaign) lead(ctx context.Context, term uint64) error {
	c.lost.Stop()
	start := time.Now()
	c.count(Terms)
	c.counters.attempt(nil)
	c.hold, _ = redlock.FromContext(ctx)
	if led := c.election.IsLeader(); c.hold.Current().Fence() != term || term == 0 || !led && ctx.Err() == nil {
		c.odd(start, false, "a leader of term %d, whose lock has number %d, is leader: %v", term, c.hold.Current().Fence(), led)
	}
	if c.random.IntN(3) == 0 { // from another goroutine, as by a signal
		stepping := time.AfterFunc(randomTime(c.random, 200*time.Millisecond), func() { _ = c.election.StepDown(context.Background()) })
		defer stepping.Stop()
	}
	c.lock, c.told = c.under(ctx, c.hold, c.bid, randomTime(c.random, time.Second))
	return nil
}

// done is called when the lock of a term was released.
func (c *campaign) done(t election.TermInfo) {
	c.forget(c.hold)
	c.counters.release(t.Released)
	if t.Cause == election.ErrSteppedDown {
		c.count(StepsDown)
	}
	if c.breakLeader(c.bid) {
		c.parking.sleep(100 * time.Millisecond)
		c.note(history.Release, c.bid, c.lock, c.told)
	}
	c.note(releasedBy(t.Released), c.bid, c.lock, c.told)
	if c.over = t.Cause == nil; !c.over {
		c.begin()
	}
}
