package pure

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A deployer drives one client's Deployment by hand.
type deployer struct {
	t *testing.T
	*Deployment
	now    time.Duration
	random uint64
}

// deploys returns a client of three nodes that are up and free. Their processes
// started long ago.
func deploys(t *testing.T) *deployer {
	d := NewDeployment([]string{"a:1", "b:1", "c:1"})
	c := &deployer{t, &d, time.Hour, 1}
	for i := range 3 {
		c.Join(i)
		c.sees(i, Sighting{What: SealAbsent})
	}
	return c
}

func (c *deployer) sees(node int, s Sighting) { c.Sight(node, s, c.now, c.now) }

// passes lets time pass.
func (c *deployer) passes(d time.Duration) { c.now += d }

// next returns the next order, and all that follow until there is none.
func (c *deployer) next() []Order {
	c.t.Helper()
	var all []Order
	for {
		o := c.Next(c.now, func() uint64 { c.random++; return c.random })
		if o.Verb == Nothing {
			assert.Zero(c.t, o)
			return all
		}
		all = append(all, o)
		require.Less(c.t, len(all), 10, "Next does not end: %v", all)
	}
}

// one returns the next order, which must be the only one.
func (c *deployer) one(verb Verb, nodes Set) Order {
	c.t.Helper()
	all := c.next()
	require.Len(c.t, all, 1, "%v", all)
	require.Equal(c.t, verb, all[0].Verb)
	require.Equal(c.t, nodes, all[0].Nodes, "%016b", all[0].Nodes)
	return all[0]
}

func (c *deployer) none() { c.t.Helper(); require.Empty(c.t, c.next()) }

// answers is the same answer of several nodes.
func (c *deployer) answers(o Order, done bool) {
	for i := range 3 {
		if o.Nodes.Has(i) {
			c.Answer(i, o, done)
		}
	}
}

// arbiter is the node that a client of the set asks first.
func (c *deployer) arbiter() int {
	first := 0
	for i := range c.nodes {
		if c.nodes[i].name < c.nodes[first].name {
			first = i
		}
	}
	return first
}

// proposes brings the client to where all nodes have accepted its proposal, but
// for one answer, and returns that one's order.
func (c *deployer) proposes() Order {
	c.t.Helper()
	first := c.arbiter()
	o := c.one(Propose, 1<<first)
	c.none()
	c.Answer(first, o, true)
	rest := c.one(Propose, 0b111&^(1<<first))
	assert.Equal(c.t, o.Identity, rest.Identity)
	return rest
}

// locks brings the client to its order to lock.
func (c *deployer) locks() Order {
	c.t.Helper()
	c.answers(c.proposes(), true)
	return c.one(Lock, 0b111)
}

func sealOf(who Identity) Sighting {
	return Sighting{What: SealSeen, Seal: Seal{Identity: who, Run: "r", MaxTTL: ms}}
}

func lockOf(who Identity) Sighting {
	return Sighting{What: SealAbsent, Opening: Opening{Locked, who}}
}

// another is the identity that another client gives to the same nodes.
func (c *deployer) another() Identity {
	return Identity{ID: fmt.Sprintf("%032x", 0xabc), Nodes: 3, Members: c.members}
}

// A set is opened in three steps, each of which all nodes confirm before the
// next begins; the arbiter is asked first.
func TestOpening_R30(t *testing.T) {
	c := deploys(t)
	last := c.proposes()
	c.none()
	assert.Equal(t, c.now+openWithin, c.Wait(c.now))
	for i := range 3 {
		if last.Nodes.Has(i) {
			c.none()
			c.Answer(i, last, true)
		}
	}
	for _, verb := range []Verb{Lock, Confirm} {
		o := c.one(verb, 0b111)
		assert.Equal(t, Identity{last.Identity.ID, 3, MembersOf([]string{"c:1", "b:1", "a:1"})}, o.Identity)
		assert.True(t, o.Identity.sound(), "%s", o.Identity)
		assert.True(t, c.Debut())
		for i := range 3 {
			c.none()
			_, bound := c.Identity()
			assert.Equal(t, verb == Confirm && i == 2, bound)
			c.Answer(i, o, true)
		}
	}
	c.none()
	who, bound := c.Identity()
	assert.Equal(t, last.Identity, who)
	assert.True(t, bound)
	assert.Equal(t, who.ID, c.Opened)
	for i := range 3 {
		assert.True(t, c.Counts(i))
		assert.Equal(t, BerthCounts, c.Berth(i))
	}
	assert.False(t, c.Debut(), "it is over")
	assert.Equal(t, c.now+openingDead, c.Wait(c.now))
	c.passes(time.Hour)
	c.none()
}

