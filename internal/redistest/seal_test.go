package redistest_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
)

// Whatever is done to a node's seal and opening, in any order, seal.lua on a
// real server does what its model does in memory (R23, R30).
func TestSealScriptIsLikeItsModel_R30(t *testing.T) {
	redistest.NoLeaks(t)
	server := redistest.Servers(t, 1)[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	node := redistest.NewNode(redistest.NodeConfig{})
	node.Serve(l)
	defer node.Close()
	node.Teach()
	ours := open(t, "tcp", node.Addr())
	theirs := open(t, "unix", strings.TrimPrefix(server.URL(), "unix://"))

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ids := []string{strings.Repeat("0a", 16), strings.Repeat("1b", 16)}
	identity := func() string {
		member := strings.Repeat("c", 16)
		return fmt.Sprintf("deployment=%s nodes=2 members=%s,%s", ids[r.IntN(2)], member, member)
	}
	tail := func() string {
		return fmt.Sprintf("run_id=%s max_ttl_ms=%d watched_ms=%d", []string{"a", "b", "-"}[r.IntN(3)], 1+r.IntN(3), 1+r.IntN(9999999))
	}
	both := func(args ...string) string {
		reply := theirs.do(args...)
		require.Equal(t, reply, ours.do(args...), "%q", args)
		return reply
	}
	done := 0
	for range 5000 {
		who := identity()
		switch r.IntN(30) {
		case 0:
			both("DEL", "{k}seal", "{k}opening")
		case 1:
			both("DEL", []string{"{k}seal", "{k}opening"}[r.IntN(2)])
		case 2:
			both("SET", "{k}seal", []string{"redlock-seal 1 " + tail(), "redlock-seal 4 x", "x"}[r.IntN(3)])
		case 3:
			both("SET", "{k}opening", []string{"redlock-opening 1 locked " + who, "redlock-opening 2 locked " + who, "x"}[r.IntN(3)])
		}
		verb := []string{"propose", "lock", "seal", "adopt", "undo"}[r.IntN(5)]
		args := []string{"EVAL", lua.Seal, "2", "{k}seal", "{k}opening", verb, who}
		switch verb {
		case "propose":
			args = append(args, "60000", []string{"  ", " " + ids[0] + " ", " x " + ids[1] + " y "}[r.IntN(3)])
		case "seal", "adopt":
			args = append(args, fmt.Sprint("redlock-seal 3 ", who, " ", tail(), " uptime_ms=", r.IntN(9)))
		}
		if both(args...) == ":1\r\n" {
			done++
		}
		for _, key := range []string{"{k}seal", "{k}opening"} {
			both("GET", key)
			require.Equal(t, gist(theirs.do("PTTL", key)), gist(ours.do("PTTL", key)))
		}
	}
	require.Greater(t, done, 500)
	both("DEL", "{k}seal", "{k}opening")
	require.Equal(t, ":1\r\n", theirs.do("RPUSH", "{k}opening", "x"))
	require.Equal(t, ":0\r\n", theirs.do("EVAL", lua.Seal, "2", "{k}seal", "{k}opening", "undo", identity()), "a list is left alone")
}
