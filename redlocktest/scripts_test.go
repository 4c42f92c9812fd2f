package redlocktest

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// The same random commands, sent to a real server and to a node in memory, have
// the same replies and leave the same keys.
func TestScripts(t *testing.T) {
	server, inMemory := redistest.Servers(t, 1)[0], inMemory(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		command := randomCommand(random)
		said, err := server.Do(command...)
		require.NoError(t, err)
		require.Equal(t, said, inMemory(command...), "%q", command)
		for _, key := range []string{"a", "b", "c"} {
			said, err := server.Do("PTTL", key)
			require.NoError(t, err)
			require.InDelta(t, said, inMemory("PTTL", key), 60_000, "%s after %q", key, command)
		}
	}
}

// randomCommand draws from few keys and tokens, so that commands meet. TTLs
// differ widely, and none ends during the test.
func randomCommand(r *rand.Rand) []string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	key := func() string { return pick("a", "b", "c") }
	token := func() string { return pick("x", "y") }
	ttl := func() string { return strconv.Itoa((1 + r.IntN(9)) * 100_000_000) }
	one := func(source string, args ...string) []string {
		return append([]string{"EVAL", source, "1", key()}, args...)
	}
	all := func(source string, args ...string) []string {
		keys := []string{"a", "b", "c"}
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		keys = keys[:1+r.IntN(len(keys))]
		return append(append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...), args...)
	}
	switch r.IntN(13) {
	case 0:
		return []string{"SET", key(), token(), "NX", "PX", ttl()}
	case 1:
		if r.IntN(2) == 0 {
			return []string{"SET", key(), token()} // as after PERSIST
		}
		return []string{"GET", key()}
	case 2:
		return one(lua.Release, token())
	case 3:
		return one(lua.Extend, token(), ttl(), ttl())
	case 4:
		return one(lua.Heal, token(), ttl(), ttl())
	case 5:
		return one(lua.Shorten, token(), ttl())
	case 6:
		return []string{"EVAL", lua.ReleaseMany, "2", "a", "b", token(), token()}
	case 9, 12:
		return all(lua.AcquireAll, token(), ttl())
	case 10:
		return all(lua.ReleaseAll, token())
	case 11:
		return all(lua.ExtendAll, token(), ttl(), ttl())
	case 8:
		if r.IntN(2) == 0 {
			return []string{"SET", key(), strings.Repeat("long", 300), "PX", ttl()}
		}
		return one(lua.Look)
	default:
		return []string{"EVAL", lua.ExtendMany, "2", "a", "b", token(), ttl(), ttl(), token(), ttl(), ttl()}
	}
}

// Each verb of seal.lua does the same on a real server as in memory, for every
// state of the two keys (R23, R30).
func TestSealScript_R30(t *testing.T) {
	side, inMemory := redistest.Servers(t, 1)[0].Side(), inMemory(t)
	defer side.Close()
	real := func(args ...string) any {
		said, err := side.Do(args...)
		if err != nil {
			return err.Error()
		}
		return said
	}
	const seal, opening = "redlock:seal", "redlock:opening"
	count := 0
	for _, was := range sealStates() {
		for _, before := range openingStates() {
			for _, change := range sealChanges() {
				for _, do := range []func(args ...string) any{real, inMemory} {
					do("DEL", seal)
					do("DEL", opening)
					for key, value := range map[string]string{seal: was, opening: before} {
						if value != "" {
							do("SET", key, value)
						}
					}
				}
				command := append([]string{"EVAL", lua.Seal, "2", seal, opening}, change...)
				at := []any{"%q to the seal %q and the opening %q", change, was, before}
				require.Equal(t, real(command...), inMemory(command...), at...)
				for _, key := range []string{seal, opening} {
					require.Equal(t, real("GET", key), inMemory("GET", key), at...)
					require.InDelta(t, real("PTTL", key), inMemory("PTTL", key), 3_000, at...)
				}
				require.EqualValues(t, real("EXISTS", seal), inMemory("EXISTS", seal))
				count++
			}
		}
	}
	t.Log(count, "changes")

	// A node in memory has no lists: the server leaves them alone.
	for _, key := range []string{seal, opening} {
		real("DEL", seal)
		real("DEL", opening)
		real("RPUSH", key, "x")
		for _, change := range sealChanges() {
			require.EqualValues(t, 0, real(append([]string{"EVAL", lua.Seal, "2", seal, opening}, change...)...), "%q", change)
			require.EqualValues(t, 1, real("DBSIZE"))
			require.Equal(t, "list", real("TYPE", key))
		}
	}
}

