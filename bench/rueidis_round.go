package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// round is one attempt and the release that ends it, on all nodes. Its lease
// (or the call that makes the attempt) and every goroutine that works on one of
// its parts hold it; the last holder returns it to the pool.
type round struct {
	owner *Rueidis
	parts []part
	timer *time.Timer // the vote timeout, armed by the caller only

	// What the attempt asks for; written before any goroutine starts.
	resource, token, ttl string

	sets, dels     tally
	setsIn, delsIn chan struct{} // receive one token when the tally is settled
	holders        atomic.Int32
	running        atomic.Int32  // goroutines at work, for Close
	lease          atomic.Uint64 // the lease that may release; any other number is an earlier lease
}

type part struct {
	round *round
	node  Node
	state atomic.Uint32
	cause atomic.Pointer[error] // why the SET failed, or nil
	// The method values of set and del, made once so that a go statement does
	// not allocate.
	setFunc, delFunc func()
}

// The states of a part: setting → set → (release), or setting → releaseWanted.
const (
	setting       uint32 = iota // the SET is on its way
	set                         // its reply is in: the release is sent by the goroutine that wants it
	releaseWanted               // the release was wanted before the reply: the SET's goroutine sends it
)

func newRound(owner *Rueidis) *round {
	r := &round{
		owner:  owner,
		parts:  make([]part, len(owner.nodes)),
		timer:  time.NewTimer(time.Hour),
		setsIn: make(chan struct{}, 1),
		delsIn: make(chan struct{}, 1),
	}
	r.timer.Stop()
	for i := range r.parts {
		p := &r.parts[i]
		p.round, p.node = r, owner.nodes[i].node
		p.setFunc, p.delFunc = p.runSet, p.runDel
	}
	return r
}

// set asks all nodes at once (R2). A single node is asked by the caller itself.
func (r *round) set() {
	r.enter(len(r.parts))
	if len(r.parts) == 1 {
		r.parts[0].runSet()
		return
	}
	for i := range r.parts {
		go r.parts[i].setFunc()
	}
}

// release sends the release to every node, behind the SET of that node (R7,
// R8). It waits only if there is a single node.
func (r *round) release() {
	for i := range r.parts {
		p := &r.parts[i]
		if p.state.CompareAndSwap(setting, releaseWanted) {
			continue
		}
		r.enter(1)
		if len(r.parts) == 1 {
			p.runDel()
		} else {
			go p.delFunc()
		}
	}
}

// await waits until a token arrives on settled, the vote times out or ctx ends.
// The tally tells which.
func (r *round) await(ctx context.Context, settled <-chan struct{}, timeout time.Duration) {
	select {
	case <-settled:
		return
	default:
	}
	r.timer.Reset(timeout)
	select {
	case <-settled:
	case <-ctx.Done():
	case <-r.timer.C:
	}
	r.timer.Stop()
}

func (p *part) runSet() {
	r := p.round
	v := p.set()
	if r.sets.add(v, len(r.parts), r.owner.quorum, r.owner.waitAll) {
		r.setsIn <- struct{}{}
	}
	if p.state.CompareAndSwap(setting, set) {
		r.leave()
		return
	}
	p.runDel()
}

func (p *part) runDel() {
	r := p.round
	if r.dels.add(p.del(), len(r.parts), r.owner.quorum, r.owner.waitAll) {
		r.delsIn <- struct{}{}
	}
	r.leave()
}

// set sends the SET and turns its reply into a vote (R17).
func (p *part) set() vote {
	r := p.round
	ok, err := p.node.Set(r.resource, r.token, r.ttl)
	switch {
	case err != nil:
		p.fail(err)
		return failed
	case ok:
		return granted
	}
	return refused
}

// fail keeps the cause. It is a function of its own so that only failures pay
// for the copy that escapes.
func (p *part) fail(cause error) { p.cause.Store(&cause) }

// del sends the compare-and-delete.
func (p *part) del() vote {
	deleted, err := p.node.Delete(p.round.resource, p.round.token)
	switch {
	case err != nil:
		return failed
	case deleted:
		return granted
	}
	return refused
}

// enter counts n goroutines that are about to work on the round; leave counts
// one that has finished.
func (r *round) enter(n int) {
	r.holders.Add(int32(n))
	if r.running.Add(int32(n)) == int32(n) {
		r.owner.busy.Add(1)
	}
}

func (r *round) leave() {
	if r.running.Add(-1) == 0 {
		r.owner.busy.Add(-1)
	}
	r.drop()
}

// drop gives up one hold. The last one prepares the round for the next attempt:
// no goroutine can send to its channels any more, so draining them is final.
func (r *round) drop() {
	if r.holders.Add(-1) > 0 {
		return
	}
	for _, settled := range []chan struct{}{r.setsIn, r.delsIn} {
		select {
		case <-settled:
		default:
		}
	}
	r.sets.reset()
	r.dels.reset()
	for i := range r.parts {
		r.parts[i].state.Store(setting)
		r.parts[i].cause.Store(nil)
	}
	r.owner.rounds.Put(r)
}
