package member

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/assert"
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