// identity is a deployment of two nodes.
func identity(digit string) pure.Identity {
	return pure.Identity{ID: strings.Repeat(digit, 32), Nodes: 2, Members: pure.MembersOf([]string{"node0:6379", "node1:6379"})}
}

// strange are values that are neither seal nor opening.
var strange = []string{
	"a token, 20 bytes in", "redlock-seal 4 x", "redlock-seal 1 run_id=m max_ttl_ms=1", "redlock-opening 1 locked",
	"redlock-opening 2 locked " + identity("a").String(), " ", "x\r\n", strings.Repeat("long", 300),
}

// sealStates are the values of the seal's key; "" is none.
func sealStates() []string {
	all := append([]string{""}, strange...)
	for _, who := range []pure.Identity{{}, identity("a"), identity("b")} {
		for _, run := range []string{"m", "n"} {
			for _, long := range []time.Duration{time.Second, time.Hour} {
				all = append(all, pure.Seal{Identity: who, Run: run, MaxTTL: long, Watched: 2 * time.Minute}.String())
			}
		}
	}
	return append(all, pure.Seal{Identity: identity("a"), Run: pure.NoRun, MaxTTL: time.Minute}.String())
}

// openingStates are the values of the opening's key.
func openingStates() []string {
	all := append([]string{""}, strange...)
	for _, stage := range []pure.Stage{pure.Proposed, pure.Locked} {
		for _, digit := range []string{"a", "b", "c"} {
			all = append(all, pure.Opening{Stage: stage, Identity: identity(digit)}.String())
		}
	}
	return all
}

// sealChanges are the arguments of seal.lua.
func sealChanges() (all [][]string) {
	ids := func(digits ...string) string {
		text := " "
		for _, digit := range digits {
			text += identity(digit).ID + " "
		}
		return text
	}
	who := identity("a").String()
	for _, replaced := range []string{"", "  ", ids("b"), ids("b", "c"), ids("a")} {
		all = append(all, []string{"propose", who, "5000", replaced})
	}
	all = append(all, []string{"lock", who}, []string{"undo", who})
	for _, watched := range []time.Duration{0, time.Minute, time.Hour} {
		text := pure.Seal{Identity: identity("a"), Run: "m", MaxTTL: time.Minute, Watched: watched}.String()
		all = append(all, []string{"seal", who, text}, []string{"adopt", who, text})
	}
	return append(all, []string{"adopt", who, pure.Seal{Identity: identity("a"), Run: pure.NoRun, MaxTTL: time.Minute}.String()})
}

// onServer returns what sends commands to a real server. They must succeed.
func onServer(t *testing.T) func(args ...string) any {
	server := redistest.Servers(t, 1)[0]
	return func(args ...string) any {
		said, err := server.Do(args...)
		require.NoError(t, err, "%q", args)
		return said
	}
}

// inMemory returns what sends a command to a node in memory.
func inMemory(t *testing.T) func(args ...string) any {
	conn, err := New(t, 1).dial(t.Context(), "tcp", "node0:6379")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return func(args ...string) any {
		_, err := conn.Write(resp.AppendCommand(nil, args...))
		require.NoError(t, err)
		r := resp.NewReader(resp.Limits{})
		for {
			v, ok, err := r.Next()
			require.NoError(t, err)
			if ok {
				return simple(v)
			}
			_, err = r.Fill(conn)
			require.NoError(t, err)
		}
	}
}

// simple converts a reply to the form that redistest.Server.Do returns.
func simple(v resp.Value) any {
	n, isInteger := v.Int64()
	switch {
	case v.IsNull():
		return nil
	case isInteger:
		return n
	case v.Type() != resp.Array:
		return string(v.Bytes())
	}
	var all []any
	for e := range v.Elements() {
		all = append(all, simple(e))
	}
	return all
}
