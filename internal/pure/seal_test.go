package pure

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	seatText = "redlock-seal 5 member=aaaaaaaaaaaaaaaa"
	setText  = "=0123456789abcdef0123456789abcdef members=aaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbb names=aaaaaaaaaaaaaaaa:0000000000000001"
	sealText = seatText + " deployment" + setText + " run_id=abcd max_ttl_ms=10000 watched_ms=0 uptime_ms=77"
	// overSealText is the seal of a node that fails over.
	overSealText = seatText + " deployment" + setText + " run_id=abcd max_ttl_ms=10000 failover_ms=7000 watched_ms=0 uptime_ms=77"
)

var anIdentity = Identity{"0123456789abcdef0123456789abcdef", "aaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbb"}

func TestSealIsText(t *testing.T) {
	free := Seat{Member: "aaaaaaaaaaaaaaaa"}
	listed, open := free, free
	listed.Listed, open.Open = anIdentity, anIdentity
	const names = "aaaaaaaaaaaaaaaa:0000000000000001"
	for text, seal := range map[string]Seal{
		seatText:                       {Seat: free},
		seatText + " listed" + setText: {Seat: listed, Names: names},
		sealText:                       {open, names, "abcd", 10 * time.Second, 0, Failover{}, 77 * ms},
		strings.Replace(sealText, "abcd m", "- m", 1): {open, names, NoRun, 10 * time.Second, 0, Failover{}, 77 * ms},
		overSealText: {open, names, "abcd", 10 * time.Second, 0, Failover{Expected: true, Bound: 7 * time.Second}, 77 * ms},
		strings.Replace(overSealText, "r_ms=7000", "r_ms=0", 1): {open, names, "abcd", 10 * time.Second, 0, Failover{Expected: true}, 77 * ms},
	} {
		assert.Equal(t, text, seal.String())
		again, err := ParseSeal(text)
		require.NoError(t, err, text)
		assert.Equal(t, seal, again)
	}
}

func TestLaterForms(t *testing.T) {
	for text, later := range map[string]bool{
		sealText: false, "redlock-seal 5 x": false, "redlock-seal 6 x": true, "redlock-seal 12": true,
		"redlock-seal 1 x": false, "redlock-seal x": false, "redlock-seal": false, "redlock-seal -6 x": false, "6": false, "": false,
	} {
		assert.Equal(t, later, LaterForm(text), text)
	}
}

// Names of hosts do not depend on case: clients that write them differently
// name the same members. Names of masters do, for sentinels, and so do paths.
// The database belongs to the name.
func TestNamesInAnyCaseAreTheSame_R30(t *testing.T) {
	of := func(addr string) string { return NameOf(addr, 0) }
	require.Equal(t, of("redis1.example:6379"), of("Redis1.Example:6379"))
	require.NotEqual(t, of("redis1.example:6379"), of("redis1.example:6380"))
	require.Equal(t, of("sentinel:a:1,b:1/m"), of("sentinel:A:1,b:1/m"))
	require.NotEqual(t, of("sentinel:a:1,b:1/m"), of("sentinel:a:1,b:1/M"))
	require.NotEqual(t, of("unix:/run/redis"), of("unix:/run/Redis"))
	require.NotEqual(t, of("a:1"), NameOf("a:1", 1))
	require.Len(t, of("a:1"), memberDigits)
}

