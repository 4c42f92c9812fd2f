package multiplex

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// drain handles every reply that was received by the given time. An error means
// that the connection must die: nothing is ever skipped to resynchronise (R16).
func (n *reader) drain(c *conn.Conn, now time.Duration) error {
	n.sampled = false
	n.ring = n.group.log.ring.Load() // has all rounds that these bytes answer
	defer n.counters.publish()
	for {
		v, ok, err := c.Next()
		if err != nil {
			n.banForm()
			return err
		}
		if !ok {
			n.answered.Store(n.confirmed())
			return nil
		}
		if err := n.reply(c, v, now); err != nil {
			return err
		}
		if v.IsError() {
			c.Doubt(v)
			if err := cmp.Or(n.demotedBy(v), n.loggedOut(c, v)); err != nil {
				return err
			}
		}
	}
}

// demotedBy returns why a connection ends after an error that only replicas
// reply. The server may be a master again before the next command, and would
// grant it without the locks that it knew: so what is in flight must not count,
// and the next handshake says what became of the server (R23).
func (n *reader) demotedBy(v resp.Value) error {
	class := conn.ClassOf(v)
	switch class {
	case conn.ClassReadOnly, conn.ClassMasterDown:
		if !n.group.config.Allow.Replica {
			return notMaster("the server has become a replica, by its answer " + class.String())
		}
	}
	return nil
}

// reply passes a reply to its command: the lane's before the round at the
// cursor, otherwise that round's. Attributes are never requested on this
// connection (R16), and pushes only where keys are tracked (lookout_track.go).
// A reply from before its command answers nothing (R16), even if it is read
// later.
func (n *reader) reply(c *conn.Conn, v resp.Value, now time.Duration) error {
	if v.Type() == resp.Push {
		return n.pushed(v)
	}
	if _, ok := v.Attributes(); ok {
		return fmt.Errorf("%w: an attribute", ErrUnexpected)
	}
	if n.replies >= c.Due() {
		return fmt.Errorf("%w: nothing was asked", ErrUnexpected)
	}
	n.replies++
	if n.laneNext.Load() == n.pos {
		return n.laneReply(v)
	}
	r := n.ring.at(n.pos)
	if v.IsError() && n.mends(r, v) {
		n.pos++ // the vote is counted, or comes with the reply to what was sent again
		return nil
	}
	if !n.sampled {
		n.sampled = true
		if n.polled.conn.Load() == nil || n.group.poller.timely(r) {
			// now is the batch's time, and a round may be younger.
			n.sample(max(0, now-r.at))
		}
	}
	if err := n.handleReply(r, r.form, v); err != nil {
		return err
	}
	// The vote came before the cursor moves: until then the slot is ours
	// (docs/internals/design.md, "The vote comes before the cursor moves").
	n.pos++
	return nil
}

// mends reports whether an error is no vote, because the form or the script is
// to blame.
func (n *reader) mends(r *round, v resp.Value) bool {
	if r.form != nil && n.errorToNative(r, v) {
		return true
	}
	if conn.ClassOf(v) != conn.ClassNoScript || !r.verb.script {
		return false
	}
	return n.cure(r, conn.ClassNoScript)
}

// sample updates the smoothed reply time. d counts from when the round was
// queued, so it includes the wait for the flush.
func (n *reader) sample(d time.Duration) {
	old := time.Duration(n.replyTime.Load())
	if n.guessed {
		old, n.guessed = 0, false
	}
	n.replyTime.Store(int64(pure.Smoothed(old, d)))
}

// handleReply turns a reply into this node's vote. form is that of the command
// as sent, or nil. A release that was not answered by an integer becomes a debt
// (R8). An error means that the reply cannot answer the round (R16).
func (n *reader) handleReply(r *round, form *Form, v resp.Value) error {
	if v.IsError() {
		why := n.refusalOf(v)
		n.counters.countError(conn.ClassOf(v))
		gone := hasMoved(v)
		if gone && n.dialer.config.Seeds == nil {
			n.warnOfMove(why)
		}
		for _, m := range r.members() {
			n.failVote(m, why, gone)
		}
		return nil
	}
	if r.carrier {
		return n.handleMerged(r, v)
	}
	judge := r.verb.judge
	if form != nil && form.Judge != nil {
		judge = form.Judge
	}
	vote := judge(v)
	if vote == Alien {
		return fmt.Errorf("%w: type %q", ErrUnexpected, v.Type())
	}
	if vote == Refused && r.verb.telling(form) {
		r.texts.keep(n.index, v) // before the vote, which publishes it
	}
	n.acceptVote(r, vote)
	return nil
}

var errResults = errors.New("not one result for each key of what was merged")

// handleMerged turns the array that answers a carrier into this node's vote on
// each part. It checks the whole array before the first vote, since a reply
// that cannot be the answer is no vote (R16).
func (n *reader) handleMerged(r *round, v resp.Value) error {
	if v.Type() != resp.Array || v.IsNull() || v.Len() != keysOf(r.parts) {
		return fmt.Errorf("%w: %w", ErrUnexpected, errResults)
	}
	votes := n.votes[:0]
	for element := range v.Elements() {
		vote := r.verb.judge(element)
		if _, odd := element.Attributes(); odd || vote == Alien {
			return fmt.Errorf("%w: %w", ErrUnexpected, errResults)
		}
		votes = append(votes, vote)
	}
	for _, p := range r.parts {
		keys := p.key.count()
		vote := together(votes[:keys])
		if votes = votes[keys:]; vote == Failed {
			n.failVote(p, keyFault, false)
			continue
		}
		n.acceptVote(p, vote)
	}
	return nil
}