// An opening needs every node, up and free, as seen over its connection.
func TestNothingIsOpened_R30(t *testing.T) {
	other := Identity{ID: fmt.Sprintf("%032x", 0xabc), Nodes: 3, Members: MembersOf([]string{"x:1", "d:1", "e:1"})}
	for name, c := range map[string]struct {
		does  func(c *deployer)
		berth Berth // of node 1
	}{
		"one is down":              {func(c *deployer) { c.Part(0) }, BerthUnopened},
		"one was not looked at":    {func(c *deployer) { c.Part(1); c.Join(1) }, BerthUnread},
		"one cannot be read":       {func(c *deployer) { c.Part(1); c.Join(1); c.sees(1, Sighting{What: Unreadable}) }, BerthUnread},
		"one holds something else": {func(c *deployer) { c.sees(1, Sighting{What: SealStrange}) }, BerthStrange},
		"one is being opened": {func(c *deployer) {
			c.sees(1, Sighting{What: SealAbsent, Opening: Opening{Proposed, other}})
		}, BerthOpening},
		"one is another's":                  {func(c *deployer) { c.sees(0, sealOf(other)) }, BerthStranger},
		"one was another's, and is down":    {func(c *deployer) { c.sees(0, sealOf(other)); c.Part(0) }, BerthStranger},
		"one is of another number of nodes": {func(c *deployer) { other := other; other.Nodes = 5; c.sees(0, sealOf(other)) }, BerthRivals},
	} {
		t.Run(name, func(t *testing.T) {
			d := deploys(t)
			c.does(d)
			for range 5 {
				for _, o := range d.next() {
					assert.Equal(t, Look, o.Verb)
				}
				d.passes(time.Minute)
			}
			assert.Equal(t, c.berth, d.Berth(1))
			for i := range 3 {
				assert.False(t, d.Counts(i))
			}
		})
	}
}

// What the first stage leaves is taken back, and after a pause the nodes are
// looked at; no id is proposed twice.
func TestRefusedProposal_R30(t *testing.T) {
	for name, fails := range map[string]func(c *deployer, o Order){
		"refused":                     func(c *deployer, o Order) { c.Answer(2, o, false) },
		"dropped":                     func(c *deployer, o Order) { c.Drop(2, o) },
		"its node parts":              func(c *deployer, o Order) { c.Part(2) },
		"a node that accepted parts":  func(c *deployer, o Order) { c.Part(c.arbiter()) },
		"no answer within the second": func(c *deployer, o Order) { c.passes(openWithin + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			o := c.proposes()
			fails(c, o)
			undo := c.one(Undo, 0b111)
			assert.Equal(t, o.Identity, undo.Identity)
			wait := c.Wait(c.now) - c.now
			assert.Greater(t, wait, time.Duration(0))
			assert.LessOrEqual(t, wait, 3*openPause/2)
			c.passes(wait - 1)
			c.none()
			c.passes(1)
			var up Set
			for i := range 3 {
				if c.nodes[i].up {
					up |= 1 << i
				}
			}
			c.one(Look, up)
			c.answers(undo, true)
			c.none()
			for i := range 3 {
				c.Join(i)
				c.sees(i, Sighting{What: SealAbsent})
			}
			assert.NotEqual(t, o.Identity.ID, c.one(Propose, 1<<c.arbiter()).Identity.ID)
		})
	}
}

// The pauses grow, up to a bound.
func TestPausesBetweenOpenings_R30(t *testing.T) {
	c := deploys(t)
	for i := range 12 {
		o := c.one(Propose, 1<<c.arbiter())
		c.Answer(c.arbiter(), o, false)
		c.one(Undo, 1<<c.arbiter())
		delay := min(openPause<<i, openPauseMost)
		wait := c.Wait(c.now) - c.now
		assert.GreaterOrEqual(t, wait, delay/2)
		assert.Less(t, wait, delay/2+delay)
		c.passes(wait)
		c.one(Look, 1<<c.arbiter())
		c.sees(c.arbiter(), Sighting{What: SealAbsent})
	}
}