func TestWhatIsNoSeal(t *testing.T) {
	swap := func(text, from, to string) string {
		require.Contains(t, text, from)
		return strings.Replace(text, from, to, 1)
	}
	for _, text := range []string{
		"", "x", "redlock-seal", " " + sealText, sealText + " ", seatText + " ", seatText + "  ", seatText + " listed",
		swap(sealText, "seal 5", "seal 4"), swap(sealText, "seal 5", "seal 6"),
		swap(overSealText, "=7000", "=-7"), swap(overSealText, " max_ttl_ms=10000", ""),
		swap(sealText, "abcd ", " "), swap(sealText, "abcd", "a b"),
		swap(sealText, "=10000", "="), swap(sealText, "=10000", "=0"), swap(sealText, "=10000", "=-1"),
		swap(sealText, "=10000", "=+1"), swap(sealText, "=10000", "=1.5"),
		swap(sealText, "=10000", "=9223372036854775"), // would overflow
		swap(sealText, " uptime_ms=77", ""), swap(sealText, "=77", "="), swap(sealText, "=77", "=-1"),
		swap(sealText, "=0123", "=123"), swap(sealText, "=0123", "=012G"), swap(sealText, "=0123", "=ABCD"),
		swap(sealText, "bbb names", "bb names"), swap(sealText, ",bbb", ",,bbb"),
		swap(sealText, "bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa"),                                 // twice
		swap(sealText, "members=aaaaaaaaaaaaaaaa", "members=cccccccccccccccc"),                 // not sorted
		swap(seatText+" listed"+setText, "member=aaaaaaaaaaaaaaaa", "member=cccccccccccccccc"), // not a member
		swap(sealText, "members=", "members="+strings.Repeat("0123456789abcdef,", 16)),         // too many
		swap(sealText, " names=aaaaaaaaaaaaaaaa:0000000000000001", ""), swap(sealText, "0001 run", "001 run"), swap(sealText, "0001 run", "0001, run"),
		swap(sealText, " run_id", "  run_id"), swap(seatText+" listed"+setText, " names=", " run_id=a names="),
	} {
		_, err := ParseSeal(text)
		assert.ErrorIs(t, err, errSeal, "%q", text)
	}
}

// A deployment's id follows from its members, in any order.
func TestIdentity(t *testing.T) {
	a, b := member(1), member(2)
	who := IdentityOf([]string{b, a})
	assert.Equal(t, IdentityOf([]string{a, b}), who)
	assert.NotEqual(t, who.ID, IdentityOf([]string{a}).ID)
	assert.True(t, who.sound())
	assert.Equal(t, 2, who.Nodes())
	assert.Zero(t, Identity{}.Nodes())
	assert.True(t, who.Has(a))
	assert.False(t, who.Has(member(3)))
	assert.False(t, who.Has(""))
}

func TestNames(t *testing.T) {
	a, b := member(1), member(2)
	var n Names
	for i := range 6 {
		n = n.With(a, NameOf("a", i))
	}
	assert.Equal(t, a, n.Member(NameOf("a", mostNames-1)))
	assert.Empty(t, n.Member(NameOf("a", mostNames)), "four at most")
	assert.False(t, n.Lacks(a, NameOf("a", mostNames)))
	assert.True(t, n.Lacks(b, NameOf("a", 0)))
	assert.Equal(t, n, n.With(a, NameOf("a", 0)), "it has it")
	n = n.And(Names("").With(b, NameOf("b", 0)))
	assert.Equal(t, b, n.Member(NameOf("b", 0)))
	assert.True(t, n.sound(IdentityOf([]string{a, b})))
	n = n.With(b, NameOf("a", 0))
	assert.Empty(t, n.Member(NameOf("a", 0)), "of two")
}

func TestFreeNodes(t *testing.T) {
	for name, c := range map[string]struct {
		s    Sighting
		free bool
	}{
		"empty":          {Sighting{What: SealAbsent}, true},
		"an id":          {named(1), true},
		"a seal":         {seal(1, ours), false},
		"listed":         {listing(1, ours, ""), false},
		"not a seal":     {Sighting{What: SealStrange}, false},
		"cannot be read": {Sighting{What: Unreadable}, false},
	} {
		assert.Equal(t, c.free, c.s.Free(), name)
	}
}

func FuzzParseSeal(f *testing.F) {
	f.Add(seatText)
	f.Add(sealText)
	f.Add(overSealText)
	f.Add(seatText + " listed" + setText)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSeal(text)
		if err != nil {
			return
		}
		again, err := ParseSeal(s.String())
		if err != nil || again != s {
			t.Errorf("%q became %q", text, s)
		}
		if s.Open != (Identity{}) && (s.MaxTTL <= 0 || s.Watched < 0 || NeedFor(s.MaxTTL, 0.999) <= s.MaxTTL) {
			t.Errorf("%q is out of bounds", text)
		}
	})
}
