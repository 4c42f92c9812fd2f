package multiplex

import "context"

// Claim sends a claim to every node that is up and waits for the decision of
// its round (R5). It returns nil after a quorum of grants; ErrRefused after
// refusals; an *UndecidedError after too few answers; ErrOverloaded, with
// nothing sent, from a full log; ErrUnwatched; ErrClosed; or the context's
// error, with nothing sent for a ctx that had ended before the call. During the
// wait, the group calls ctx.Err. That must not call the group.
//
// If Claim returns an error, its release was queued for every node before it
// returned, in the same order on each connection (R7, R8). A caller whose
// grants came too late, or do not agree, undoes them with Tell. DelayClose
// makes Close wait for that. The receipt belongs to the claim, whatever its
// outcome.
func (g *Group) Claim(ctx context.Context, kind *ClaimKind, c *Claim) (Receipt, error) {
	g.called(ctx)
	p, err := g.enterOpen(ctx, kind.verb(), &Command{Encoded: Encoded{c.Bytes, c.Key}, TTL: c.TTL})
	if err != nil {
		return Receipt{}, err
	}
	defer g.life.claims.Add(-1) // after its undo is queued, see Close
	p.receipt.Voted, err = g.outcome(p, c.Told)
	if err != nil && c.Undo != nil {
		g.undo(kind.Undo, c, p.receipt)
	}
	return p.receipt, err
}

// DelayClose adds to the number of callers that Close waits for before it ends
// the connections, for at most a second. These are callers with a claim,
// perhaps, that have not decided yet about undoing it. Each call with 1 must be
// followed by one with -1.
func (g *Group) DelayClose(callers int64) {
	g.made()
	g.life.claims.Add(callers)
}

// undo queues the release that undoes a claim.
func (g *Group) undo(kind *ReleaseKind, c *Claim, receipt Receipt) {
	room := g.undos.Get()
	defer g.undos.Put(room)
	release := Command{Encoded: c.Undo(room.B[:0]), TTL: c.TTL, Receipt: receipt}
	room.B = release.Bytes
	g.Tell(kind, &release)
}

// Extend sends an extension, waits, and returns errors as Claim does, and the
// nodes that had granted by the decision. With a Merger, it travels with others
// that wait for the same flush.
func (g *Group) Extend(ctx context.Context, kind *ExtendKind, cmd *Command) (Set, error) {
	g.called(ctx)
	p, err := g.enterOpen(ctx, kind.verb(), cmd)
	if err != nil {
		return 0, err
	}
	return g.outcome(p, nil)
}

// Release sends a release and waits as Claim does. It is also sent after the
// end of ctx, to too few nodes, and from a full log (R9). Nodes that are down
// owe it, provided that they got the claim (R8). With a Merger, it travels with
// others that wait for the same flush.
func (g *Group) Release(ctx context.Context, kind *ReleaseKind, cmd *Command) error {
	g.called(ctx)
	p, err := g.enter(ctx, kind.verb(), cmd, Posting{})
	if err != nil {
		return err
	}
	_, err = g.outcome(p, nil)
	return err
}

// HandOver is Release for a key that another caller waits for. It is never
// merged, and calls queued once it has its place in the log. Later commands
// stand behind it on every connection. queued must not wait.
func (g *Group) HandOver(ctx context.Context, kind *ReleaseKind, cmd *Command, queued func()) error {
	g.called(ctx)
	p, err := g.enter(ctx, kind.unmerged(), cmd, Posting{})
	if err != nil {
		return err
	}
	queued()
	_, err = g.outcome(p, nil)
	return err
}

// noCaller, which is nil, is the context of a round that no caller waits for.
var noCaller context.Context

// Tell is Release without an outcome. It does not wait, and is never merged.
func (g *Group) Tell(kind *ReleaseKind, cmd *Command) {
	g.made()
	g.mu.Lock()
	if g.life.closed() {
		g.mu.Unlock()
		return
	}
	r := g.log.take(g)
	lead := g.admitLocked(noCaller, r, kind.unmerged(), cmd, byLog)
	g.mu.Unlock()
	if lead {
		g.flush()
	}
}

