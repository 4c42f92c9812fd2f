package multiplex

import "context"

// Ask sends a command to every node that is up and waits until the round is decided (R5). It returns nil when a quorum
// granted; ErrRefused when nodes refused; an *UndecidedError when too few nodes answered; ErrOverloaded when nothing was
// sent for want of room; ErrLate; ErrClosed; or the context's error. Only a release is sent although ctx has ended already
// (R9). While it waits, ctx.Err is called from inside the group, so it must not call the group itself.
//
// If it returns an error, cmd.Undo was queued for every node before it returned, in the same order on each connection
// (R7, R8). The receipt belongs to the claim, whatever came of it.
func (g *Group) Ask(ctx context.Context, kind *Kind, cmd *Command) (Receipt, error) {
	if err := ctx.Err(); err != nil && !kind.Release {
		return Receipt{}, err
	}
	r, receipt, lead, err := g.enter(ctx, kind, cmd, nil, nil)
	if err == errReturning {
		r, receipt, lead, err = g.enterLater(ctx, kind, cmd)
	}
	if err != nil {
		return receipt, err
	}
	if kind.Undo != nil {
		defer g.life.claims.Add(-1) // after its undo is queued, see Close
	}
	if cmd.Queued != nil {
		cmd.Queued()
	}
	if lead {
		g.flush()
	}
	err = r.outcome(g.await(r))
	if err == nil && cmd.Late != nil && cmd.Late() {
		err = ErrLate
	}
	if err != nil && cmd.Undo != nil {
		g.Tell(kind.Undo, &Command{Bytes: cmd.Undo, Key: cmd.Key, TTL: cmd.TTL, Receipt: receipt})
	}
	r.drop()
	return receipt, err
}

// Tell sends a release to every node and waits for nothing. Nodes that are down owe it, if the claim went to them (R8).
func (g *Group) Tell(kind *Kind, cmd *Command) {
	g.mu.Lock()
	if g.life.closed() {
		g.mu.Unlock()
		return
	}
	r := g.log.take(g)
	lead := g.admitLocked(r, nil, kind, cmd, 1)
	g.mu.Unlock()
	if lead {
		g.flush()
	}
}

// enter gives a command its place in the log. lead says that the caller has got the flusher's role. inbox and tag are those of
// a posted command. (They are not part of Command: what is kept of a thing makes all that it points to escape.)
func (g *Group) enter(
	ctx context.Context, kind *Kind, cmd *Command, inbox *Outcomes, tag any,
) (r *round, receipt Receipt, lead bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life.closed() || g.life.refusing() && !kind.Release {
		return nil, Receipt{}, false, ErrClosed
	}
	if !kind.Release {
		if needed := g.neededLocked(kind); needed.Len() < g.quorum {
			if inbox == nil && g.hopefulLocked(kind, cmd.TTL) {
				return nil, Receipt{}, false, errReturning
			}
			// Known already, so it is said at once and nothing is sent that would have to be undone (R26).
			return nil, Receipt{}, false, g.absentLocked(needed)
		}
		if g.fullLogLocked() || len(g.log.buf)+g.gathering.posted >= maxUnflushed {
			return nil, Receipt{}, false, ErrOverloaded
		}
	}
	if kind.Undo != nil {
		g.life.claims.Add(1)
	}
	r = g.log.take(g)
	r.inbox, r.tag = inbox, tag
	receipt = Receipt{Sent: g.live, Pos: g.log.head, Doubted: g.quarantine.nodes & g.live}
	lead = g.admitLocked(r, ctx, kind, cmd, 2)
	return r, receipt, lead, nil
}