// A lock that is refused proves that no node will be sealed: all is taken back.
// One that has no answer may have been set: nothing is.
func TestLockStage_R30(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		c := deploys(t)
		o := c.locks()
		c.Answer(0, o, true)
		c.Answer(1, o, false)
		c.one(Undo, 0b111)
	})
	for name, fails := range map[string]func(c *deployer, o Order){
		"dropped":            func(c *deployer, o Order) { c.Drop(1, o) },
		"its node parts":     func(c *deployer, o Order) { c.Part(1) },
		"parts, then drops":  func(c *deployer, o Order) { c.Part(1); c.Drop(1, o) },
		"no answer for long": func(c *deployer, o Order) { c.passes(time.Minute); c.none(); c.Part(1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			o := c.locks()
			c.Answer(0, o, true)
			fails(c, o)
			c.none()
			c.Answer(2, o, true) // too late for this attempt
			c.passes(openPause * 2)
			all := c.next()
			require.Len(t, all, 1)
			assert.Equal(t, Look, all[0].Verb)
		})
	}
}

// Once all nodes are locked they are sealed, whatever else happens.
func TestConfirmStageIsNotUndone_R30(t *testing.T) {
	for name, fails := range map[string]func(c *deployer, o Order){
		"refused":        func(c *deployer, o Order) { c.Answer(1, o, false) },
		"dropped":        func(c *deployer, o Order) { c.Drop(1, o) },
		"its node parts": func(c *deployer, o Order) { c.Part(1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			c.answers(c.locks(), true)
			o := c.one(Confirm, 0b111)
			fails(c, o)
			for _, o := range c.next() {
				assert.Equal(t, Look, o.Verb)
			}
			c.Answer(0, o, true)
			c.Answer(2, o, true)
			who, bound := c.Identity()
			assert.Equal(t, o.Identity, who)
			assert.True(t, bound)
			assert.True(t, c.Counts(0))
			assert.False(t, c.Counts(1))
		})
	}
	t.Run("a locked node has parted", func(t *testing.T) {
		c := deploys(t)
		o := c.locks()
		c.Answer(1, o, true)
		c.Part(1)
		c.none()
		c.Answer(0, o, true)
		c.Answer(2, o, true)
		o = c.one(Confirm, 0b101)
		c.answers(o, true)
		_, bound := c.Identity()
		assert.True(t, bound)
		c.Join(1)
		c.sees(1, lockOf(o.Identity))
		c.one(Confirm, 0b010)
	})
}

// A node that is locked for what another shows is sealed: all were locked.
func TestComplete_R30(t *testing.T) {
	c := deploys(t)
	who := c.another()
	c.sees(0, sealOf(who))
	c.sees(1, lockOf(who))
	c.sees(2, Sighting{What: SealAbsent, Opening: Opening{Proposed, who}})
	o := c.one(Confirm, 0b010)
	assert.Equal(t, who, o.Identity)
	c.none()
	c.Answer(1, o, true)
	c.none()
	assert.True(t, c.Counts(1))
	assert.Equal(t, BerthOpening, c.Berth(2))
}

// A member that shows nothing gets the identity again, one that was never seen
// in it and is not listed does not.
func TestAdopt_R30(t *testing.T) {
	c := deploys(t)
	who := c.another()
	c.sees(0, sealOf(who))
	c.sees(1, sealOf(who))
	o := c.one(Adopt, 0b100)
	assert.Equal(t, BerthAdopts, c.Berth(2))
	c.none() // no order twice
	c.Drop(2, o)
	c.passes(time.Minute)
	c.none() // not before a look
	c.sees(2, Sighting{What: SealAbsent})
	o = c.one(Adopt, 0b100)
	c.Answer(2, o, false)
	c.one(Look, 0b100)
	c.none()
	c.sees(2, Sighting{What: SealSeen, Seal: Seal{Run: "an older form", MaxTTL: ms, Watched: ms}})
	o = c.one(Adopt, 0b100)
	c.Answer(2, o, true)
	assert.True(t, c.Counts(2))

	c.Part(1)
	assert.False(t, c.Counts(1))
	c.Join(1)
	c.none() // before a look
	c.sees(1, Sighting{What: SealAbsent})
	c.one(Adopt, 0b010)

	c = deploys(t)
	who.Members = MembersOf([]string{"a:1", "b:1", "x:1"})
	c.sees(0, sealOf(who))
	c.sees(1, sealOf(who))
	c.none()
	assert.Equal(t, BerthStranger, c.Berth(2))
	assert.False(t, c.Counts(2))
	assert.True(t, c.Counts(1))
	c.sees(2, sealOf(who)) // under another name
	assert.True(t, c.Counts(2))
	c.sees(2, Sighting{What: SealAbsent})
	c.one(Adopt, 0b100)
}

