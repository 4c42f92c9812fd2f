package machines

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A round is one command sent to all nodes, and their votes, as in package
// multiplex. What one atomic word holds there is plain fields here.
type round struct {
	process    *process
	cmd        *command
	mode       multiplex.Mode
	ttl        time.Duration
	at         time.Duration // when it was queued
	pos        uint64        // its place in the log
	receipt    receipt       // of the claim that it releases or lengthens
	patience   time.Duration
	discounted multiplex.Set // their votes must not make a lock (R23)

	granted, refused, failed multiplex.Set
	texts                    []string // by node: of its refusal, before the decision
	verdict                  multiplex.Verdict
	cancelled                bool // the caller's context ended, or the group was closed
	done                     func(*round)
	late                     func() // for Broken: a quorum, after the decision
}

// A receipt says to which nodes a claim was sent, its place in the log, and
// which of the nodes were quarantined then.
type receipt struct {
	sent    multiplex.Set
	pos     uint64
	doubted multiplex.Set
}

func (r *round) isRelease() bool { return r.cmd.op == release }

// owedBy reports whether the round is a release of a key that the node may
// hold.
func (r *round) owedBy(node int) bool { return r.isRelease() && r.receipt.sent.Has(node) }

// ask queues a command for all nodes. It calls done when the round is decided,
// which may be at once. It returns nil if nothing is sent, because no quorum is
// possible.
func (p *process) ask(cmd *command, ttl time.Duration, of receipt, patience time.Duration, done func(*round)) (*round, receipt) {
	mode := multiplex.Confirming
	if cmd.op == set {
		mode = multiplex.Claiming
	}
	if cmd.op != release {
		needed := p.live
		if mode == multiplex.Claiming || p.rivals {
			needed = p.counting()
		}
		if needed.Len() < p.quorumNeeded() {
			return nil, receipt{}
		}
	}
	cmd.rivals = p.seesRivals()
	r := &round{process: p, cmd: cmd, mode: mode, ttl: ttl, at: p.now(), pos: p.head, receipt: of, patience: patience, done: done}
	sent := receipt{p.live, p.head, p.quarantined & p.live}
	p.head++
	p.longest = max(p.longest, ttl)
	r.place()
	if r.verdict == multiplex.Open {
		p.open = append(p.open, r)
		r.rearm()
	}
	return r, sent
}

// place counts nodes that are absent or do not count as failed, and sends the
// command to the others.
func (r *round) place() {
	p := r.process
	missing := all(p.size) &^ p.live
	for i, m := range p.members {
		if missing.Has(i) && r.owedBy(i) {
			m.owe(r, p.now())
		}
	}
	r.discounted = p.quarantined & p.live
	live := p.live // a node that then owes too much is shed meanwhile
	for i, m := range p.members {
		if live.Has(i) && p.live.Has(i) {
			m.send(expected{purpose: vote, round: r, cmd: r.cmd})
			m.arm(p.now() + pure.TickMost)
		}
	}
	void := r.void()
	if r.mode == multiplex.Claiming {
		void |= p.floorless & p.live
	}
	r.giveUp(missing | void)
}

// void returns the quarantined nodes whose grants do not count.
func (r *round) void() multiplex.Set {
	if r.isRelease() {
		return 0
	}
	return pure.Void(r.mode == multiplex.Claiming, r.discounted, r.receipt.doubted)
}

// quorumNeeded returns R1's quorum, or what Broken leaves of it.
func (p *process) quorumNeeded() int {
	switch {
	case p.world.broken.is(QuorumLessOne):
		return max(1, p.quorum-1)
	case p.world.broken.is(QuorumOfLive):
		return multiplex.Quorum(p.live.Len())
	}
	return p.quorum
}

// needed is quorumNeeded for this round.
func (r *round) needed() int {
	if r.process.world.broken.is(ReadersFewer) && r.cmd.op != release && r.cmd.attempt.form.is(reading) {
		return max(1, r.process.quorum-1)
	}
	return r.process.quorumNeeded()
}

func (r *round) tally() multiplex.Tally {
	return multiplex.Tally{Nodes: r.process.size, Granted: r.granted.Len(), Refused: r.refused.Len(), Failed: r.failed.Len()}
}

func (r *round) judge() multiplex.Verdict { return r.tally().Verdict(r.needed(), r.mode) }

func (r *round) voted() multiplex.Set { return r.granted | r.refused | r.failed }

// isOpen reports whether another vote can change anything.
func (r *round) isOpen() bool { return r.verdict == multiplex.Open && !r.cancelled }

// vote counts one node's answer, unless the round is decided or this node's
// vote has timed out (R17).
func (r *round) vote(node int, v multiplex.Vote) {
	if !r.isOpen() {
		r.voteLate(node, v)
		return
	}
	if r.voted().Has(node) {
		return
	}
	switch v {
	case multiplex.Granted:
		r.granted |= bit(node)
	case multiplex.Refused:
		r.refused |= bit(node)
	default:
		r.failed |= bit(node)
	}
	r.decide()
	if r.isOpen() {
		r.rearm() // the others may be waited for shorter now
	}
}

// giveUp counts votes that have timed out, all at once.
func (r *round) giveUp(over multiplex.Set) {
	over &^= r.voted()
	if r.isOpen() && over != 0 {
		r.failed |= over
		r.decide()
	}
}

func (r *round) decide() {
	if r.verdict = r.judge(); r.verdict != multiplex.Open {
		r.end()
	}
}

// cancel ends the round from outside.
func (r *round) cancel() {
	if r.isOpen() {
		r.cancelled = true
		r.end()
	}
}

func (r *round) end() {
	open := r.process.open
	for i, other := range open {
		if other == r {
			r.process.open = append(open[:i], open[i+1:]...)
			break
		}
	}
	if r.done != nil {
		r.done(r)
	}
}

// voteLate is a planted bug: it counts a vote after the decision.
func (r *round) voteLate(node int, v multiplex.Vote) {
	if !r.process.world.broken.is(LateVotesCount) || v != multiplex.Granted || r.verdict == multiplex.Won || r.late == nil {
		return
	}
	r.granted |= bit(node)
	if r.granted.Len() >= r.process.quorum {
		r.verdict = multiplex.Won
		r.late()
	}
}

// rearm sets a timer for the next vote that times out.
func (r *round) rearm() {
	p := r.process
	next := time.Duration(-1)
	for i := range p.members {
		if at := r.deadline(i); !r.voted().Has(i) && (next < 0 || at < next) {
			next = at
		}
	}
	due := max(next, p.now()+pure.TickLeast)
	p.wake(due, func() { r.timeout(p.now() - due) })
}

func (r *round) deadline(node int) time.Duration {
	p := r.process
	patience := pure.VotePatience(0, r.ttl, r.patience,
		r.tally().Hinges(r.needed(), r.mode), pure.Starved(p.excused, r.at))
	return pure.VoteDeadline(r.at, p.members[node].voteTimeout(r.ttl), patience)
}

// timeout gives up votes whose time is over. late is by how much it is late.
func (r *round) timeout(late time.Duration) {
	p := r.process
	p.excused = pure.Excused(p.excused, late, p.now())
	if !r.isOpen() {
		return
	}
	var over multiplex.Set
	for i := range p.members {
		if p.now() >= r.deadline(i) {
			over |= bit(i)
		}
	}
	r.giveUp(over)
	if r.isOpen() {
		r.rearm()
	}
}
