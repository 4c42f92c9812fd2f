package pure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// deploysOf returns a client of nodes that are up and free. Their processes
// started long ago.
func deploysOf(t *testing.T, addrs ...string) *deployer {
	var names []string
	for _, addr := range addrs {
		names = append(names, NameOf(addr, 0))
	}
	d := NewDeployment(names)
	c := &deployer{t, &d, time.Hour, 1}
	for i := range addrs {
		c.Join(i)
		c.sees(i, Sighting{What: SealAbsent})
	}
	return c
}

func deploys(t *testing.T) *deployer { return deploysOf(t, "a:1", "b:1", "c:1") }

func (c *deployer) sees(node int, s Sighting) { c.Sight(node, s, c.now, c.now) }

// passes lets time pass.
func (c *deployer) passes(d time.Duration) { c.now += d }

// next returns the next order, and all that follow until there is none.
func (c *deployer) next() []Order {
	c.t.Helper()
	var all []Order
	for {
		o := c.Next(c.now, c.id)
		if o.Verb == Nothing {
			assert.Zero(c.t, o)
			return all
		}
		all = append(all, o)
		require.Less(c.t, len(all), 20, "Next does not end: %v", all)
	}
}

func (c *deployer) id() uint64 { c.random++; return c.random }

// one returns the next order, which must be the only one.
func (c *deployer) one(verb Verb, node int) Order {
	c.t.Helper()
	all := c.next()
	require.Len(c.t, all, 1, "%v", all)
	require.Equal(c.t, []any{verb, node}, []any{all[0].Verb, all[0].Node})
	return all[0]
}

func (c *deployer) none() { c.t.Helper(); require.Empty(c.t, c.next()) }

// done answers orders.
func (c *deployer) done(all ...Order) {
	for _, o := range all {
		c.Answer(o.Node, o, true, c.now)
	}
}

// names brings the client to where all nodes have ids, and lists to where all
// are listed. seals returns the orders to write the seals, of which the first
// is carried out.
func (c *deployer) names() {
	c.t.Helper()
	all := c.next()
	require.NotEmpty(c.t, all)
	c.done(all...)
}

func (c *deployer) lists() {
	c.t.Helper()
	c.names()
	for range c.nodes {
		all := c.next()
		require.Len(c.t, all, 1, "one at a time")
		c.done(all...)
	}
}

func (c *deployer) seals() []Order {
	c.t.Helper()
	c.lists()
	first := c.next()
	require.Len(c.t, first, 1, "one client decides")
	c.done(first...)
	all := append(first, c.next()...)
	require.Len(c.t, all, len(c.nodes))
	return all
}

// member is the id of a node.
func member(i int) string { return fmt.Sprintf("%016x", 0xa0+i) }

// identity is the deployment of members.
func identity(members ...int) Identity {
	var all []string
	for _, i := range members {
		all = append(all, member(i))
	}
	return IdentityOf(all)
}

var ours = identity(0, 1, 2)

// namesOf gives the nodes of deploys to members.
func namesOf(members ...int) (all Names) {
	for i, m := range members {
		all = all.With(member(m), NameOf(fmt.Sprintf("%c:1", 'a'+i), 0))
	}
	return all
}

// seal is that of a member that three nodes know by the usual names.
func seal(i int, who Identity) Sighting {
	return Sighting{What: SealSeen, Seal: Seal{Seat: Seat{Member: member(i), Open: who}, Names: namesOf(0, 1, 2), Run: "r", MaxTTL: ms}}
}

// foreign is that of a member of others.
func foreign(i int, who Identity) Sighting {
	s := seal(i, who)
	s.Seal.Names = Names(member(i) + ":" + NameOf("x", i))
	return s
}

func listing(i int, who Identity, names Names) Sighting {
	return Sighting{What: SealSeen, Seal: Seal{Seat: Seat{Member: member(i), Listed: who}, Names: names}}
}

func named(i int) Sighting {
	return Sighting{What: SealSeen, Seal: Seal{Seat: Seat{Member: member(i)}}}
}

// A set is opened in three steps. Each is done on all nodes before the next
// begins, and the nodes are listed in the order of their ids.
func TestOpening_R30(t *testing.T) {
	c := deploys(t)
	c.random = 6 // ids 7, 8, 9
	all := c.next()
	require.Len(t, all, 3)
	ids := []string{"0000000000000009", "0000000000000007", "0000000000000008"}
	for i, o := range all {
		require.Equal(t, Order{Write, i, Seat{}, Seat{Member: o.Is.Member}, ""}, o)
		o.Is.Member = ids[i] // another client was faster
		c.none()
		c.sees(i, Sighting{What: SealSeen, Seal: Seal{Seat: o.Is}})
		c.Answer(i, o, true, c.now)
	}
	who := IdentityOf(slices.Clone(ids))
	for _, i := range []int{1, 2, 0} {
		o := c.one(Write, i)
		require.Equal(t, Order{Write, i, Seat{Member: ids[i]}, Seat{Member: ids[i], Listed: who}, o.Names}, o)
		require.False(t, c.Opens())
		c.done(o)
	}
	require.True(t, c.Debut())
	seals := c.next()
	require.True(t, c.Opens())
	require.False(t, c.Opens(), "once")
	for n, i := range []int{1, 0, 2} { // one client decides about the first, and any about the others
		o := seals[0]
		require.Equal(t, Order{Write, i, Seat{Member: ids[i], Listed: who}, Seat{Member: ids[i], Open: who}, o.Names}, o)
		for j, id := range ids {
			require.Equal(t, id, o.Names.Member(c.nodes[j].name))
		}
		c.none()
		c.done(o)
		_, bound := c.Identity()
		require.Equal(t, n > 0, bound)
		seals = append(seals[1:], c.next()...)
		require.Len(t, seals, 2-n)
	}
	require.Equal(t, who.ID, c.Opened)
	for i := range 3 {
		require.True(t, c.Counts(i))
		require.Equal(t, BerthCounts, c.Berth(i))
		require.Equal(t, who.Nodes(), len(ids))
	}
	require.False(t, c.Debut(), "it is over")
	require.False(t, c.Rebound(), "it is its own")
	require.Equal(t, c.now+settlePass, c.Wait(c.now))
	c.passes(time.Hour)
	c.none()
}