// The lock of a client that died is completed if every node carries it, and
// taken back if a node that was looked at after it does not.
func TestRevive_R30(t *testing.T) {
	proposal := func(who Identity) Sighting { return Sighting{What: SealAbsent, Opening: Opening{Proposed, who}} }
	for name, arranged := range map[string]struct {
		does  func(c *deployer, who Identity)
		verb  Verb
		nodes Set
	}{
		"all are locked": {func(c *deployer, who Identity) { c.sees(1, lockOf(who)); c.sees(2, lockOf(who)) }, Confirm, 0b111},
		"one is free":    {func(c *deployer, who Identity) { c.sees(1, lockOf(who)) }, Undo, 0b011},
		"one is another's proposal": {func(c *deployer, who Identity) {
			other := who
			other.ID = fmt.Sprintf("%032x", 0xdef)
			c.sees(1, proposal(other))
		}, Undo, 0b001},
		"one is proposed": {func(c *deployer, who Identity) { c.sees(1, lockOf(who)); c.sees(2, proposal(who)) }, Nothing, 0},
		"one is down":     {func(c *deployer, who Identity) { c.sees(1, lockOf(who)); c.sees(2, lockOf(who)); c.Part(2) }, Nothing, 0},
		"the lock was taken back and set again": {func(c *deployer, who Identity) {
			c.passes(openingDead / 2)
			c.sees(0, Sighting{What: SealAbsent, Opening: Opening{Proposed, who}})
			c.sees(0, lockOf(who))
		}, Nothing, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			who := c.another()
			c.sees(0, lockOf(who))
			c.passes(ms)
			c.sees(1, Sighting{What: SealAbsent})
			c.sees(2, Sighting{What: SealAbsent})
			arranged.does(c, who)
			c.passes(openingDead - c.now + c.nodes[0].changed - 1)
			c.none()
			c.passes(1)
			if name == "the lock was taken back and set again" {
				c.now -= openingDead / 2
			}
			if arranged.verb == Nothing {
				c.none()
				return
			}
			o := c.one(arranged.verb, arranged.nodes)
			assert.Equal(t, who, o.Identity)
			c.none()
			c.answers(o, true)
			if arranged.verb == Undo {
				assert.Equal(t, NoOpening, c.nodes[0].seen.Opening.Stage)
				return
			}
			_, bound := c.Identity()
			assert.True(t, bound)
			c.none()
		})
	}
	t.Run("the free node was looked at before the lock", func(t *testing.T) {
		c := deploys(t)
		c.passes(ms)
		c.sees(0, lockOf(c.another()))
		c.passes(time.Minute)
		c.none()
	})
	t.Run("another set's", func(t *testing.T) {
		c := deploys(t)
		who := c.another()
		who.Members = MembersOf([]string{"a:1", "x:1", "y:1"})
		c.sees(0, lockOf(who))
		c.passes(ms)
		c.sees(1, Sighting{What: SealAbsent})
		c.passes(time.Minute)
		c.none()
		assert.Equal(t, BerthOpening, c.Berth(0))
	})
}

