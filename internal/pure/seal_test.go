package pure

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	idText      = "deployment=0123456789abcdef0123456789abcdef nodes=2 members=aaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbb"
	newSealText = "redlock-seal 3 " + idText + " run_id=abcd max_ttl_ms=10000 watched_ms=0 uptime_ms=77"
	// overSealText is the seal of a node that fails over.
	overSealText = "redlock-seal 4 " + idText + " run_id=abcd max_ttl_ms=10000 failover_ms=7000 watched_ms=0 uptime_ms=77"
	oldSealText  = "redlock-seal 1 run_id=abcd max_ttl_ms=10000 watched_ms=10105"
)

var anIdentity = Identity{"0123456789abcdef0123456789abcdef", 2, "aaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbb"}

func TestSealIsText(t *testing.T) {
	for text, seal := range map[string]Seal{
		oldSealText: {Identity{}, "abcd", 10 * time.Second, 10105 * ms, Failover{}, 0},
		newSealText: {anIdentity, "abcd", 10 * time.Second, 0, Failover{}, 77 * ms},
		strings.Replace(newSealText, "abcd m", "- m", 1): {anIdentity, NoRun, 10 * time.Second, 0, Failover{}, 77 * ms},
		overSealText: {anIdentity, "abcd", 10 * time.Second, 0, Failover{Expected: true, Bound: 7 * time.Second}, 77 * ms},
		strings.Replace(overSealText, "r_ms=7000", "r_ms=0", 1): {anIdentity, "abcd", 10 * time.Second, 0, Failover{Expected: true}, 77 * ms},
	} {
		assert.Equal(t, text, seal.String())
		again, err := ParseSeal(text)
		require.NoError(t, err, text)
		assert.Equal(t, seal, again)
	}
}

// A seal of form 2 is read, and says how long a process was watched whose
// history is not known.
func TestSealOfFormTwoNamesNoHistory_R23(t *testing.T) {
	s, err := ParseSeal(strings.Replace(newSealText, "seal 3", "seal 2", 1))
	require.NoError(t, err)
	assert.Equal(t, newSealText, s.String())
	watched := Trust{Need: time.Second}.Meet(ProcessName("abcd", "h"), time.Hour)
	s.Watched = time.Minute
	assert.False(t, watched.Sight(Sighting{What: SealSeen, Seal: s}, time.Hour).Trusted)
	s.Run = ProcessName("abcd", "h")
	assert.True(t, watched.Sight(Sighting{What: SealSeen, Seal: s}, time.Hour).Trusted)
}

func TestLaterForms(t *testing.T) {
	for text, later := range map[string]bool{
		newSealText: false, oldSealText: false, "redlock-seal 4 x": false, "redlock-seal 5 x": true, "redlock-seal 12": true, "redlock-opening 2 x": true,
		"redlock-opening 1 locked": false, "redlock-seal x": false, "redlock-seal": false, "redlock-seal -4 x": false, "4": false, "": false,
	} {
		assert.Equal(t, later, LaterForm(text), text)
	}
}

func TestOpeningIsText(t *testing.T) {
	for text, opening := range map[string]Opening{
		"redlock-opening 1 proposed " + idText: {Proposed, anIdentity},
		"redlock-opening 1 locked " + idText:   {Locked, anIdentity},
	} {
		assert.Equal(t, text, opening.String())
		again, err := ParseOpening(text)
		require.NoError(t, err, text)
		assert.Equal(t, opening, again)
		for _, odd := range []string{text + " ", text + "x", " " + text, strings.Replace(text, " 1 ", " 2 ", 1), strings.Replace(text, "ed ", " ", 1)} {
			_, err := ParseOpening(odd)
			assert.ErrorIs(t, err, errSeal, "%q", odd)
		}
	}
}

// Names of hosts do not depend on case: clients that write them differently
// name the same members. Names of masters do, for sentinels, and so do paths.
func TestMembersInAnyCaseAreTheSame_R30(t *testing.T) {
	require.Equal(t, MemberOf("redis1.example:6379"), MemberOf("Redis1.Example:6379"))
	require.NotEqual(t, MemberOf("redis1.example:6379"), MemberOf("redis1.example:6380"))
	require.Equal(t, MemberOf("sentinel:a:1,b:1/m"), MemberOf("sentinel:A:1,b:1/m"))
	require.NotEqual(t, MemberOf("sentinel:a:1,b:1/m"), MemberOf("sentinel:a:1,b:1/M"))
	require.NotEqual(t, MemberOf("unix:/run/redis"), MemberOf("unix:/run/Redis"))
}