// An opening needs every node, up and in no set, as seen over its connection.
func TestNothingIsOpened_R30(t *testing.T) {
	others := identity(7, 8, 9)
	for name, c := range map[string]struct {
		does  func(c *deployer)
		berth Berth // of node 1
	}{
		"one is down":                    {func(c *deployer) { c.Part(0) }, BerthUnopened},
		"one was not looked at":          {func(c *deployer) { c.Part(1); c.Join(1) }, BerthUnread},
		"one cannot be read":             {func(c *deployer) { c.Part(1); c.Join(1); c.sees(1, Sighting{What: Unreadable}) }, BerthUnread},
		"one holds something else":       {func(c *deployer) { c.sees(1, Sighting{What: SealStrange}) }, BerthStrange},
		"one is listed for others":       {func(c *deployer) { c.sees(1, listing(7, others, foreign(7, others).Seal.Names)) }, BerthOpening},
		"one is another's":               {func(c *deployer) { c.sees(0, foreign(7, others)) }, BerthStranger},
		"one was another's, and is down": {func(c *deployer) { c.sees(0, foreign(7, others)); c.Part(0) }, BerthStranger},
		"one was another's, and is empty": {func(c *deployer) {
			s := foreign(7, others)
			s.Seal.Names = ""
			c.sees(0, s)
			c.sees(0, Sighting{What: SealAbsent})
		}, BerthUnopened},
		"one is of another number": {func(c *deployer) { c.sees(0, seal(7, identity(7, 8))) }, BerthRivals},
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

// Whatever clients of one set have begun, and wherever they died, another one
// ends it: with any orders that come late, and nodes that lose their keys.
// Where sets overlap, at most one is opened (agreement).
func TestOpeningsInAnyOrder_R30(t *testing.T) {
	sets := [][]string{{"a:1", "b:1", "c:1"}, {"c:1", "d:1", "e:1"}, {"b:1", "c:1", "d:1"}}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &shelf{seals: make(map[string]Seal)}
		var all []*opener
		for range 2 + random.IntN(2) {
			set := sets[random.IntN(1+int(seed%3))]
			all = append(all, &opener{deployer: deploysOf(t, set...), set: set})
		}
		emptied := seed%2 == 0
		for range random.IntN(60) {
			c := all[random.IntN(len(all))]
			switch random.IntN(12) {
			case 0:
				c.looks(w, random.IntN(3))
			case 1:
				*c = opener{deployer: deploysOf(t, c.set...), set: c.set} // it died, and another one starts
				c.random = random.Uint64()
				for i := range 3 {
					c.looks(w, i)
				}
			case 2:
				if emptied && len(sets) > 0 && seed%3 == 0 {
					delete(w.seals, c.set[random.IntN(3)]) // of one set: it is only late
				}
			default:
				c.random += random.Uint64N(1 << 60)
				c.step(w, random)
			}
			w.judge(t, seed)
		}
		if seed%3 == 0 { // one set: it ends
			c := all[0]
			for range 60 {
				for i := range 3 {
					c.looks(w, i)
				}
				c.passes(time.Second)
				for range 3 {
					c.step(w, random)
				}
			}
			_, bound := c.Identity()
			require.True(t, bound, "seed %d: %v", seed, w.seals)
		}
	}
}

// A shelf has the seals of nodes, by their addresses.
type shelf struct{ seals map[string]Seal }

// put does what seal.lua does.
func (w *shelf) put(addr string, o Order) bool {
	is := w.seals[addr]
	if is.Seat != o.Was && is.Seat != o.Is {
		return false
	}
	names := o.Names
	if is.Set() == o.Is.Set() {
		names = is.Names.And(names)
	}
	w.seals[addr] = Seal{Seat: o.Is, Names: names}
	return true
}

// judge requires that no two open deployments share an address by which one
// was opened.
func (w *shelf) judge(t *testing.T, seed uint64) {
	owner := make(map[string]Identity)
	for addr, s := range w.seals {
		if s.Open == (Identity{}) {
			continue
		}
		for _, name := range s.Names.entries {
			was := owner[name]
			require.True(t, was == Identity{} || was == s.Open, "seed %d: %s: %v", seed, addr, w.seals)
			owner[name] = s.Open
		}
	}
}

// An opener is a client whose orders arrive late, or never.
type opener struct {
	*deployer
	set   []string
	under []Order
}

func (c *opener) looks(w *shelf, node int) {
	s := Sighting{What: SealAbsent}
	if seal, ok := w.seals[c.set[node]]; ok {
		s = Sighting{What: SealSeen, Seal: seal}
	}
	c.passes(1)
	c.sees(node, s)
}

func (c *opener) all(w *shelf) {
	for i := range c.set {
		c.looks(w, i)
	}
}

// run carries out all orders, one after the other.
func (c *opener) run(w *shelf) {
	for {
		o := c.Next(c.now, c.id)
		switch o.Verb {
		case Nothing:
			return
		case Look:
			c.looks(w, o.Node)
		case Write:
			c.Answer(o.Node, o, w.put(c.set[o.Node], o), c.now)
		}
	}
}

// step carries out one of the orders under way.
func (c *opener) step(w *shelf, random *rand.Rand) {
	c.under = append(c.under, c.next()...)
	if len(c.under) == 0 {
		return
	}
	i := random.IntN(len(c.under))
	o := c.under[i]
	c.under = slices.Delete(c.under, i, i+1)
	c.passes(1)
	switch {
	case o.Verb == Look:
		c.looks(w, o.Node)
	case random.IntN(20) == 0:
		w.put(c.set[o.Node], o)
		c.Part(o.Node) // without the answer
		c.Join(o.Node)
		c.looks(w, o.Node)
	default:
		c.Answer(o.Node, o, w.put(c.set[o.Node], o), c.now)
	}
}

// An order that was refused is not given again before a look, nor is one that
// could not be carried out.
func TestRefusedOrders_R30(t *testing.T) {
	c := deploys(t)
	all := c.next()
	c.done(all[0])
	c.Drop(1)
	c.Answer(2, all[2], false, c.now)
	c.one(Look, 2)
	c.none()
	c.sees(2, named(2))
	c.none()
	c.sees(1, Sighting{What: SealAbsent})
	o := c.one(Write, 1)
	c.Part(1)
	c.none()
	c.Join(1)
	c.none()
	c.sees(1, Sighting{What: SealAbsent})
	require.Equal(t, o.Was, c.one(Write, 1).Was)
}

// A node that shows one thing and says that it is another is not asked without
// end (R33).
func TestRefusedAgainAndAgain_R33(t *testing.T) {
	c := deploys(t)
	c.sees(0, seal(0, ours))
	c.sees(1, seal(1, ours))
	for turn := range 2 {
		for i := range mostRefused {
			c.Answer(2, c.one(Write, 2), false, c.now)
			c.one(Look, 2)
			c.sees(2, named(8+i)) // another at each look
		}
		c.Answer(2, c.one(Write, 2), false, c.now)
		c.none()
		c.sees(2, Sighting{What: SealAbsent}) // when it is due
		require.Zero(t, c.nodes[2].refused, turn)
	}

	// It takes an id, is listed, and refuses its seal.
	c = deploys(t)
	shows := 0
	for range 100 {
		all := c.next()
		if len(all) == 0 {
			return
		}
		for _, o := range all {
			c.passes(1)
			switch {
			case o.Verb == Look && o.Node == 0:
				shows = 1 - shows // below the ids of all others
				c.sees(0, Sighting{What: SealSeen, Seal: Seal{Seat: Seat{Member: fmt.Sprintf("%016x", shows)}}})
			case o.Verb == Look:
				c.sees(o.Node, c.Seen(o.Node))
			default:
				c.Answer(o.Node, o, o.Node != 0 || o.Is.Open == Identity{}, c.now)
			}
		}
	}
	t.Fatal("without end")
}

// What one node says of names is not written into others, and a member that is
// none of a deployment gets none there (R33).
func TestNamesOfALiar_R33(t *testing.T) {
	c := deploys(t)
	s := seal(0, ours)
	s.Seal.Names = s.Seal.Names.With(member(1), NameOf("x", 0)).With(member(0), c.nodes[1].name)
	c.sees(0, s)
	c.sees(1, seal(1, ours))
	for _, o := range c.next() {
		require.Equal(t, namesOf(0, 1, 2), namesOf(0, 1, 2).And(o.Names), "%v", o)
	}
	c = deploys(t)
	for i := range 3 {
		s := seal(i, ours)
		if i == 0 {
			s.Seal.Member = member(9) // as when a replacement was given up
		}
		c.sees(i, s)
	}
	c.none()
}

// A set that is replaced before it was open, and is just these nodes, gets
// other ids, too.
func TestReplacesAListedSet_R30(t *testing.T) {
	c := deploys(t)
	c.Founds, c.Replaces = true, []string{ours.ID}
	c.sees(0, listing(0, ours, namesOf(0, 1, 2)))
	c.sees(1, named(1))
	c.sees(2, named(2))
	c.done(c.one(Write, 0))
	for i := range 2 {
		c.sees(i+1, named(i+1)) // they are looked at again
	}
	for range 20 {
		for _, o := range c.next() {
			if o.Verb == Look {
				c.sees(o.Node, c.Seen(o.Node))
			} else {
				c.done(o)
			}
		}
	}
	who, bound := c.Identity()
	require.True(t, bound)
	require.NotEqual(t, ours, who)
}

// A node that is listed for what another shows is sealed: all were listed.
func TestComplete_R30(t *testing.T) {
	c := deploys(t)
	c.sees(0, seal(0, ours))
	c.sees(1, listing(1, ours, namesOf(0, 1, 2)))
	c.Part(2)
	o := c.one(Write, 1)
	require.Equal(t, Seat{Member: member(1), Open: ours}, o.Is)
	require.False(t, c.Vouches(ours))
	c.done(o)
	require.True(t, c.Counts(1))
	require.True(t, c.Rebound(), "it is another client's")
	require.Equal(t, Sighting{What: SealSeen, Seal: Seal{Seat: o.Is, Names: o.Names}}, c.Seen(1), "what it states takes a look")

	c = deploys(t)
	c.MaxTTL = 2 * ms
	c.sees(0, seal(0, ours))
	c.sees(1, listing(1, ours, namesOf(0, 1, 2)))
	c.none() // its seals would say another MaxTTL
}

// A member that has lost its seal gets its place again, by its name, or because
// it was seen there. Another node in its place does not.
func TestAdopt_R30(t *testing.T) {
	for name, does := range map[string]func(c *deployer){
		"empty":         func(*deployer) {},
		"with a new id": func(c *deployer) { c.sees(2, named(8)) },
		"by what was seen": func(c *deployer) {
			c.nodes[2].name = NameOf("d:1", 0)
			c.sees(2, seal(2, ours))
			c.passes(1)
			c.sees(2, Sighting{What: SealAbsent})
		},
		"a majority is lost": func(c *deployer) { c.Part(1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			c.sees(0, seal(0, ours))
			c.sees(1, seal(1, ours))
			c.next()
			does(c)
			c.nodes[1].pending, c.nodes[2].pending = false, false
			o := c.next()[0]
			require.Equal(t, Seat{Member: member(2), Open: ours}, o.Is)
			require.Equal(t, c.Seen(2).Seal.Seat, o.Was)
			c.Drop(2)
			c.none() // not before a look
			c.done(o)
			_, bound := c.Identity()
			require.True(t, bound)
			require.True(t, c.Counts(2))
		})
	}
	for name, does := range map[string]func(c *deployer){
		"not by its name":       func(c *deployer) { c.nodes[2].name = NameOf("d:1", 0) },
		"another has its place": func(c *deployer) { c.nodes[2].name = c.nodes[1].name },
		"its name is ambiguous": func(c *deployer) {
			for i := range 2 {
				s := seal(i, ours)
				s.Seal.Names = Names(member(1) + ":" + c.nodes[2].name).And(s.Seal.Names)
				c.sees(i, s)
			}
		},
		"one node alone knows its name": func(c *deployer) { // R33
			c.nodes[2].name = NameOf("d:1", 0)
			s := seal(1, ours)
			alone := Names(member(2) + ":" + c.nodes[2].name)
			s.Seal.Names = s.Seal.Names + "," + alone + "," + alone
			c.sees(1, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			c.sees(0, seal(0, ours))
			c.sees(1, seal(1, ours))
			does(c)
			for _, o := range c.next() {
				require.NotEqual(t, 2, o.Node)
			}
			require.Equal(t, BerthStranger, c.Berth(2))
			require.True(t, c.Counts(1))
		})
	}
	t.Run("this client remembers the deployment, whose other nodes are down", func(t *testing.T) {
		for name, c := range map[string]struct {
			does  func(c *deployer)
			berth Berth
		}{
			"":                  {func(*deployer) {}, BerthAdopts},
			"another is listed": {func(c *deployer) { c.sees(1, listing(1, identity(1, 8, 9), "")) }, BerthRivals},
			"one was elsewhere": {func(c *deployer) {
				c.sees(1, seal(1, identity(1, 8, 9)))
				c.sees(1, Sighting{What: SealAbsent})
			}, BerthLeft},
			"no quorum is up":    {func(c *deployer) { c.Part(1) }, BerthLeft},
			"it was never bound": {func(c *deployer) { c.bound = "" }, BerthLeft},
		} {
			d := deploys(t)
			for i := range 3 {
				d.sees(i, seal(i, ours))
			}
			d.Part(2) // for ever
			for i := range 2 {
				d.Part(i)
				d.Join(i)
				d.passes(1)
				d.sees(i, Sighting{What: SealAbsent})
			}
			c.does(d)
			require.Equal(t, c.berth, d.Berth(0), name)
			d.none()
			d.passes(aloneAfter - 1)
			if name == "" {
				require.Equal(t, d.now+1, d.Wait(d.now))
			}
			d.none()
			d.passes(1)
			all := d.next()
			require.Equal(t, name == "", len(all) == 2, name)
			d.done(all...)
			require.Equal(t, name == "", d.Counts(0) && d.Counts(1), name)
		}
	})
	t.Run("no node shows the deployment at the moment", func(t *testing.T) {
		c := deploys(t)
		c.sees(0, seal(0, ours))
		c.sees(1, seal(1, ours))
		c.Part(0)
		c.Part(1)
		c.nodes[2].pending = false
		c.sees(2, Sighting{What: SealAbsent})
		c.none()
		require.Equal(t, BerthLeft, c.Berth(2))
		require.False(t, c.Open(2, c.now), "it will not be soon")
	})
	for name, does := range map[string]func(c *deployer){
		"another MaxTTL":        func(c *deployer) { c.MaxTTL = 2 * ms },
		"one that founds a set": func(c *deployer) { c.Founds = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			does(c)
			c.sees(0, seal(0, ours))
			c.sees(1, seal(1, ours))
			c.none()
			require.Equal(t, BerthLeft, c.Berth(2))
			require.False(t, c.Open(2, c.now), "it will not be soon")
		})
	}
}