// enterLater is enter for a command that came while too few nodes were up, and enough might be in a moment. It never returns
// errReturning.
func (g *Group) enterLater(ctx context.Context, kind *Kind, cmd *Command) (r *round, receipt Receipt, lead bool, err error) {
	since := g.now()
	for {
		if err := g.awaitReturn(ctx, kind, cmd.TTL, since); err != nil {
			return nil, Receipt{}, false, err
		}
		if r, receipt, lead, err = g.enter(ctx, kind, cmd, nil, nil); err != errReturning {
			return r, receipt, lead, err
		}
	}
}

// maxUnflushed bounds the bytes that wait for the next flush, well below what a connection's backlog takes, before new
// claims are refused (R26).
const maxUnflushed = 1 << 20

// fullLog reports whether too many rounds wait for answers (R26). The caller holds the mutex.
func (g *Group) fullLogLocked() bool {
	if g.log.waiting() < g.config.MaxPending {
		return false
	}
	g.trimLocked() // some may have been answered since the last flush
	return g.log.waiting() >= g.config.MaxPending
}

// admit readies a round and puts it into the log, or among those that the next flush merges. It reports whether the caller
// has got the flusher's role. The caller holds the mutex.
func (g *Group) admitLocked(r *round, ctx context.Context, kind *Kind, cmd *Command, holders int32) (lead bool) {
	r.begin(kind, g.now(), cmd.TTL, cmd.Receipt, holders)
	r.ctx = ctx
	if r.inbox != nil {
		r.postLocked(cmd)
	}
	g.longest = max(g.longest, cmd.TTL)
	if kind.Release || kind.Script {
		r.command = append(r.command[:0], cmd.Bytes...)
		r.key = cmd.Key
	}
	g.wakeWatchLocked(r)
	if kind.Merger != nil && (r.inbox != nil || ctx != nil && ctx.Err() == nil) {
		g.gathering.rounds = append(g.gathering.rounds, r)
		if r.inbox != nil {
			g.gathering.posted += len(cmd.Bytes)
			return false // Flush follows
		}
		return g.takeFlushLocked()
	}
	if kind.Behind {
		g.packLocked()
	}
	return g.placeLocked(r, cmd.Bytes) && r.inbox == nil && g.takeFlushLocked()
}

// place counts the votes of the nodes that are not there, or do not count, as failed, and puts the round into the log. It
// reports false if nobody is there at all. The caller holds the mutex.
func (g *Group) placeLocked(r *round, command []byte) bool {
	if missing := everyone(g.size) &^ g.live; missing|g.quarantine.nodes != 0 {
		g.failMissingLocked(r, missing)
	}
	if g.live == 0 {
		r.drop() // the hold that the ring would have
		return false
	}
	g.log.claims = g.log.claims || !r.kind.Release
	if r.form = g.formOfLocked(r); r.form != nil {
		g.log.push(r, nil)
		g.log.buf = r.form.Append(g.log.buf, r.command, r.key)
		return true
	}
	g.log.push(r, command)
	return true
}

// failMissing counts the votes of nodes that are not up when a round gets its place (docs/design.md, "Voters are fixed
// with the place"), all at once, so that the error names each of them (R12). A release that they may have to execute becomes
// their debt (R8). With them fail the votes on a claim of nodes that do not count (R23), which owe nothing by that: they get
// the command, and its release.
func (g *Group) failMissingLocked(r *round, missing Set) {
	for i, n := range g.nodes {
		if missing.Has(i) {
			if r.owedBy(i) {
				n.oweLocked(r, n.group.now())
			}
			r.causes[i].Store(n.fault)
			r.blamed.Store(true)
		}
	}
	doubted := g.discountLocked(r)
	given := r.giveUp(missing | doubted)
	g.countMissedLocked(given&missing, absent)
	g.countMissedLocked(given&doubted, quarantined)
}

// needed are the nodes that a command of the kind can get a quorum of. An extension may count on a quarantined node, if the
// key is older than the quarantine: see void. The caller holds the mutex.
func (g *Group) neededLocked(kind *Kind) Set {
	if kind.Mode == Claim {
		return g.countingLocked()
	}
	return g.live
}
