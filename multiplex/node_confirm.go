package multiplex

import (
	"cmp"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex/internal/member"
	"github.com/redmux/redmux/resp"
)

// Grants of a node that fails over count only if the server was still the
// primary that shook hands. A server can be demoted and promoted again between
// two commands of one connection, without a sign: measured, redis-server 7.0.15
// closes no connection after a partial resynchronisation. But its replication
// history is another one from then on. So behind each batch with claims or
// extensions the server is asked for it, and the grants of the batch are
// withheld until it answers. It costs the server 2.7 µs a batch, and 4 µs more
// for each replica, and no round trip. In a cluster the seal is read there, too
// (member.Behind). Lone masters are not asked.

// withheld are grants that are not votes yet. Only the goroutine that reads the
// connection uses it.
type withheld struct {
	rounds []*round // each is held
	// from is the position of the first. The cursor stays there, so that the
	// watch still looks after these rounds.
	from uint64
	// lost is why none of them counts, or nil.
	lost *member.Cause
}

var infoReplication = resp.AppendCommand(nil, "INFO", "replication")

// repeats reports whether a command that may grant is queued in the lane.
func (l *lane) repeats() bool {
	for _, e := range l.queued {
		if e.purpose == again && !e.round.verb.releases {
			return true
		}
	}
	return false
}

// askBehindLocked returns what is to be written behind a batch that ends at the
// log's head, and how many commands that is. It must be called after the
// batch's lane was handed out.
func (n *node) askBehindLocked() (questions []byte, count int) {
	n.asked = n.group.now()
	if len(n.lane.awaited) == 0 {
		n.silence.asked = n.asked
	}
	questions, seal := n.group.members.Behind(n.index)
	if seal {
		n.lane.await(laneEntry{purpose: keeps, pos: n.group.log.head})
		count++
	}
	n.lane.await(laneEntry{purpose: confirm, pos: n.group.log.head, sent: time.Now()})
	return questions, count + 1
}

// keepContactLocked asks a server that was not asked for some time. Silence for
// longer than pure.Failover.Grace may hide that it was stopped. It returns when
// to run again. It reads no seal: the only grant that its answer can confirm is
// that of an extension which was sent again, and that compared the key itself.
func (n *node) keepContactLocked(now time.Duration) time.Duration {
	if !n.failsOver {
		return pure.Never
	}
	often := n.group.members.Failover(n.index).Grace() / contactsPerGrace
	if now >= n.asked+often && n.lane.add(laneEntry{purpose: confirm, sent: time.Now()}, infoReplication) {
		n.asked = now
		n.group.promptLocked()
	}
	return n.asked + often
}

// contactsPerGrace leaves time for late answers.
const contactsPerGrace = 3

// withhold keeps a grant until the server has said what it is.
func (n *reader) withhold(r *round) {
	if len(n.withheld.rounds) == 0 {
		n.withheld.from = n.pos
	}
	r.hold()
	n.withheld.rounds = append(n.withheld.rounds, r)
}

// confirmed returns the position up to which all replies were taken in.
func (n *reader) confirmed() uint64 {
	if len(n.withheld.rounds) > 0 {
		return n.withheld.from
	}
	return n.pos
}

// keeps takes in whether the server still has its seal.
func (n *reader) keeps(v resp.Value) (err error) {
	n.withheld.lost, err = n.group.members.Keeps(n.index, v)
	return err
}

// confirm makes votes of the grants before it, if the server is still the
// primary that it was, and has kept its seal.
func (n *reader) confirm(e laneEntry, v resp.Value) error {
	cause, err := n.group.members.Confirm(n.index, v, e.sent)
	if err != nil {
		return err
	}
	vote, why := Granted, (*fault)(nil)
	if cause = cmp.Or(cause, n.withheld.lost); cause != nil {
		vote, why = Failed, faultOf(cause)
	}
	for _, r := range n.withheld.rounds {
		n.recordVote(r, vote, why)
		r.drop()
	}
	n.withheld.empty()
	return nil
}

// failWithheld fails the votes of a connection that ended before it was
// confirmed.
func (n *reader) failWithheld(why *fault) {
	for _, r := range n.withheld.rounds {
		n.fail(r, why)
		r.drop()
	}
	n.withheld.empty()
}

func (w *withheld) empty() {
	clear(w.rounds)
	w.rounds, w.lost = w.rounds[:0], nil
}

// distrustLocked finds out for an extension on which nodes in quarantine it
// does not count. What is left of the votes is judged by both clocks (R4).
func (g *Group) distrustLocked(r *round, cmd *Command) {
	if r.verb.claims || r.verb.releases {
		return
	}
	var ends time.Duration
	if r.receipt.Voted&g.members.FailOver&g.members.Doubted != 0 && !cmd.Ends.IsZero() {
		if left := pure.Remaining(cmd.Ends, time.Now()); left > 0 {
			ends = r.at + left
		}
	}
	r.receipt.Doubted = g.members.Distrusted(r.receipt.Doubted, r.receipt.Voted, ends)
}

// renews reports whether a quarantined node's grant of an extension counts,
// since its own vote for the lock lasts.
func (n *reader) renews(r *round) bool {
	return n.failsOver && r.discounted.Has(n.index) && !r.receipt.Doubted.Has(n.index)
}