// A set that can never be opened is given up: only if it is this client's, and
// only for what was seen after it. The id is new, or it could be once more.
func TestReset_R30(t *testing.T) {
	for name, test := range map[string]struct {
		other  Sighting // of node 1
		resets bool
	}{
		"it has another id":       {named(8), true},
		"it has none":             {Sighting{What: SealAbsent}, true},
		"it is listed for others": {listing(1, identity(1, 8, 9), namesOf(1, 8, 9)), true},
		"it is another's":         {seal(8, identity(8, 9, 7)), true},
		"it has its id":           {named(1), false},
		"it is listed":            {listing(1, ours, namesOf(0, 1, 2)), false},
		"it is sealed":            {seal(1, ours), false},
		"it is strange":           {Sighting{What: SealStrange}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := deploys(t)
			c.sees(1, test.other)
			c.sees(2, named(2))
			c.passes(1)
			c.sees(0, listing(0, ours, namesOf(0, 1, 2)))
			fresh := func() bool {
				for _, o := range c.next() {
					if o.Node == 0 && o.Is.Free() {
						require.Equal(t, Seat{Member: member(0), Listed: ours}, o.Was)
						require.NotEqual(t, member(0), o.Is.Member)
						return true
					}
				}
				return false
			}
			require.False(t, fresh(), "not before another look")
			c.passes(1)
			c.sees(1, test.other)
			require.Equal(t, test.resets, fresh())
		})
	}
	c := deploys(t)
	c.sees(0, listing(0, ours, namesOf(0, 1)+Names(","+member(2)+":"+NameOf("x:1", 0))))
	c.passes(1)
	c.sees(1, named(8))
	c.none()
	require.Equal(t, ours.ID, c.Opening(0), "another set's")

	c = deploys(t) // beside Init, which replaces the deployment of these nodes
	old := identity(7, 8, 9)
	for i := range 3 {
		s := seal(i, old)
		if i == 0 {
			s.Seal.Listed = ours
		}
		c.sees(i, s)
	}
	c.none()
}