// A place is what a command has got from enter.
type place struct {
	round   *round
	receipt Receipt
	lead    bool // the caller has the flusher's role
}

// outcome waits until a round is decided and lets go of it. It returns the
// nodes that had granted by then. told is that of a Claim, or nil.
func (g *Group) outcome(p place, told func(node int, text []byte)) (Set, error) {
	if p.lead {
		g.flush()
	}
	word := g.await(p.round)
	err := p.round.outcome(word)
	if err == ErrRefused && told != nil && p.round.verb.telling(p.round.form) {
		p.round.tell(word, told)
	}
	p.round.drop()
	g.flusher.left.Add(1)
	return grantedOf(word), err
}

// enter gives a command its place in the log. The posting has no inbox if a
// caller waits for the outcome. It is no field of the command, which would then
// escape to the heap.
func (g *Group) enter(ctx context.Context, v *verb, cmd *Command, posting Posting) (place, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life.refuses(v) {
		return place{}, ErrClosed
	}
	if !v.releases {
		if g.members.FailOver != 0 && g.config.MaxTTL == 0 {
			return place{}, ErrUnwatched
		}
		needed := g.neededLocked(v)
		if needed.Len() < g.quorum {
			if posting.Inbox == nil && g.hopefulLocked(v, cmd.TTL) {
				return place{}, errReturning
			}
			// The outcome is already known, so it is returned at once, and
			// nothing is sent that would have to be undone (R26).
			return place{}, g.absentLocked(needed)
		}
		switch {
		case g.fullLogLocked(), len(g.log.buf)+g.gathering.posted >= maxUnflushed, g.isBehindLocked(needed):
			return place{}, ErrOverloaded
		}
	}
	if v.claims {
		g.life.claims.Add(1)
	}
	r := g.log.take(g)
	if posting.Inbox != nil || posting.waited != 0 {
		r.posting, r.unusual = posting, true
	}
	if posting.Inbox == nil {
		r.word.Store(called)
		g.flusher.entered.Add(1)
	}
	receipt := Receipt{Sent: g.live, Pos: g.log.head, Doubted: g.members.Doubted & g.live}
	lead := g.admitLocked(ctx, r, v, cmd, byLog+byCaller)
	return place{r, receipt, lead}, nil
}

// neededLocked returns the nodes from which a command can get a quorum. An
// extension of an older key may count on a quarantined node (see round.void).
// It may not in a client without a deployment that is clearly its own.
func (g *Group) neededLocked(v *verb) Set {
	if v.claims || g.members.Rivals {
		return g.live &^ g.voidLocked(v)
	}
	return g.live
}

// voidLocked returns the nodes whose grants of a claim do not count.
func (g *Group) voidLocked(v *verb) Set {
	if v.numbered {
		return g.members.Doubted | g.members.Floorless
	}
	return g.members.Doubted
}

// enterOpen is enter for a claim or an extension that a caller waits for. If
// too few nodes are up, and enough might be in a moment, it waits for them. The
// wait for nodes and the wait for votes together are bounded by the vote
// timeout (R26).
func (g *Group) enterOpen(ctx context.Context, v *verb, cmd *Command) (place, error) {
	if err := ctx.Err(); err != nil {
		return place{}, err
	}
	p, err := g.enter(ctx, v, cmd, Posting{})
	if err != errReturning {
		return p, err
	}
	for since := g.now(); err == errReturning; {
		if err = g.awaitReturn(ctx, v, cmd.TTL, since); err == nil {
			p, err = g.enter(ctx, v, cmd, Posting{waited: g.now() - since})
		}
	}
	return p, err
}

// maxUnflushed bounds the bytes that wait for the next flush before new claims
// and extensions are refused (R26). It is well below a connection's backlog.
const maxUnflushed = 1 << 20

// fullLogLocked reports whether too many rounds wait for answers (R26).
func (g *Group) fullLogLocked() bool {
	if g.log.waiting() < g.config.MaxPending {
		return false
	}
	g.trimLocked() // some may have been answered since the last flush
	return g.log.waiting() >= g.config.MaxPending
}

