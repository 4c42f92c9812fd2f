package multiplex

// Merging: releases that wait for the same flush travel as one command, whose reply holds one result for each, and so do
// extensions. A script costs a server more to start than to go through another key, so that many callers at once get a
// quarter more done.
//
// Only commands that somebody awaits are merged. The release of a failed attempt goes into the log at once, or else the
// next attempt's SET would overtake it and be refused by its own old key (R8, R11).

// A gathering is the awaited and posted releases and extensions that wait for the
// next flush, to be merged. The group's mutex guards it.
type gathering struct {
	rounds []*round
	posted int // bytes of the commands among them that were posted
}

// empty makes room for what the flush after this one merges.
func (g *gathering) empty() {
	clear(g.rounds)
	g.rounds, g.posted = g.rounds[:0], 0
}

// pack gives the commands that gathered since the last flush their places in the log: a lone one as it is, several
// merged, unless there is a native form, which costs a server less than its part of a script (R25). Which nodes they are for
// is settled here (docs/design.md, "Voters are fixed with the place"). The caller holds the mutex.
func (g *Group) packLocked() {
	for rest := g.gathering.rounds; len(rest) > 0; {
		n := 1
		if g.formOfLocked(rest[0]) == nil {
			n = alike(rest)
		}
		if n == 1 {
			g.placeLocked(rest[0], rest[0].command)
		} else {
			g.placeMergedLocked(rest[:n])
		}
		rest = rest[n:]
	}
	g.gathering.empty()
}

// alike is how many rounds, from the first on, may travel together: those with the same merger, up to the bound.
func alike(rounds []*round) int {
	n := 1
	for n < min(len(rounds), mergeMost) && rounds[n].kind.Merger == rounds[0].kind.Merger {
		n++
	}
	return n
}

// placeMerged puts several rounds into the log as one carrier, which takes over the hold that the log would have on each.
func (g *Group) placeMergedLocked(parts []*round) {
	if missing := everyone(g.size) &^ g.live; missing|g.quarantine.nodes != 0 {
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
	g.log.claims = g.log.claims || !parts[0].kind.Release
	merger := parts[0].kind.Merger
	c := g.log.takeCarrier(g)
	// The first was queued first, so the carrier is as old as the oldest of them.
	c.begin(merger.Kind, parts[0].at, parts[0].ttl, Receipt{}, 1)
	c.word.Store(decided) // nobody waits for the carrier itself
	c.parts = append(c.parts, parts...)
	c.command = merger.AppendHead(c.command, len(parts))
	for _, p := range parts {
		c.command = append(c.command, p.command[p.key.From:p.key.To]...)
	}
	for _, p := range parts {
		c.command = append(c.command, p.command[p.key.To:]...)
	}
	g.log.push(c, c.command)
}
