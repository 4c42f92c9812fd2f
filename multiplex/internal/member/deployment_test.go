package member

import (
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/assert"
)

// A seal says anew what was watched when the node comes into a deployment, and
// when that is to be renewed. All other writes leave it as it is (R23).
func TestWhatWritesAProof_R23_R30(t *testing.T) {
	const member = "0123456789abcdef"
	old, who := pure.IdentityOf([]string{"a"}), pure.IdentityOf([]string{member})
	m := New(Config{Nodes: []Address{{Addr: "a:1"}}, MaxTTL: time.Second}, nil)
	for name, c := range map[string]struct {
		was, is pure.Seat
		names   pure.Names
		proves  bool
	}{
		"it gets an id":         {pure.Seat{}, pure.Seat{Member: member}, "", false},
		"it is listed":          {pure.Seat{Member: member}, pure.Seat{Member: member, Listed: who}, "x", false},
		"… and replaced":        {pure.Seat{Member: member, Open: old}, pure.Seat{Member: member, Listed: who, Open: old}, "x", false},
		"… once more":           {pure.Seat{Member: member, Listed: who}, pure.Seat{Member: member, Listed: who}, "x", false},
		"it is sealed":          {pure.Seat{Member: member, Listed: who}, pure.Seat{Member: member, Open: who}, "x", true},
		"… in place of another": {pure.Seat{Member: member, Listed: who, Open: old}, pure.Seat{Member: member, Open: who}, "x", true},
		"it is adopted":         {pure.Seat{}, pure.Seat{Member: member, Open: who}, "x", true},
		"it gets a name":        {pure.Seat{Member: member, Open: who}, pure.Seat{Member: member, Open: who}, "x", false},
		"it is renewed":         {pure.Seat{Member: member, Open: who}, pure.Seat{Member: member, Open: who}, "", true},
	} {
		args, _ := m.arguments(pure.Order{Verb: pure.Write, Was: c.was, Is: c.is, Names: c.names}, 0)
		assert.Equal(t, c.proves, strings.HasPrefix(args[3], "run_id="), "%s: %q", name, args)
		into := c.was.Open == (pure.Identity{}) || c.is.Open != c.was.Open || c.is.Listed != (pure.Identity{})
		assert.Equal(t, into, len(args) == 6, "%s: the other databases matter where a node comes into a set: %q", name, args)
	}
}