// When a node has got another id, older looks at the others are of no use.
func TestOlderLooks_R30(t *testing.T) {
	c := deploys(t)
	for i := range 3 {
		c.sees(i, named(i))
	}
	c.sees(0, named(8))
	require.Equal(t, []Order{{Verb: Look, Node: 1}, {Verb: Look, Node: 2}}, c.next())
}

// Two nodes with one id are one master, or one is a copy of the other.
func TestTwins_R30(t *testing.T) {
	c := deploys(t)
	for i := range 3 {
		c.sees(i, named(min(i, 1)))
	}
	c.none()
	require.Equal(t, BerthTwin, c.Berth(2), "which says what to do")

	c = deploys(t)
	for i := range 3 {
		c.sees(i, seal(min(i, 1), ours))
	}
	require.True(t, c.Counts(1))
	require.False(t, c.Counts(2))
	require.Equal(t, BerthTwin, c.Berth(2))
	c.Part(0)
	require.False(t, c.Counts(1) && c.Counts(2))

	c = deploys(t)
	c.sees(1, seal(1, ours))
	c.sees(2, seal(1, ours))
	_, bound := c.Identity()
	require.False(t, bound, "they have one vote")
}

// The names by which a client knows the members get into all seals.
func TestNamesGrow_R30(t *testing.T) {
	c := deploysOf(t, "A:2", "b:1", "c:1")
	for i := range 3 {
		c.sees(i, seal(i, ours))
	}
	all := c.next()
	require.Len(t, all, 3)
	for i, o := range all {
		require.Equal(t, Order{Write, i, c.Seen(i).Seal.Seat, c.Seen(i).Seal.Seat, namesOf(0, 1, 2).With(member(0), NameOf("a:2", 0))}, o)
		c.done(o)
	}
	c.none()
	full := namesOf(0, 1, 2)
	for i := range 3 {
		full = full.With(member(0), NameOf("x", i))
	}
	for i := range 3 {
		s := seal(i, ours)
		s.Seal.Names = full
		c.sees(i, s)
	}
	c.none()
	require.True(t, c.Nameless(0))
	require.False(t, c.Nameless(1))
}