// Two identities, or another number of nodes, on a single node stop everything;
// a node that is down keeps what it showed.
func TestRivals_R30(t *testing.T) {
	c := deploys(t)
	who := c.another()
	for i := range 3 {
		c.sees(i, sealOf(who))
	}
	assert.True(t, c.Counts(0))
	other := who
	other.ID = fmt.Sprintf("%032x", 0xdef)
	c.sees(2, sealOf(other))
	for _, stays := range []func(){func() {}, func() { c.Part(2) }, func() { c.Join(2) }} {
		stays()
		for i := range 3 {
			assert.False(t, c.Counts(i))
			assert.Equal(t, BerthRivals, c.Berth(i))
		}
		node, first, ok := c.Rivals()
		assert.Equal(t, []any{2, 0, true}, []any{node, first, ok})
		assert.Equal(t, c.now, c.RivalsAsked())
		shown, bound := c.Identity()
		assert.Zero(t, shown)
		assert.False(t, bound)
		c.none()
	}
	c.sees(2, sealOf(who))
	assert.True(t, c.Counts(2))

	who.Nodes = 5
	c = deploys(t)
	c.sees(1, sealOf(who))
	node, first, ok := c.Rivals()
	assert.Equal(t, []any{1, 1, true}, []any{node, first, ok})
	c.none()
}

// A quorum of the nodes must show the identity.
func TestLessThanAQuorum_R30(t *testing.T) {
	c := deploys(t)
	who := c.another()
	who.Members = MembersOf([]string{"a:1", "x:1", "y:1"})
	c.sees(0, sealOf(who))
	_, bound := c.Identity()
	assert.False(t, bound)
	assert.False(t, c.Counts(0))
	assert.Equal(t, BerthUnopened, c.Berth(0))
	assert.Equal(t, BerthStranger, c.Berth(1))
	c.sees(1, sealOf(who))
	assert.True(t, c.Counts(0))
}

// The seal of a deployment that is replaced proves nothing, neither before its
// nodes are sealed anew nor after that.
func TestReplacedSealIsNoProof_R30(t *testing.T) {
	old := Identity{ID: fmt.Sprintf("%032x", 0xdef), Nodes: 3, Members: MembersOf([]string{"a:1", "b:1", "c:1"})}
	c := deploys(t)
	c.Replaces = []string{old.ID}
	seal := sealOf(old)
	seal.Seal.Watched = time.Hour
	for i := range 3 {
		assert.Equal(t, SealAbsent, c.Proof(seal).What)
		c.sees(i, seal)
	}
	c.answers(c.locks(), true)
	seals := c.one(Confirm, 0b111)
	c.answers(seals, true)
	for i := range 3 {
		assert.Equal(t, Sighting{What: SealSeen, Seal: Seal{Identity: seals.Identity}}, c.Seen(i))
	}
}

// An older seal on one node means that the set is not new.
func TestAnOlderSealIsNoDebut_R29(t *testing.T) {
	c := deploys(t)
	c.sees(1, Sighting{What: SealSeen, Seal: Seal{Run: "r", MaxTTL: ms, Watched: ms}})
	c.proposes()
	assert.False(t, c.Debut())
}

// A node that has run for a short while may be another deployment's empty
// member: its clients adopt it first, if they reach it when this client does.
// Nodes that have run for long need no such time, and a client that founds the
// set takes none.
func TestYoungNodesAreLeftToOthers_R30(t *testing.T) {
	for name, c := range map[string]struct {
		need, age time.Duration // MaxTTL, and how long node 1 had run when it was reached
		all       bool          // and the others
		settles   time.Duration // from then on
	}{
		"just started":                    {30 * time.Second, 0, false, adoptWithin},
		"started some time ago":           {30 * time.Second, 20 * time.Second, false, adoptWithin},
		"nearly old":                      {30 * time.Second, 30*time.Second - ms, false, ms},
		"old":                             {30 * time.Second, 30 * time.Second, false, 0},
		"all of them":                     {30 * time.Second, 0, true, adoptWithin},
		"a short MaxTTL":                  {ms, 0, false, adoptWithin},
		"a short MaxTTL, some time after": {ms, adoptWithin - ms, false, ms},
		"a short MaxTTL, old":             {ms, adoptWithin, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := deploys(t)
			d.Need = c.need
			for i := range 3 {
				if i == 1 || c.all {
					d.Born(i, d.now-c.age)
				}
			}
			assert.Equal(t, c.settles, d.Settles(d.now))
			assert.Equal(t, c.settles == 0, d.Open(0, d.now))
			if c.settles > 0 {
				d.none()
				assert.Equal(t, d.now+min(c.settles, openingDead), d.Wait(d.now))
				d.passes(c.settles - 1)
				d.none()
				d.passes(1)
			}
			assert.Zero(t, d.Settles(d.now))
			d.proposes()
		})
	}
	c := deploys(t)
	c.Born(1, c.now)
	c.Part(2)
	assert.Zero(t, c.Settles(c.now), "it waits for a node that is missing")
	c = deploys(t)
	c.Born(1, c.now)
	c.Founds = true
	c.proposes()
}

