package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSealIsText(t *testing.T) {
	s := Seal{"0123456789abcdef0123456789abcdef01234567", 10 * time.Second, 10105 * ms}
	text := "redlock-seal 1 run_id=0123456789abcdef0123456789abcdef01234567 max_ttl_ms=10000 watched_ms=10105"
	assert.Equal(t, text, s.String())
	again, err := ParseSeal(text)
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
		_, err := ParseSeal(text)
		assert.ErrorIs(t, err, errSeal, "%q", text)
	}
}

func FuzzParseSeal(f *testing.F) {
	f.Add("redlock-seal 1 run_id=a max_ttl_ms=1000 watched_ms=1015")
	f.Add("redlock-seal 1 run_id=a max_ttl_ms=01 watched_ms=1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSeal(text)
		if err != nil {
			return
		}
		again, err := ParseSeal(s.String())
		if err != nil || again != s {
			t.Errorf("%q became %q", text, s)
		}
		if s.MaxTTL <= 0 || s.Watched <= 0 || NeedFor(s.MaxTTL, 0.999) <= s.MaxTTL {
			t.Errorf("%q is out of bounds", text)
		}
	})
}