// Two identities, or another number of nodes, on a single node stop everything.
// A node that is down keeps what it showed, and one that is listed for others
// counts as theirs: its seal may be on the way, and others be sealed.
func TestRivals_R30(t *testing.T) {
	for name, other := range map[string]Sighting{
		"sealed": seal(7, identity(7, 8, 9)),
		"listed": listing(7, identity(7, 8, 9), namesOf(7, 8, 9)),
	} {
		c := deploys(t)
		for i := range 3 {
			c.sees(i, seal(i, ours))
		}
		require.True(t, c.Counts(0))
		c.sees(2, other)
		for _, stays := range []func(){func() {}, func() { c.Part(2) }, func() { c.Join(2) }} {
			stays()
			for i := range 3 {
				require.False(t, c.Counts(i), name)
				require.Equal(t, BerthRivals, c.Berth(i))
			}
			node, first, ok := c.Rivals()
			require.Equal(t, []any{2, 0, true}, []any{node, first, ok})
			require.Equal(t, c.now, c.RivalsAsked())
			shown, bound := c.Identity()
			require.Zero(t, shown)
			require.False(t, bound)
		}
		c.sees(2, seal(2, ours))
		require.True(t, c.Counts(2))
	}
	c := deploys(t)
	c.sees(1, seal(1, identity(1, 2)))
	node, first, ok := c.Rivals()
	require.Equal(t, []any{1, 1, true}, []any{node, first, ok})
	c.none()
}