// isBehindLocked reports whether so many nodes are behind with their bytes that
// the others of those needed are no quorum. More would cost their connections
// (R26). Where others are a quorum, a node that does not read is shed instead.
func (g *Group) isBehindLocked(needed Set) bool {
	if g.flusher.behind == 0 {
		return false
	}
	for i, n := range g.nodes {
		if g.flusher.behind.Has(i) && (n.life.State != Up || !n.conn.Behind()) {
			g.flusher.behind = g.flusher.behind.Without(setOf(i))
		}
	}
	return (needed &^ g.flusher.behind).Len() < g.quorum
}

// Who holds a round at first: the log, and the caller that reads the outcome.
const byLog, byCaller int32 = 1, 1

// admitLocked readies a round and puts it into the log, or among those that the
// next flush merges. It reports whether the caller now has the flusher's role.
// The context is nil if no caller waits for the round.
func (g *Group) admitLocked(ctx context.Context, r *round, v *verb, cmd *Command, holders int32) (lead bool) {
	r.begin(v, g.now(), cmd.TTL, cmd.Receipt, holders)
	if g.members.FailOver != 0 {
		g.distrustLocked(r, cmd)
	}
	r.ctx = ctx
	posted := r.isPosted()
	if posted {
		r.postLocked()
	}
	g.longest = max(g.longest, cmd.TTL)
	if v.kept {
		r.command = append(r.command[:0], cmd.Bytes...)
		r.key = cmd.Key
	}
	g.wakeWatchLocked(r)
	if v.merger != nil && waitsToBeMerged(posted, ctx) {
		g.gathering.rounds = append(g.gathering.rounds, r)
		if posted {
			g.gathering.posted += len(cmd.Bytes)
			return false // Flush follows
		}
		return g.takeFlushLocked()
	}
	if v.behind {
		g.packLocked()
	}
	if !g.placeLocked(r, cmd.Bytes) || posted {
		return false
	}
	return g.takeFlushLocked()
}

// waitsToBeMerged reports whether a command may wait for others that are merged
// with it: one that is posted, or whose caller waits.
func waitsToBeMerged(posted bool, ctx context.Context) bool {
	if posted || ctx == nil {
		return posted
	}
	return ctx.Err() == nil
}

// Posting sends commands whose outcome no goroutine waits for. A caller that
// keeps thousands of locks posts their renewals, has them written together, and
// reads the outcomes from one inbox. A posted round ends as any other does: by
// votes, by their timeouts, or by Close. The goroutine that decides it puts it
// into the inbox instead of waking a caller.

// PostExtension queues an extension as Extend does and returns at once. It
// waits for the group's mutex only. Nothing is written before Flush is called
// or another command is flushed. If it returns no error, the outcome arrives in
// the inbox, exactly once. Otherwise nothing was sent: the error is an
// *UndecidedError if too few nodes are up, ErrOverloaded, ErrUnwatched, or
// ErrClosed.
//
// The receipt says which nodes the command goes to. A merged one may also go to
// nodes that join before the write.
func (g *Group) PostExtension(kind *ExtendKind, cmd *Command, posting Posting) (Receipt, error) {
	g.made()
	p, err := g.enter(noCaller, kind.verb(), cmd, posting)
	return p.receipt, err
}

// PostRelease posts a release as PostExtension posts an extension. The only
// error is ErrClosed.
func (g *Group) PostRelease(kind *ReleaseKind, cmd *Command, posting Posting) error {
	g.made()
	_, err := g.enter(noCaller, kind.verb(), cmd, posting)
	return err
}

// Flush has the group's own goroutine write what was posted, and makes sure
// that the answers are read. It waits for the group's mutex only.
func (g *Group) Flush() {
	g.made()
	g.mu.Lock()
	if g.unwrittenLocked() && g.takeFlushLocked() {
		// The channel has room: only the goroutine with the role sends.
		g.flusher.handover <- struct{}{}
	}
	g.mu.Unlock()
	// Every posted round was counted as waiting before it was published. A
	// goroutine with the poll role sees it on giving the role up, and calls
	// the poller's goroutine. With the role free, this call does (compare
	// Group.await).
	if p := g.poller; p != nil && p.role.Load() == roleFree && p.waiting.Load() > 0 {
		p.callServer()
	}
}
