package multiplex

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