// A quorum of the nodes must show the identity.
func TestLessThanAQuorum_R30(t *testing.T) {
	c := deploysOf(t, "a:1", "x:1", "y:1")
	c.sees(0, seal(0, ours))
	require.False(t, c.Counts(0))
	require.True(t, c.Pending(0))
	require.Equal(t, BerthUnopened, c.Berth(0))
	require.Equal(t, BerthStranger, c.Berth(1))
	c.sees(1, seal(1, ours))
	require.True(t, c.Counts(0))
}

// The seals of a deployment that is replaced prove nothing, neither before its
// nodes are sealed anew nor after that.
func TestReplacedSealIsNoProof_R30(t *testing.T) {
	c := deploys(t)
	c.Replaces = []string{ours.ID}
	for i := range 3 {
		require.Equal(t, SealAbsent, c.Proof(seal(i, ours)).What)
		c.sees(i, seal(i, ours))
	}
	for i, o := range c.next() {
		require.Equal(t, Order{Write, i, seal(i, ours).Seal.Seat, Seat{Member: o.Is.Member, Open: ours}, ""}, o)
		require.False(t, ours.Has(o.Is.Member), "the same id would follow")
		c.done(o)
	}
	for range 3 {
		o := c.next()[0]
		require.Equal(t, c.Shown(o.Node), o.Is.Open, "it stays")
		c.done(o)
		require.False(t, c.Debut())
	}
	for range 2 { // the first, and then the others
		for _, o := range c.next() {
			c.done(o)
			require.Equal(t, Sighting{What: SealSeen, Seal: Seal{Seat: o.Is, Names: o.Names}}, c.Seen(o.Node))
			require.NotEqual(t, ours, o.Is.Open)
		}
	}
	require.True(t, c.Counts(0) && c.Counts(1) && c.Counts(2))
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
				assert.Equal(t, d.now+min(c.settles, settlePass), d.Wait(d.now))
				d.passes(c.settles - 1)
				d.none()
				d.passes(1)
			}
			assert.Zero(t, d.Settles(d.now))
			d.seals()
		})
	}
	c := deploys(t)
	c.Need = 30 * time.Second
	c.Born(1, c.now)
	c.passes(adoptWithin)
	for _, o := range c.next() {
		c.Answer(o.Node, o, false, c.now) // another client was faster
		c.one(Look, o.Node)
		c.sees(o.Node, named(o.Node))
	}
	assert.Zero(t, c.Settles(c.now), "its connections are as old as before")
	c = deploys(t)
	c.Born(1, c.now)
	c.Part(2)
	assert.Zero(t, c.Settles(c.now), "it waits for a node that is missing")
	c = deploys(t)
	c.Born(1, c.now)
	c.Founds = true
	c.seals()
}

// A client that founds a set in place of a deployment with a longer MaxTTL
// waits first for as long as its locks last longer than the clients of the new
// one wait.
func TestReplacesALongerMaxTTL_R30(t *testing.T) {
	for _, c := range []struct{ maxTTL, waits time.Duration }{
		{time.Minute, NeedFor(time.Minute, 0.01) - NeedFor(10*time.Second, 0.01)},
		{10 * time.Second, 0},
		{time.Second, 0},
	} {
		d := deploys(t)
		d.Founds, d.Need, d.Drift, d.Replaces = true, NeedFor(10*time.Second, 0.01), 0.01, []string{ours.ID}
		s := seal(1, ours)
		s.Seal.MaxTTL = c.maxTTL
		d.sees(1, s)
		assert.Equal(t, c.waits, d.Settles(d.now))
		if c.waits > 0 {
			d.none()
			d.passes(c.waits - 1)
			d.none()
			d.passes(1)
		}
		d.seals()
	}
}

// When all is settled, nothing is done, and nothing is allocated.
func TestSettledAllocatesNothing(t *testing.T) {
	c := deploys(t)
	for i := range 3 {
		c.sees(i, seal(i, ours))
	}
	random := func() uint64 { return 1 }
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if c.Next(c.now, random).Verb != Nothing || c.Wait(c.now) <= c.now || !c.Counts(2) {
			t.Error("something is to be done")
		}
	}))
}

