package multiplex

import (
	"strings"
	"testing"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSightings(t *testing.T) {
	for wire, want := range map[string]pure.Sighting{
		"$-1\r\n": {What: pure.SealAbsent}, "_\r\n": {What: pure.SealAbsent},
		"$1\r\nx\r\n": {What: pure.SealStrange}, "$0\r\n\r\n": {What: pure.SealStrange},
		"-WRONGTYPE Operation against a key\r\n": {What: pure.SealStrange},
		"-NOPERM no\r\n":                         {What: pure.Unreadable},
		"-ERR x\r\n":                             {What: pure.Unreadable},
		"-LOADING x\r\n":                         {What: pure.Unreadable},
		"$50\r\nredlock-seal 1 run_id=a max_ttl_ms=1 watched_ms=20\r\n": {What: pure.SealSeen, Seal: pure.Seal{Run: "a", MaxTTL: ms, Watched: 20 * ms}},
		"$2000\r\n" + strings.Repeat("x", 2000) + "\r\n":                {What: pure.SealStrange},
	} {
		var l look
		assert.NoError(t, l.read(turnSeal, decode(t, wire)), wire)
		assert.NoError(t, l.read(turnOpening, decode(t, "$-1\r\n")))
		assert.Equal(t, want, l.sighting, wire)
	}
	for _, wire := range []string{"+OK\r\n", ":1\r\n", "*-1\r\n", "*0\r\n"} {
		for _, turn := range []int{turnRecord, turnSeal, turnOpening} {
			assert.ErrorIs(t, new(look).read(turn, decode(t, wire)), ErrUnexpected, wire)
		}
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