func TestWhatIsNoSeal(t *testing.T) {
	swap := func(text, from, to string) string {
		require.Contains(t, text, from)
		return strings.Replace(text, from, to, 1)
	}
	for _, text := range []string{
		"", "x", "redlock-seal", "redlock-seal 1 run_id=", "redlock-seal 1 run_id=a", "redlock-seal 1 run_id=a max_ttl_ms=1",
		"redlock-seal 2 run_id=a max_ttl_ms=1 watched_ms=1", "redlock-seal 2 " + idText, " " + newSealText, newSealText + " ",
		swap(oldSealText, "seal 1", "seal 4"),
		swap(newSealText, "seal 3", "seal 5"),
		swap(newSealText, "seal 3", "seal 4"), swap(overSealText, "seal 4", "seal 3"), swap(overSealText, "=7000", "=-7"),
		swap(oldSealText, "abcd", ""),
		swap(oldSealText, "abcd", "a b"),
		swap(oldSealText, "=10000", "="),
		swap(oldSealText, "=10000", "=0"),
		swap(oldSealText, "=10000", "=-1"),
		swap(oldSealText, "=10000", "=+1"),
		swap(oldSealText, "=10000", "=1.5"),
		swap(oldSealText, "=10105", "=0"), // the older form is a proof
		swap(oldSealText, "=10105", "=99999999999999999999"),
		swap(oldSealText, "=10000", "=9223372036854775"), // would overflow
		swap(newSealText, " uptime_ms=77", ""),
		swap(newSealText, "=77", "="),
		swap(newSealText, "=77", "=-1"),
		oldSealText + " uptime_ms=77",
		swap(newSealText, "=0123", "=123"),
		swap(newSealText, "=0123", "=012G"),
		swap(newSealText, "=0123", "=ABCD"),
		swap(newSealText, "nodes=2", "nodes=1"),
		swap(newSealText, "nodes=2", "nodes=02"),
		swap(newSealText, "nodes=2", "nodes=17"),
		swap(newSealText, ",bbbbbbbbbbbbbbbb", ""),
		swap(newSealText, ",", ",,"),
		swap(newSealText, "aaaaaaaaaaaaaaaa", "aaaa"),
		swap(newSealText, " run_id", "  run_id"),
	} {
		_, err := ParseSeal(text)
		assert.ErrorIs(t, err, errSeal, "%q", text)
	}
}

// Members are hashes of addresses, in one order whatever the client's is.
func TestMembers(t *testing.T) {
	a, b := MemberOf("a:1"), MemberOf("b:1")
	assert.Len(t, a, 16)
	assert.NotEqual(t, a, b)
	who := Identity{anIdentity.ID, 2, MembersOf([]string{"a:1", "b:1"})}
	assert.Equal(t, MembersOf([]string{"b:1", "a:1"}), who.Members)
	assert.True(t, who.sound())
	assert.True(t, who.Lists(a))
	assert.False(t, who.Lists(MemberOf("c:1")))
}

func TestFreeNodes(t *testing.T) {
	old := Seal{Run: "a", MaxTTL: ms, Watched: ms}
	for name, c := range map[string]struct {
		s    Sighting
		free bool
	}{
		"empty":            {Sighting{What: SealAbsent}, true},
		"an older seal":    {Sighting{What: SealSeen, Seal: old}, true},
		"a seal":           {Sighting{What: SealSeen, Seal: Seal{Identity: anIdentity}}, false},
		"an opening":       {Sighting{What: SealAbsent, Opening: Opening{Proposed, anIdentity}}, false},
		"not a seal":       {Sighting{What: SealStrange}, false},
		"cannot be read":   {Sighting{What: Unreadable}, false},
		"both, and locked": {Sighting{What: SealSeen, Seal: old, Opening: Opening{Locked, anIdentity}}, false},
	} {
		assert.Equal(t, c.free, c.s.Free(), name)
	}
}

func FuzzParseSeal(f *testing.F) {
	f.Add(oldSealText)
	f.Add(newSealText)
	f.Add("redlock-seal 1 run_id=a max_ttl_ms=01 watched_ms=1")
	f.Add("redlock-opening 1 locked " + idText)
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := ParseOpening(text); err == nil && o.String() != text {
			t.Errorf("%q became %q", text, o)
		}
		s, err := ParseSeal(text)
		if err != nil {
			return
		}
		again, err := ParseSeal(s.String())
		if err != nil || again != s {
			t.Errorf("%q became %q", text, s)
		}
		if s.MaxTTL <= 0 || s.Watched < 0 || NeedFor(s.MaxTTL, 0.999) <= s.MaxTTL {
			t.Errorf("%q is out of bounds", text)
		}
	})
}
