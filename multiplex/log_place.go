package multiplex

import "slices"

// Merging: releases before the same flush travel as one command. Its reply
// holds one result for each key. So do extensions. Starting a script costs a
// server more than one more key within it, so with many concurrent callers
// merging raises the throughput by a quarter.
//
// Only commands with a waiting caller, or posted ones, are merged. The release
// of a failed attempt goes into the log at once, or the SET of the next attempt
// would overtake it and be refused because of the old key (R8, R11).

// packLocked gives the commands gathered since the last flush their places in
// the log: a single one as it is, several merged. A native form is not merged:
// it costs a server less than its part of a script (R25). That also fixes their
// nodes (docs/internals/design.md, "Voters are fixed with the place").
func (g *Group) packLocked() {
	for rest := g.gathering.rounds; len(rest) > 0; {
		n := g.alikeLocked(rest)
		if n == 1 {
			g.placeLocked(rest[0], rest[0].command)
		} else {
			g.placeMergedLocked(rest[:n])
		}
		rest = rest[n:]
	}
	g.gathering.empty()
}

// alikeLocked returns how many rounds, from the first on, may be merged: those
// with the same merger and no native form, with up to maxMerged keys.
func (g *Group) alikeLocked(rounds []*round) int {
	first := rounds[0]
	if g.forms.of(first) != nil {
		return 1
	}
	n, keys := 1, first.key.count()
	for ; n < len(rounds) && rounds[n].verb.merger == first.verb.merger; n++ {
		r := rounds[n]
		if r.verb != first.verb && g.forms.of(r) != nil {
			break
		}
		if keys += r.key.count(); keys > maxMerged {
			break
		}
	}
	return n
}

// placeMergedLocked puts several rounds into the log as one carrier. It takes
// over the log's hold on each.
func (g *Group) placeMergedLocked(parts []*round) {
	if missing := All(g.size) &^ g.live; missing|g.members.Doubted != 0 {
		for _, p := range parts {
			g.failMissingLocked(p, missing)
		}
	}
	if g.live == 0 {
		for _, p := range parts {
			p.drop()
		}
		return
	}
	g.log.claims = g.log.claims || !parts[0].verb.releases
	merger := parts[0].verb.merger
	c := g.log.takeCarrier(g)
	// The first was queued first, so the carrier is as old as the oldest of
	// them.
	c.begin(merger.verb(), parts[0].at, parts[0].ttl, Receipt{}, 1)
	c.word.Store(decided) // no caller waits for the carrier itself
	c.parts = append(c.parts, parts...)
	g.log.push(c, nil)
	g.log.buf = c.appendCommand(g.log.buf)
}

// appendCommand appends the round's command as given. That of a carrier is made
// of its parts.
func (r *round) appendCommand(dst []byte) []byte {
	if !r.carrier {
		return append(dst, r.command...)
	}
	dst = r.parts[0].verb.merger.AppendHead(dst, keysOf(r.parts))
	for _, p := range r.parts {
		dst = append(dst, p.command[p.key.From:p.key.To]...)
	}
	for _, p := range r.parts {
		for range p.key.count() {
			dst = append(dst, p.command[p.key.To:]...)
		}
	}
	return dst
}

// keysOf returns how many keys the commands of some rounds have.
func keysOf(parts []*round) (n int) {
	for _, p := range parts {
		n += p.key.count()
	}
	return n
}

// placeLocked fails the votes of nodes that are not up or do not count, and
// puts the round into the log. It returns false if no node is up.
func (g *Group) placeLocked(r *round, command []byte) bool {
	if missing := All(g.size) &^ g.live; missing|g.members.Doubted|g.members.Floorless != 0 {
		g.failMissingLocked(r, missing)
	}
	if g.live == 0 {
		r.drop() // the hold that the ring would have
		return false
	}
	g.log.claims = g.log.claims || !r.verb.releases
	r.form = g.forms.of(r)
	if r.verb.telling(r.form) && r.texts == nil {
		r.texts = new(texts)
	}
	if r.form != nil {
		g.log.push(r, nil)
		g.log.buf = r.form.Append(g.log.buf, Encoded{r.command, r.key})
		return true
	}
	g.log.push(r, command)
	return true
}

// failMissingLocked fails the votes of nodes that are not up at the moment of a
// round's place (docs/internals/design.md, "Voters are fixed with the place").
// It does so at once for all, so that the error names each of them (R12). A
// release that such a node may have to execute becomes its debt (R8). Votes of
// quarantined nodes on a claim fail with them (R23), and those of nodes without
// a floor, but without a debt: those nodes get the command and its release.
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

// discountLocked records the round's quarantined nodes. It returns those whose
// vote on it fails for that reason. It stores their causes in the round.
func (g *Group) discountLocked(r *round) Set {
	r.discounted = g.members.Doubted & g.live
	void := r.void()
	if r.verb.numbered {
		void |= g.members.Floorless & g.live
	}
	if void == 0 {
		return 0
	}
	for i, n := range g.nodes {
		if void.Has(i) {
			r.causes[i].Store(n.reporter.causeLocked())
			r.blamed.Store(true)
		}
	}
	return void
}

// Native forms (R25): newer servers have a command that deletes a key with a
// given token, at less than half of the script's cost, and a SET that returns
// the value in its way.
//
// A round's command always keeps the form as given, which every node
// understands: debts, cures and repetitions use it. Only the bytes in the log
// may have a native form, and only replies to these are read by the judge of
// that form. The form is chosen under the mutex, together with the round's
// place, by what all live nodes support at that moment. A later join cannot
// make it wrong. The node begins at the head of the log, behind every round and
// byte queued before, so its first command comes after agree has dropped a
// missing form. A later loss of the command, or of the right to it, shows in an
// error reply; see errorToNative.

// NativeForm returns the name of the native form of a kind's commands to the
// nodes now up, or "" for none. It may change with every node that joins or
// leaves, and with every reply.
func (g *Group) NativeForm(kind *ReleaseKind) string {
	g.made()
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.forms.first(kind.Native); f != nil {
		return f.Name
	}
	return ""
}

// agree computes which steps of the handshake all live nodes accepted, and so
// their common forms. It must be called after each change of live, before the
// mutex is released, so that a form is dropped before a node without it gets
// its first command (R25).
func (a *agreed) agree(nodes []*node, live Set) {
	a.accepted = nil
	for i, n := range nodes {
		switch {
		case !live.Has(i):
		case a.accepted == nil:
			a.accepted = append([]string{}, n.server.Accepted...)
		default:
			a.accepted = slices.DeleteFunc(a.accepted, func(step string) bool {
				return !slices.Contains(n.server.Accepted, step)
			})
		}
	}
}

// first returns the first of several forms that all live nodes support, or nil.
func (a *agreed) first(native []Form) *Form {
	for i := range native {
		if f := &native[i]; slices.Contains(a.accepted, f.Name) && !slices.Contains(a.banned, f.Name) {
			return f
		}
	}
	return nil
}

// of returns the form in which a round goes into the log. A round whose key is
// not known goes as it is.
func (a *agreed) of(r *round) *Form {
	if r.key.To == 0 {
		return nil
	}
	return a.first(r.verb.native)
}