// A client that founds a set in place of a deployment with a longer MaxTTL
// waits first for as long as its locks last longer than the clients of the new
// one wait.
func TestReplacesALongerMaxTTL_R30(t *testing.T) {
	old := Identity{ID: fmt.Sprintf("%032x", 0xdef), Nodes: 1, Members: "x"}
	for _, c := range []struct{ maxTTL, waits time.Duration }{
		{time.Minute, NeedFor(time.Minute, 0.01) - NeedFor(10*time.Second, 0.01)},
		{10 * time.Second, 0},
		{time.Second, 0},
	} {
		d := deploys(t)
		d.Founds, d.Need, d.Drift, d.Replaces = true, NeedFor(10*time.Second, 0.01), 0.01, []string{old.ID}
		d.sees(1, Sighting{What: SealSeen, Seal: Seal{Identity: old, Run: "r", MaxTTL: c.maxTTL}})
		assert.Equal(t, c.waits, d.Settles(d.now))
		if c.waits > 0 {
			d.none()
			d.passes(c.waits - 1)
			d.none()
			d.passes(1)
		}
		d.proposes()
	}
}

// When all is settled, nothing is done, and nothing is allocated.
func TestSettledAllocatesNothing(t *testing.T) {
	c := deploys(t)
	for i := range 3 {
		c.sees(i, sealOf(c.another()))
	}
	random := func() uint64 { return 1 }
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if c.Next(c.now, random).Verb != Nothing || c.Wait(c.now) <= c.now || !c.Counts(2) {
			t.Error("something is to be done")
		}
	}))
}

// A node that is locked for another deployment counts as if it belonged to it:
// its seal there may be on the way, and other nodes sealed. It is taken back
// once it is certain that no client will seal it: if a member of that set
// belongs to this client's deployment. (Found by testdata/model, lock-ignored
// and foreign-kept.)
func TestForeignLock_R30(t *testing.T) {
	mine := Identity{ID: fmt.Sprintf("%032x", 1), Nodes: 3, Members: MembersOf([]string{"a", "b", "c"})}
	for name, members := range map[string][]string{"one shared": {"c", "d", "e"}, "two shared": {"b", "c", "d"}} {
		t.Run(name, func(t *testing.T) {
			foreign := Identity{ID: fmt.Sprintf("%032x", 2), Nodes: 3, Members: MembersOf(members)}
			d := NewDeployment([]string{"a", "b", "c"})
			look := func(at time.Duration) {
				d.Sight(0, sealOf(mine), at, at)
				d.Sight(1, sealOf(mine), at, at)
				d.Sight(2, lockOf(foreign), at, at)
			}
			look(0)
			for i := range 3 {
				d.Join(i)
			}
			node, _, rivals := d.Rivals()
			require.True(t, rivals)
			assert.Equal(t, foreign, d.Claim(node))
			for i := range 3 {
				assert.False(t, d.Counts(i))
				assert.Equal(t, BerthRivals, d.Berth(i))
			}
			look(openingDead - 1)
			assert.Equal(t, Order{}, d.Next(openingDead-1, nil))
			look(openingDead)
			o := d.Next(openingDead, nil)
			if name == "one shared" {
				require.Equal(t, Order{}, o, "its other members may be locked")
				return
			}
			require.Equal(t, Order{Undo, 0b100, foreign}, o)
			d.Answer(2, o, true)
			assert.True(t, d.Counts(0))
			assert.Equal(t, Order{Adopt, 0b100, mine}, d.Next(openingDead, nil))
		})
	}
}

// A lock is not taken back while a node shows its seal, though a member has
// been emptied. (Found by testdata/model, kills-sealed.)
func TestLockOfASealedIdentityStays_R30(t *testing.T) {
	mine := Identity{ID: fmt.Sprintf("%032x", 1), Nodes: 3, Members: MembersOf([]string{"a", "b", "c"})}
	d := NewDeployment([]string{"a", "b", "c"})
	d.Sight(0, sealOf(mine), 0, 0)
	d.Sight(1, lockOf(mine), 0, 0)
	d.Sight(2, Sighting{What: SealAbsent}, openingDead, openingDead)
	for i := range 3 {
		d.Join(i)
	}
	assert.False(t, d.dead(mine, 0))
	assert.Equal(t, Order{Confirm, 0b010, mine}, d.Next(openingDead, nil))
	assert.Equal(t, Order{Adopt, 0b100, mine}, d.Next(openingDead, nil))
	assert.Equal(t, Order{}, d.Next(openingDead, nil))
}

