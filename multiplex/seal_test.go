package multiplex

import (
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSealIsText(t *testing.T) {
	s := seal{"0123456789abcdef0123456789abcdef01234567", 10 * time.Second, 10105 * ms}
	text := "redlock-seal 1 run_id=0123456789abcdef0123456789abcdef01234567 max_ttl_ms=10000 watched_ms=10105"
	assert.Equal(t, text, s.String())
	again, err := parseSeal(text)
	require.NoError(t, err)
	assert.Equal(t, s, again)
}

func TestWhatIsNoSeal(t *testing.T) {
	for _, text := range []string{
		"", "x", "redlock-seal", "redlock-seal 1 run_id=", "redlock-seal 1 run_id=a", "redlock-seal 1 run_id=a max_ttl_ms=1",
		"redlock-seal 2 run_id=a max_ttl_ms=1 watched_ms=1",
		"redlock-seal 1 run_id= max_ttl_ms=1 watched_ms=1",
		"redlock-seal 1 run_id=a b max_ttl_ms=1 watched_ms=1",
		"redlock-seal 1 run_id=a max_ttl_ms= watched_ms=1",
		"redlock-seal 1 run_id=a max_ttl_ms=0 watched_ms=1",
		"redlock-seal 1 run_id=a max_ttl_ms=1 watched_ms=0",
		"redlock-seal 1 run_id=a max_ttl_ms=-1 watched_ms=1",
		"redlock-seal 1 run_id=a max_ttl_ms=+1 watched_ms=1",
		"redlock-seal 1 run_id=a max_ttl_ms=1.5 watched_ms=1",
		"redlock-seal 1 run_id=a max_ttl_ms=1 watched_ms=1 ",
		"redlock-seal 1 run_id=a max_ttl_ms=1 watched_ms=99999999999999999999",
		"redlock-seal 1 run_id=a max_ttl_ms=9223372036854775 watched_ms=1", // would overflow
		" redlock-seal 1 run_id=a max_ttl_ms=1 watched_ms=1",
	} {
		_, err := parseSeal(text)
		assert.ErrorIs(t, err, errSeal, "%q", text)
	}
}

func FuzzParseSeal(f *testing.F) {
	f.Add("redlock-seal 1 run_id=a max_ttl_ms=1000 watched_ms=1015")
	f.Add("redlock-seal 1 run_id=a max_ttl_ms=01 watched_ms=1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSeal(text)
		if err != nil {
			return
		}
		again, err := parseSeal(s.String())
		if err != nil || again != s {
			t.Errorf("%q became %q", text, s)
		}
		if s.maxTTL <= 0 || s.watched <= 0 || needFor(s.maxTTL, 0.999) <= s.maxTTL {
			t.Errorf("%q is out of bounds", text)
		}
	})
}

func TestSightings(t *testing.T) {
	for wire, want := range map[string]sighting{
		"$-1\r\n": {what: sealAbsent}, "_\r\n": {what: sealAbsent},
		"$1\r\nx\r\n": {what: sealStrange}, "$0\r\n\r\n": {what: sealStrange},
		"-WRONGTYPE Operation against a key\r\n": {what: sealStrange},
		"-NOPERM no\r\n":                         {what: unreadable},
		"-ERR x\r\n":                             {what: unreadable},
		"-LOADING x\r\n":                         {what: unreadable},
		"$50\r\nredlock-seal 1 run_id=a max_ttl_ms=1 watched_ms=20\r\n": {sealSeen, seal{"a", ms, 20 * ms}},
		"$600\r\n" + strings.Repeat("x", 600) + "\r\n":                  {what: sealStrange},
	} {
		got, err := sightingOf(decode(t, wire))
		assert.NoError(t, err, wire)
		assert.Equal(t, want, got, wire)
	}
	for _, wire := range []string{"+OK\r\n", ":1\r\n", "*-1\r\n", "*0\r\n"} {
		_, err := sightingOf(decode(t, wire))
		assert.ErrorIs(t, err, ErrUnexpected, wire)
	}
}

func decode(t *testing.T, wire string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	_, err := r.Fill(strings.NewReader(wire))
	require.NoError(t, err)
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok, wire)
	return v
}
