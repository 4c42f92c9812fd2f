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

// The scripts of plain locks and of locks on several resources.
func TestRecordedScripts(t *testing.T) {
	recording{name: "locks", steps: 300, keys: []string{"a", "b", "c"}, draw: randomCommand,
		short: strings.NewReplacer(strings.Repeat("long", 300), "LONG")}.run(t)
}

func randomCommand(r *rand.Rand, step int) []string {
	key := func() string { return pick(r, "a", "b", "c") }
	token := func() string { return pick(r, "x", "y") }
	ttl := func() string { return times(r, step) }
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
		return []string{"DEL", key()}
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
		if r.IntN(6) == 0 {
			return []string{"SET", key(), strings.Repeat("long", 300), "PX", ttl()}
		}
		return one(lua.Look)
	default:
		return []string{"EVAL", lua.ExtendMany, "2", "a", "b", token(), ttl(), ttl(), token(), ttl(), ttl()}
	}
}

// The script of seals and openings (R23, R30).
func TestRecordedSealScript_R30(t *testing.T) {
	short := []string{" nodes=2 members=" + identity("a").Members, "", strings.Repeat("long", 300), "LONG"}
	for _, digit := range []string{"a", "b", "c"} {
		short = append(short, identity(digit).ID, strings.ToUpper(digit))
	}
	recording{name: "seals", steps: 400, keys: []string{sealKey, openingKey}, draw: randomSealing, short: strings.NewReplacer(short...)}.run(t)
}

const sealKey, openingKey = "redlock:seal", "redlock:opening"

// randomSealing draws a verb of seal.lua, or what is there when it comes.
func randomSealing(r *rand.Rand, _ int) []string {
	set := func(key string, states []string) []string {
		if state := pick(r, states...); state != "" {
			return []string{"SET", key, state}
		}
		return []string{"DEL", key}
	}
	switch r.IntN(6) {
	case 0:
		return set(sealKey, sealStates())
	case 1:
		return set(openingKey, openingStates())
	case 2:
		return []string{"DEL", sealKey, openingKey}
	}
	changes := sealChanges()
	return append([]string{"EVAL", lua.Seal, "2", sealKey, openingKey}, changes[r.IntN(len(changes))]...)
}

// An opening that replaces the deployment of one database, and is refused
// because of that of another, leaves both as they are.
func TestARefusedOpeningChangesNoDatabase_R30(t *testing.T) {
	const inDatabase = "redis.call('SELECT', ARGV[1]) if ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) end return redis.call('GET', KEYS[1])"
	for side, do := range bothNodes(t) {
		sealed := func(digit string) string {
			return pure.Seal{Identity: identity(digit), Run: "m", MaxTTL: time.Second}.String()
		}
		at := func(db string, seal ...string) any {
			return do(append([]string{"EVAL", inDatabase, "1", sealKey, db}, seal...)...)
		}
		propose := func(ids string) any {
			return do("EVAL", lua.Seal, "2", sealKey, openingKey, "propose", identity("a").String(), "500000000", ids, "0")
		}
		do("DEL", sealKey, openingKey)
		at("1", sealed("b"))
		at("2", sealed("c"))
		require.Equal(t, "2 "+identity("c").String(), propose(" "+identity("b").ID+" "), side)
		require.Equal(t, sealed("b"), at("1"), side)
		require.Equal(t, sealed("c"), at("2"), side)
		require.EqualValues(t, 1, propose(" "+identity("b").ID+" "+identity("c").ID+" "), side)
		require.Nil(t, at("1"), side)
		require.Nil(t, at("2"), side)
	}
}

// A key of another type is left alone.
func TestSealScriptMeetsStrangers_R30(t *testing.T) {
	real := onServer(t)
	for _, key := range []string{sealKey, openingKey} {
		real("DEL", sealKey, openingKey)
		real("RPUSH", key, "x")
		for _, change := range sealChanges() {
			require.EqualValues(t, 0, real(append([]string{"EVAL", lua.Seal, "2", sealKey, openingKey}, change...)...), "%q", change)
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
		all = append(all, []string{"propose", who, "500000000", replaced})
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