// The node that started last counts for all, by its own account at a debut. By
// its watch, if a node has a seal, or is not believed. A client that founds a
// new set needs neither (R29).
func TestSince_R29(t *testing.T) {
	const need = 30 * time.Second
	for name, c := range map[string]struct {
		does  func(c *deployer, all []Trust)
		since time.Duration
	}{
		"a debut":               {func(*deployer, []Trust) {}, 30 * time.Minute},
		"one is not believed":   {func(_ *deployer, all []Trust) { all[0].Account.Believed = false }, 58 * time.Minute},
		"one was flushed":       {func(_ *deployer, all []Trust) { all[0].Why = WhyVanished }, 58 * time.Minute},
		"one has an older seal": {func(c *deployer, _ []Trust) { c.sees(1, Sighting{What: SealSeen, Seal: Seal{Run: "r", MaxTTL: ms}}) }, 59 * time.Minute},
		"it is founded":         {func(c *deployer, _ []Trust) { c.Founds = true }, time.Hour - need},
		"it replaces another": {func(c *deployer, _ []Trust) {
			c.Founds, c.Replaces = true, []string{c.another().ID}
			c.sees(1, sealOf(c.another()))
		}, time.Hour},
		"it replaces one of another database": {func(c *deployer, _ []Trust) { c.Founds, c.Replaces = true, []string{c.another().ID} }, time.Hour},
		"it is founded, not a new":            {func(c *deployer, _ []Trust) { c.Founds = true; c.sees(1, Sighting{What: SealStrange}) }, 59 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d := deploys(t)
			d.Need = need
			var all []Trust
			for i, started := range []time.Duration{10 * time.Minute, 30 * time.Minute, 20 * time.Minute} {
				met := []time.Duration{58 * time.Minute, 59 * time.Minute, 57 * time.Minute}[i]
				trust := Trust{Need: need}.Meet("r", met)
				trust.Account = Account{Believed: true, Uptime: met - started + 2*time.Second, Asked: met}
				all = append(all, trust)
			}
			c.does(d, all)
			since := func() time.Duration { return d.Since(func(i int) Trust { return all[i] }, d.now) }
			assert.Equal(t, c.since, since())
			if name == "a debut" {
				d.proposes()
				d.sees(1, lockOf(d.opening.who))
				assert.Equal(t, c.since, since(), "while it is opened")
			}
		})
	}
}

