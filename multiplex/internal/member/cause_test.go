package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An error about rivals says what each of the two nodes shows, and of a
// deployment of another size how many nodes this client has.
func TestRivalsAreNamed_R30(t *testing.T) {
	id := func(i int) string { return fmt.Sprintf("%016d", i) }
	three, others, two := pure.IdentityOf([]string{id(0), id(1), id(2)}), pure.IdentityOf([]string{id(3), id(4), id(5)}), pure.IdentityOf([]string{id(0), id(1)})
	of := func(who pure.Identity) string { return fmt.Sprintf("deployment %s of %d nodes", who.ID, who.Nodes()) }
	for want, seats := range map[string][2]pure.Seat{
		"node 1 (b:1) belongs to " + of(others) + ", by KEY, and node 0 (a:1) belongs to " + of(three) + ", by KEY":    {{Open: three}, {Open: others}},
		"node 1 (b:1) is listed for " + of(others) + ", by KEY, and node 0 (a:1) belongs to " + of(three) + ", by KEY": {{Open: three}, {Listed: others}},
		"node 0 (a:1) belongs to " + of(two) + ", by KEY, and this client has 3":                                       {{Open: two}, {}},
		"node 0 (a:1) belongs to " + of(three) + " and is listed for " + of(others) + ", by KEY":                       {{Listed: others, Open: three}, {Open: three}},
	} {
		m := New(Config{Nodes: []Address{{Addr: "a:1"}, {Addr: "b:1"}, {Addr: "c:1"}}}, nil)
		for i, seat := range seats {
			seat.Member = id(i)
			m.deployment.Join(i)
			m.deployment.Sight(i, pure.Sighting{What: pure.SealSeen, Seal: pure.Seal{Seat: seat}}, 0, 0)
		}
		assert.Equal(t, want, strings.ReplaceAll(m.rivals().Found, sealPlace, "KEY"))
	}
}

// What keeps a node out is said as it is, also where it depends on others.
func TestCausesAreTrue_R30(t *testing.T) {
	id := func(i int) string { return fmt.Sprintf("%016d", i) }
	who := pure.IdentityOf([]string{id(0), id(1), id(2)})
	names := func(addrs ...string) (all pure.Names) {
		for i, addr := range addrs {
			all = all.With(id(i), pure.NameOf(addr, 0))
		}
		return all
	}
	free := pure.Sighting{What: pure.SealAbsent}
	open := func(i int, n pure.Names) pure.Sighting {
		return pure.Sighting{What: pure.SealSeen, Seal: pure.Seal{Seat: pure.Seat{Member: id(i), Open: who}, Names: n, MaxTTL: time.Second}}
	}
	three, alone := names("a:1", "b:1", "c:1"), "is not that of just one member that is missing there"
	const late, needs = "which this client does not write: it only opens sets, or its MaxTTL", "no deployment is open, and to open one needs all nodes at one time"
	for name, c := range map[string]struct {
		config Config
		seen   [3]pure.Sighting
		down   Set
		says   string // of node 2
	}{
		"it is not listed":        {Config{}, [3]pure.Sighting{open(0, names("a:1", "b:1", "d:1")), open(1, ""), free}, 0, alone},
		"two have its name":       {Config{}, [3]pure.Sighting{open(0, three.With(id(1), pure.NameOf("c:1", 0))), open(1, ""), free}, 0, alone},
		"another is the member":   {Config{}, [3]pure.Sighting{open(0, three), open(2, three), free}, 0, alone},
		"it is adopted":           {Config{}, [3]pure.Sighting{open(0, three), open(1, three), free}, 0, "is being written"},
		"not by Init":             {Config{Found: true}, [3]pure.Sighting{open(0, three), open(1, three), free}, 0, late},
		"not by another MaxTTL":   {Config{MaxTTL: time.Minute}, [3]pure.Sighting{open(0, three), open(1, three), free}, 0, late},
		"not while none shows it": {Config{}, [3]pure.Sighting{open(0, three), open(1, three), free}, pure.SetOf(0).Add(1), "no node shows deployment " + who.ID + " of 3 nodes at the moment"},
		"it is listed, for Init":  {Config{Found: true}, [3]pure.Sighting{open(0, three), open(1, three), {What: pure.SealSeen, Seal: pure.Seal{Seat: pure.Seat{Member: id(2), Listed: who}, Names: three}}}, 0, "is being written"},
		"one is missing":          {Config{}, [3]pure.Sighting{free, free, free}, pure.SetOf(1), needs + "; missing: node 1 (b:1)"},
		"one is strange":          {Config{}, [3]pure.Sighting{free, {What: pure.SealStrange}, free}, 0, needs + "; node 1 (b:1): the key redlock:seal (behind the prefix) holds something else there"},
		"none is missing":         {Config{}, [3]pure.Sighting{free, free, free}, 0, "the set is being opened"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Nodes = []Address{{Addr: "a:1", Home: "a:1"}, {Addr: "b:1", Home: "b:1"}, {Addr: "c:1", Home: "c:1"}}
			c.config.MaxTTL = max(c.config.MaxTTL, time.Second)
			c.config.ReadSeal, c.config.WriteSeal = []byte("x"), func(...string) []byte { return nil }
			m := New(c.config, nil)
			for i, s := range c.seen {
				m.nodes[i].trust.Trusted = true
				m.up = pure.All(3).Without(c.down)
				m.deployment.Join(i)
				m.deployment.Sight(i, s, 0, 0)
				if c.down.Has(i) {
					m.deployment.Part(i)
				}
			}
			cause := m.Estranged(2, time.Hour)
			require.NotNil(t, cause)
			assert.Contains(t, cause.Found, c.says)
		})
	}
}
