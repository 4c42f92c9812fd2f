package redistest_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

const sampleSize = 2 << 20

// TestHostileRepliesAreNoGrants checks the list: whatever a decoder makes of an
// entry, the first reply is not OK (R17).
func TestHostileRepliesAreNoGrants(t *testing.T) {
	require.GreaterOrEqual(t, len(redistest.HostileReplies), 40)
	seen := make(map[string]bool)
	for _, h := range redistest.HostileReplies {
		require.False(t, seen[h.Name], h.Name)
		seen[h.Name] = true
		v, ok := first(h)
		require.False(t, ok && v, "%s grants", h.Name)
	}
	for _, h := range redistest.SurplusReplies {
		v, ok := first(h)
		require.True(t, ok && v, "%s does not begin with a grant", h.Name)
	}
}

// first decodes the first reply that is not a push, and reports whether it is
// OK.
func first(h redistest.Hostile) (isOK, ok bool) {
	r := resp.NewReader(resp.Limits{})
	src := bytes.NewReader(h.Sample(sampleSize))
	for {
		v, ok, err := r.Next()
		switch {
		case err != nil:
			return false, false
		case ok:
			return v.IsOK(), true
		}
		if _, err := r.Fill(src); err != nil {
			return false, false
		}
	}
}

func TestHostileNode(t *testing.T) {
	all := append(redistest.HostileReplies, redistest.SurplusReplies...)
	for _, h := range all {
		t.Run(h.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := redistest.NewNetwork()
				node := redistest.NewHostileNode(network.Listen("a"), h, false)
				defer node.Close()
				c := dial(t, network, "a")
				require.Contains(t, c.do("HELLO", "3"), "%7\r\n")
				sha := redistest.SHA1("return 0")
				require.Equal(t, "$40\r\n"+sha+"\r\n", c.do("SCRIPT", "LOAD", "return 0"))
				require.Equal(t, ":0\r\n", c.do("EVALSHA", sha, "1", "k", "t"))
				require.Contains(t, c.do("INFO"), "run_id:")

				if !h.Early {
					c.send("SET", "k", "t", "NX", "PX", "10000")
				}
				c.SetReadDeadline(time.Now().Add(time.Minute))
				want := h.Sample(100)
				receive(t, c, string(want))
				require.Empty(t, node.Keys())
			})
		})
	}
}