// Once a client belongs to a deployment, only the seals of that prove anything,
// and it may say in them how long it has watched. Where another client has
// opened it, what this one watched before is no proof (R29, R30).
func TestJoiningAnothersDeployment_R29_R30(t *testing.T) {
	c := deploys(t)
	first, second := c.another(), c.another()
	second.ID = fmt.Sprintf("%032x", 0xdef)
	proves := func(who Identity) bool { return c.Proof(sealOf(who)).What == SealSeen }
	assert.True(t, proves(first), "until it is known which is its own")
	assert.False(t, c.Vouches(first))
	assert.False(t, c.Vouches(Identity{}))
	c.sees(0, sealOf(first))
	assert.False(t, c.Rebound(), "a quorum shows it")
	assert.False(t, c.Vouches(first))
	c.sees(1, sealOf(first))
	assert.True(t, c.Rebound())
	assert.False(t, c.Rebound(), "once")
	assert.True(t, c.Vouches(first))
	assert.True(t, proves(first))
	assert.False(t, proves(second))
	assert.False(t, proves(Identity{}), "of an older form")
	assert.Equal(t, sealOf(first), c.Seen(1))
	c.sees(0, sealOf(second))
	assert.True(t, c.Vouches(first), "one node is no quorum")
	c.sees(1, sealOf(second))
	c.sees(2, sealOf(second))
	assert.True(t, c.Rebound())
	assert.False(t, c.Vouches(first))

	// With its own, it is bound as soon as all nodes are locked: from then on
	// they are sealed.
	c = deploys(t)
	locks := c.locks()
	assert.False(t, c.Vouches(locks.Identity))
	c.answers(locks, true)
	seals := c.one(Confirm, 0b111)
	assert.True(t, c.Vouches(seals.Identity))
	assert.False(t, proves(Identity{}), "a look that comes late")
	c.answers(seals, true)
	assert.False(t, c.Rebound())

	// What it completes for another client is not its own before a quorum shows
	// it, which can be when a foreign lock is gone.
	c = deploys(t)
	c.sees(0, sealOf(first))
	c.sees(1, lockOf(first))
	o := c.next()[0]
	assert.Equal(t, Order{Confirm, 0b010, first}, o)
	assert.False(t, c.Vouches(o.Identity))
	c.Answer(1, o, true)
	assert.True(t, c.Rebound())
	assert.Equal(t, Sighting{What: SealSeen, Seal: Seal{Identity: first}}, c.Seen(1), "what it states takes a look")

	c = deploys(t)
	foreign := second
	foreign.Members = MembersOf([]string{"c:1", "a:1", "x:1"})
	c.sees(2, lockOf(foreign))
	c.sees(0, sealOf(first))
	c.sees(1, sealOf(first))
	assert.False(t, c.Rebound(), "rivals")
	c.passes(openingDead)
	for i := range 2 {
		c.sees(i, sealOf(first))
	}
	c.sees(2, lockOf(foreign))
	o = c.one(Undo, 0b100)
	c.Answer(2, o, true)
	assert.True(t, c.Rebound())
}

// A set that was lost and opened anew twice is not stuck because a client was
// away from a node in between: what the node was seen in then was the client's
// own.
func TestFormerDeploymentOfTheSameSet_R30(t *testing.T) {
	for name, members := range map[string]string{"by its members": MembersOf([]string{"a:1", "b:1", "c:1"}), "by what was shown": MembersOf([]string{"x", "y", "z"})} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			first := Identity{ID: fmt.Sprintf("%032x", 1), Nodes: 3, Members: members}
			second := Identity{ID: fmt.Sprintf("%032x", 2), Nodes: 3, Members: members}
			for i := range 3 {
				c.sees(i, sealOf(first))
			}
			c.Part(0)
			for i := 1; i < 3; i++ {
				c.sees(i, Sighting{What: SealAbsent})
			}
			c.sees(0, Sighting{What: SealAbsent}) // between its two deployments
			c.Join(0)
			c.sees(1, sealOf(second))
			c.sees(2, sealOf(second))
			c.sees(1, Sighting{What: SealAbsent})
			c.sees(2, Sighting{What: SealAbsent})
			for i := range 3 {
				assert.Empty(t, c.Former(i))
			}
			c.proposes()
		})
	}
	c := deploys(t)
	c.sees(2, sealOf(Identity{ID: fmt.Sprintf("%032x", 3), Nodes: 3, Members: MembersOf([]string{"c:1", "d", "e"})}))
	c.sees(2, Sighting{What: SealAbsent})
	assert.NotEmpty(t, c.Former(2), "it is another set's")
	c.none()
}

// A client that only remembers the deployment, because no connected node shows
// it, does not give it to an emptied node at once: the set may have been lost
// and opened anew while the client was away.
func TestRememberedDeploymentWaits_R30(t *testing.T) {
	for _, another := range []bool{false, true} { // another node shows it
		c := deploys(t)
		for i := range 3 {
			c.sees(i, sealOf(c.another()))
			c.Part(i)
		}
		c.Join(0)
		c.sees(0, Sighting{What: SealAbsent})
		c.none()
		c.passes(adoptAlone - 1)
		c.none()
		if another {
			c.Join(1)
			c.sees(1, sealOf(c.another()))
		} else {
			c.passes(1)
		}
		assert.Equal(t, c.another(), c.one(Adopt, 0b001).Identity)
	}
}

// Quit takes back proposals, and nothing later.
func TestQuit_R30(t *testing.T) {
	c := deploys(t)
	assert.Zero(t, c.Quit())
	o := c.proposes()
	assert.Equal(t, Order{Undo, 0b111, o.Identity}, c.Quit())
	assert.Zero(t, c.Quit())
	c = deploys(t)
	c.locks()
	assert.Zero(t, c.Quit())
}