// The node that started last counts for all, by its own account at a debut. By
// its watch, if a node was in a deployment before, or is not believed. A client
// that founds a new set needs neither (R29).
func TestSince_R29(t *testing.T) {
	const need = 30 * time.Second
	for name, c := range map[string]struct {
		does  func(c *deployer, all []Trust)
		since time.Duration
	}{
		"a debut":                  {func(*deployer, []Trust) {}, 30 * time.Minute},
		"while it is opened":       {func(c *deployer, _ []Trust) { c.lists() }, 30 * time.Minute},
		"one is not believed":      {func(_ *deployer, all []Trust) { all[0].Account.Believed = false }, 58 * time.Minute},
		"one was flushed":          {func(_ *deployer, all []Trust) { all[0].Why = WhyVanished }, 58 * time.Minute},
		"one is of a former set":   {func(c *deployer, _ []Trust) { c.Replaces = []string{ours.ID}; c.sees(1, seal(1, ours)) }, time.Hour},
		"one of another database":  {func(c *deployer, _ []Trust) { c.Founds, c.Replaces = true, []string{ours.ID} }, time.Hour},
		"it is founded":            {func(c *deployer, _ []Trust) { c.Founds = true }, time.Hour - need},
		"it is founded, not a new": {func(c *deployer, _ []Trust) { c.Founds = true; c.sees(1, Sighting{What: SealStrange}) }, 59 * time.Minute},
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
			assert.Equal(t, c.since, d.Since(func(i int) Trust { return all[i] }, d.now))
		})
	}
}

// What another client has listed, this one lists again before it opens the set:
// the script looks into the other databases for it, too. One of them may have
// the seals of a deployment that the other client replaces.
func TestListsItself_R30(t *testing.T) {
	for name, at := range map[string]int{"": -1, "another database": 1} {
		c := deploys(t)
		for i := range 3 {
			c.sees(i, listing(i, ours, namesOf(0, 1, 2)))
		}
		for i := range 3 {
			o := c.one(Write, i)
			require.Equal(t, listing(i, ours, "").Seal.Seat, o.Is)
			require.Equal(t, o.Was, o.Is)
			require.NotEmpty(t, o.Names)
			if i == at {
				require.NoError(t, c.Elsewhere(i, "0 "+identity(7, 8, 9).ID))
				break
			}
			c.done(o)
		}
		if name != "" {
			c.none()
			require.Equal(t, BerthElsewhere, c.Berth(at))
			continue
		}
		require.Equal(t, ours, c.one(Write, 0).Is.Open)
	}
}

// A client that does not know whether its order opened the set orders nothing
// else, and vouches for nothing. If another has opened it, what this one has
// watched is no proof (R29).
func TestAnotherOpensTheSet_R29(t *testing.T) {
	for name, lost := range map[string]func(c *deployer, o Order){
		"another is first": func(c *deployer, o Order) { c.Answer(o.Node, o, false, c.now) },
		"it cannot":        func(c *deployer, o Order) { c.Drop(o.Node) },
		"the connection":   func(c *deployer, o Order) { c.Part(o.Node) },
		"another database": func(c *deployer, o Order) { _ = c.Elsewhere(o.Node, "1 "+ours.ID) },
	} {
		c := deploys(t)
		c.lists()
		all := c.next()
		require.Len(t, all, 1)
		who := all[0].Is.Open
		require.True(t, c.Opens() && c.Vouches(who) && !c.Renews(who))
		for i := range 3 {
			if i != all[0].Node {
				c.sees(i, Sighting{What: SealSeen, Seal: Seal{Seat: Seat{Member: c.Seen(i).Seal.Member, Open: who}}})
				require.False(t, c.Counts(i) || c.Rebound(), "it may be its own")
			}
		}
		c.none()
		lost(c, all[0])
		require.Equal(t, name == "another is first", c.Opened == "")
		require.True(t, c.Rebound(), name)
		require.True(t, c.Renews(who))
	}
}

// Once a client belongs to a deployment, only the seals of that prove anything,
// and it may say in them how long it has watched. Where another client has
// opened it, what this one watched before is no proof (R29, R30).
func TestJoiningAnothersDeployment_R29_R30(t *testing.T) {
	c := deploys(t)
	other := identity(0, 1, 9)
	proves := func(s Sighting) bool { return c.Proof(s).What == SealSeen }
	assert.True(t, proves(seal(0, ours)), "until it is known which is its own")
	assert.False(t, proves(named(0)))
	assert.False(t, c.Vouches(ours))
	assert.False(t, c.Vouches(Identity{}))
	c.sees(0, seal(0, ours))
	assert.False(t, c.Rebound(), "a quorum shows it")
	assert.False(t, c.Vouches(ours))
	c.sees(1, seal(1, ours))
	assert.True(t, c.Rebound())
	assert.False(t, c.Rebound(), "once")
	assert.True(t, c.Vouches(ours))
	assert.True(t, proves(seal(0, ours)))
	assert.False(t, proves(seal(0, other)))
	c.sees(0, seal(0, other))
	assert.True(t, c.Vouches(ours), "one node is no quorum")
	c.sees(1, seal(1, other))
	c.sees(2, seal(9, other))
	assert.True(t, c.Rebound())
	assert.False(t, c.Vouches(ours))

	// With its own, it is bound as soon as all nodes are listed: from then on
	// they are sealed.
	c = deploys(t)
	c.lists()
	assert.Empty(t, c.bound)
	seals := c.next()
	who := seals[0].Is.Open
	assert.True(t, c.Vouches(who))
	assert.False(t, proves(seal(0, ours)), "a look that comes late")
	c.done(seals...)
	assert.False(t, c.Rebound())
}