// together returns the vote on a lock from those on its keys.
func together(votes []Vote) Vote {
	switch {
	case len(votes) == 1:
		return votes[0]
	case slices.Contains(votes, Failed):
		return Failed
	case slices.Contains(votes, Refused):
		return Refused
	}
	return Granted
}

// acceptVote counts a vote that the node gave.
func (n *reader) acceptVote(r *round, vote Vote) {
	if n.previous.unfenced.Has(r.receipt.Pos) && r.owedBy(n.index) {
		n.doubt(r)
	}
	if n.voids > 0 && n.isVoid(r, vote) {
		n.recordVote(r, Failed, flushed)
		return
	}
	switch vote {
	case Restored:
		vote = n.judgeRestored(r)
	case Floorless:
		n.recordVote(r, Failed, n.floorLost())
		return
	case Beyond:
		n.recordVote(r, Failed, n.disbelieve(r))
		return
	}
	if n.failsOver && vote == Granted && !r.verb.releases {
		n.withhold(r)
		return
	}
	n.recordVote(r, vote, n.whyMissing(r, vote))
}

// whyMissing returns what explains that a node that fails over refuses to
// extend a lock, or nil: its present server may never have had the key.
func (n *reader) whyMissing(r *round, vote Vote) *fault {
	if !n.failsOver || vote != Refused || r.verb.claims || r.verb.releases {
		return nil
	}
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.members.Doubted.Has(n.index) {
		return nil
	}
	return n.reporter.causeLocked()
}

// isVoid reports whether a vote sets a key on a server that said that all its
// keys went.
func (n *reader) isVoid(r *round, vote Vote) bool {
	if n.pos >= n.voids && !n.repeated {
		return false
	}
	switch vote {
	case Granted:
		return r.verb.claims
	default:
		return vote == Restored
	}
}

// judgeRestored returns the vote of a node that set a missing key again. A node
// in quarantine, now or at the time of the round's place, grants nothing (R10,
// R23).
func (n *reader) judgeRestored(r *round) Vote {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if pure.RestoredCounts(n.index, r.discounted, g.members.Doubted) || n.renews(r) {
		return Granted
	}
	return Refused
}

// failVote counts an error as a failed vote. A release is then owed and tried
// again soon (R8), unless the key is gone from this node.
func (n *reader) failVote(r *round, why *fault, gone bool) {
	if !gone && r.owedBy(n.index) {
		n.group.mu.Lock()
		n.oweLocked(r, n.group.now()+pure.RefusedFirst)
		n.group.mu.Unlock()
	}
	n.recordVote(r, Failed, why)
}

// recordVote gives this node's vote to a round and counts it. The caller must
// be the goroutine that reads this node.
func (n *reader) recordVote(r *round, v Vote, why *fault) {
	b := &n.counters.batch
	if !r.vote(n.index, v, why) {
		b.late++
		if votedOf(r.word.Load()).Without(r.void()).Has(n.index) {
			b.overdue++
		}
		return
	}
	switch v {
	case Granted:
		b.granted++
	case Refused:
		b.refused++
	default:
		b.failed++
	}
}

// keyFault is the cause if only some keys of a merged command were refused.
var keyFault = &fault{err: &RefusalError{Class: conn.ClassOther}}

// laneReply passes a reply to the lane entry that it answers.
func (n *reader) laneReply(v resp.Value) error {
	n.group.mu.Lock()
	e := n.lane.pop()
	n.laneNext.Store(n.lane.front())
	n.silence.asked = n.group.now() // the wait of the next entry begins
	n.group.mu.Unlock()

	switch e.purpose {
	case again:
		n.repeated = true
		err := n.handleReply(e.round, nil, v)
		n.repeated = false
		if err != nil {
			n.fail(e.round, ended(err))
		}
		e.round.drop()
		return err
	case payment:
		return n.paidBy(e, v)
	case keeps:
		return n.keeps(v)
	case confirm:
		return n.confirm(e, v)
	case inquire:
		err := e.inquiry.answer(e.turn, v)
		if err != nil {
			// With its last reply it left the lane, so abandonLaneLocked would
			// miss it.
			n.abandon(e.inquiry, ended(err))
		}
		return err
	case load:
		if v.IsError() || v.Type() == resp.BulkString {
			return nil
		}
	case probe:
		if v.IsError() || v.Type() == resp.SimpleString {
			return nil
		}
	}
	return fmt.Errorf("%w: type %q in the lane", ErrUnexpected, v.Type())
}

// skipLocked passes over the next entry of the lane, whose reply has come in
// place of another's.
func (n *reader) skipLocked() {
	n.lane.pop()
	n.laneNext.Store(n.lane.front())
	n.replies++
}

// floorLost takes in that a node granted a number without a floor. It returns
// the cause of the failed vote.
func (n *reader) floorLost() *fault {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	return faultOf(n.group.members.LostFloor(n.index))
}

// disbelieve takes in a refusal for a reason that cannot be true (R33). It
// returns the cause of the failed vote.
func (n *reader) disbelieve(r *round) *fault {
	if !r.verb.numbered {
		return placeBeyond
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.group.members.Disbelieved(n.index)
	return numberBeyond
}

// The causes of votes that failed since a node said what cannot be true.
var (
	numberBeyond = &fault{err: fmt.Errorf("%w: it remembers a fencing number that no clock accounts for, or its clock is more than a minute behind", ErrUnbelieved)}
	placeBeyond  = &fault{err: fmt.Errorf("%w: it says that it let in a ticket that no caller has drawn", ErrUnbelieved)}
)
