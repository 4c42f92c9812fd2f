package supervise

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewID(t *testing.T) {
	a, b := newID(), newID()
	require.True(t, isID(a))
	require.NotEqual(t, a, b)
}

// The outer mark is kept if runs have made it, and dropped otherwise.
func TestMarkUnder(t *testing.T) {
	a, b, id := newID(), newID(), newID()
	deepest := strings.Repeat(a+",", mostOuter-1) + b
	for _, test := range []struct{ name, outer, want string }{
		{"no run", "", id},
		{"a run", a, a + "," + id},
		{"two runs", a + "," + b, a + "," + b + "," + id},
		{"as many as there may be", deepest, deepest + "," + id},
		{"one more", deepest + "," + a, id},
		{"huge", strings.Repeat("a", 1<<17), id},
		{"huge, with commas", strings.Repeat(",", 1<<17), id},
		{"a word", "yes", id},
		{"not hex", strings.Repeat("g", len(a)), id},
		{"capitals", strings.ToUpper(strings.Repeat("a", len(a))), id},
		{"too short", a[1:], id},
		{"too long", a + "0", id},
		{"an empty element", a + ",", id},
		{"one element that is no id", a + ",x," + b, id},
		{"control characters", a + "\n" + b, id},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, markUnder(test.outer, id)) })
	}
}

func TestCarries(t *testing.T) {
	a, b, id := newID(), newID(), newID()
	for _, test := range []struct {
		name    string
		environ string
		want    bool
	}{
		{"nothing", "", false},
		{"alone", "REDLOCK_RUN=" + id + "\x00", true},
		{"without the zero at the end", "REDLOCK_RUN=" + id, true},
		{"among others", "A=1\x00REDLOCK_RUN=" + id + "\x00B=2\x00", true},
		{"the innermost", "REDLOCK_RUN=" + a + "," + id + "\x00", true},
		{"the outermost", "REDLOCK_RUN=" + id + "," + a + "\x00", true},
		{"between", "REDLOCK_RUN=" + a + "," + id + "," + b + "\x00", true},
		{"in the second of two", "REDLOCK_RUN=" + a + "\x00REDLOCK_RUN=" + id + "\x00", true},
		{"another", "REDLOCK_RUN=" + a + "\x00", false},
		{"empty", "REDLOCK_RUN=\x00", false},
		{"a part", "REDLOCK_RUN=" + id[:31] + "\x00", false},
		{"more", "REDLOCK_RUN=" + id + "0\x00", false},
		{"more in front", "REDLOCK_RUN=0" + id + "\x00", false},
		{"another variable", "REDLOCK_RUNS=" + id + "\x00", false},
		{"the end of a name", "MY_REDLOCK_RUN=" + id + "\x00", false},
		{"within a value", "A=REDLOCK_RUN=" + id + "\x00", false},
		{"behind a line's end", "A=\nREDLOCK_RUN=" + id + "\x00", false},
		{"no setting", "REDLOCK_RUN\x00" + id + "\x00", false},
		{"garbage", "\xff\x00\x00=\x00,,,\x00REDLOCK_RUN=,,,\x00", false},
		{"garbage around it", "\xff\x00\x00=\x00REDLOCK_RUN=,\xff," + id + ",,\x00", true},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, carries([]byte(test.environ), id)) })
	}
}

// Nothing is looked for by what is not an id: an empty one would match every
// process.
func TestCarriesWhatIsNoID(t *testing.T) {
	for _, id := range []string{"", ",", "0", strings.Repeat("g", 32)} {
		require.False(t, carries([]byte("REDLOCK_RUN="+id+"\x00REDLOCK_RUN=\x00"), id), id)
	}
}