// A set that was lost and opened anew is not stuck because a client was away
// from a node in between: what the node was seen in then was the client's own.
func TestFormerDeploymentOfTheSameSet_R30(t *testing.T) {
	c := deploys(t)
	c.Part(0)
	c.Join(0)
	c.sees(0, seal(0, ours)) // it never sees a quorum of it
	for i := range 3 {
		c.Part(i)
		c.Join(i)
		c.sees(i, Sighting{What: SealAbsent})
		assert.Empty(t, c.Former(i))
	}
	c.seals()

	c = deploys(t) // both were its own, and a node comes back that was only in the first
	for node, s := range []Sighting{seal(0, ours), seal(1, ours), seal(2, ours), {}, seal(7, identity(7, 8, 9)), seal(8, identity(7, 8, 9))} {
		s.Seal.Names = ""
		if node == 3 {
			s.What = SealAbsent
		}
		c.sees(node%3, s)
	}
	assert.Empty(t, c.Former(0))

	c = deploys(t)
	s := seal(7, identity(7, 8, 9))
	s.Seal.Names = namesOf(9, 8, 7).With(member(8), NameOf("x", 0))
	s.Seal.Names = Names(strings.Replace(string(s.Seal.Names), NameOf("b:1", 0), NameOf("y", 0), 1))
	c.sees(2, s)
	c.sees(2, Sighting{What: SealAbsent})
	assert.NotEmpty(t, c.Former(2), "it is another set's")
	c.none()
}

// A node with another database in a set is refused, until it is empty.
func TestElsewhere_R30(t *testing.T) {
	c := deploys(t)
	c.next()
	for _, text := range []string{"", "3", "x " + ours.ID, "-1 " + ours.ID, "3 " + ours.ID + " "} {
		require.ErrorIs(t, c.Elsewhere(1, text), errElsewhere, text)
	}
	require.NoError(t, c.Elsewhere(1, "3 "+ours.ID))
	node, other, ok := c.Other()
	require.Equal(t, []any{1, Other{3, ours.ID}, true}, []any{node, other, ok})
	for i := range 3 {
		require.Equal(t, BerthElsewhere, c.Berth(i))
	}
	c.none() // before a look
	c.sees(1, Sighting{What: SealAbsent})
	o := c.one(Write, 1)
	c.done(o)
	_, _, ok = c.Other()
	require.False(t, ok)
}

// What most seals say of the names stays, also of a member that is down. So its
// empty successor gets its place, though no other master has kept its seal.
func TestNamesOfTheDeadStay_R30(t *testing.T) {
	set := []string{"a:1", "b:1", "c:1"}
	w := &shelf{seals: make(map[string]Seal)}
	x := &opener{deployer: deploysOf(t, set...), set: set}
	x.run(w)
	x.Part(2)
	for i := range 2 {
		delete(w.seals, set[i])
		x.Part(i)
		x.Join(i)
		x.looks(w, i)
		x.run(w)
		require.True(t, x.Counts(i))
	}
	delete(w.seals, set[2])
	y := &opener{deployer: deploysOf(t, set...), set: set}
	y.run(w)
	require.True(t, y.Counts(2))
}

// A deployment is replaced by one of the same masters or of others, while a
// client of the old one lives. However often Init dies, it can be repeated.
func TestReplacingIsRepeated_R30(t *testing.T) {
	sets := [][]string{{"a:1", "b:1", "c:1"}, {"b:1", "c:1", "d:1"}}
	for seed := range uint64(600) {
		random := rand.New(rand.NewPCG(seed, 7))
		w := &shelf{seals: make(map[string]Seal)}
		opens := func(ids uint64, set []string) *opener {
			c := &opener{deployer: deploysOf(t, set...), set: set}
			c.random = ids
			return c
		}
		x := opens(1<<40, sets[0])
		x.run(w)
		old, bound := x.Identity()
		require.True(t, bound)
		set := sets[seed%2]
		begins := func() *opener {
			c := opens(random.Uint64()>>1, set)
			c.Founds, c.Replaces = true, []string{old.ID}
			c.all(w)
			c.passes(time.Minute)
			return c
		}
		in := begins()
		for range random.IntN(50) {
			switch k := random.IntN(20); {
			case k == 0:
				in = begins() // what is under way never comes
			case k < 4:
				in.looks(w, random.IntN(3))
			case k < 6:
				x.looks(w, random.IntN(3))
			case k < 12:
				x.passes(time.Second)
				x.step(w, random)
			case k == 12 && seed%4 > 1:
				delete(w.seals, set[random.IntN(3)])
			default:
				in.step(w, random)
			}
		}
		in = begins()
		for range 80 {
			in.all(w)
			in.passes(time.Second)
			in.run(w) // sooner than the old client looks again
			x.all(w)
			x.passes(time.Second)
			x.step(w, random)
		}
		c := opens(1<<50, set)
		for range 20 {
			c.all(w)
			c.passes(time.Second)
			c.run(w)
		}
		require.True(t, c.Counts(0) && c.Counts(1) && c.Counts(2), "seed %d: %v", seed, w.seals)
	}
}
