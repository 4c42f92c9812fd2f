package running

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// A node in memory runs no Lua. What a script of package redlock does is
// repeated here, and registered under the script's source.
// TestScriptsAreThoseOfARealServer compares the two.

// source returns the text of a script of package redlock.
func source(name string) string {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "redlock", name))
	if err != nil {
		panic(err) // the test runs in another folder
	}
	return string(text)
}

var (
	releaseSource, releaseManySource = source("release.lua"), source("release_many.lua")
	extendSource, extendManySource   = source("extend.lua"), source("extend_many.lua")
	healSource, shortenSource        = source("heal.lua"), source("shorten.lua")
	sealSource                       = source("seal.lua")

	releaseDigest, releaseManyDigest = redistest.SHA1(releaseSource), redistest.SHA1(releaseManySource)
	healDigest                       = redistest.SHA1(healSource)
)

// teach registers the scripts.
func teach(n *redistest.Node, b broken) {
	release, extend := releaseOne, extendOne
	switch {
	case b.keeps:
		release = func(db *redistest.DB, key, token string) int64 {
			value, ok := db.Get(key)
			return digit(ok && value == token)
		}
	case b.deletesAny:
		release = func(db *redistest.DB, key, _ string) int64 { return digit(db.Delete(key)) }
	}
	if b.shortens {
		extend = extendAnyway
	}
	n.Script(sealSource, writeSeal)
	n.Script(source("look.lua"), func(keys, _ []string, db *redistest.DB) any {
		if value, ok := db.Get(keys[0]); ok {
			return value
		}
		return nil
	})
	n.Script(releaseSource, func(keys, args []string, db *redistest.DB) any { return release(db, keys[0], args[0]) })
	n.Script(releaseManySource, func(keys, args []string, db *redistest.DB) any {
		results := make([]int64, len(keys))
		for i := range keys {
			results[i] = release(db, keys[i], args[i])
		}
		return results
	})
	n.Script(extendSource, func(keys, args []string, db *redistest.DB) any { return extend(db, keys[0], args[0], args[1]) })
	n.Script(extendManySource, func(keys, args []string, db *redistest.DB) any {
		results := make([]int64, len(keys))
		for i := range keys {
			results[i] = extend(db, keys[i], args[2*i], args[2*i+1])
		}
		return results
	})
	n.Script(healSource, func(keys, args []string, db *redistest.DB) any {
		if _, there := db.Get(keys[0]); there {
			return extend(db, keys[0], args[0], args[1])
		}
		db.Set(keys[0], args[0], milliseconds(args[1]))
		return 2
	})
	n.Script(shortenSource, func(keys, args []string, db *redistest.DB) any {
		if value, ok := db.Get(keys[0]); !ok || value != args[0] {
			return 0
		}
		if rest, _ := db.TTL(keys[0]); rest == 0 || rest > milliseconds(args[1]) {
			db.Expire(keys[0], milliseconds(args[1]))
		}
		return 1
	})
}

func releaseOne(db *redistest.DB, key, token string) int64 { return digit(db.DeleteIf(key, token)) }

func extendOne(db *redistest.DB, key, token, ttl string) int64 {
	return digit(db.ExtendIf(key, token, milliseconds(ttl)))
}

// extendAnyway also shortens, which extend.lua must not do (R10).
func extendAnyway(db *redistest.DB, key, token, ttl string) int64 {
	value, ok := db.Get(key)
	return digit(ok && value == token && db.Expire(key, milliseconds(ttl)))
}

func digit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func milliseconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * ms
}

// writeSeal never lowers what a seal says of one process (R23).
func writeSeal(keys, args []string, db *redistest.DB) any {
	const form = "redlock-seal 1 run_id=%s max_ttl_ms=%d watched_ms=%d"
	var run, oldRun string
	var longest, oldLongest, watched, oldWatched int64
	if _, err := fmt.Sscanf(args[0], form, &run, &longest, &watched); err != nil {
		return err
	}
	if old, there := db.Get(keys[0]); there {
		if _, err := fmt.Sscanf(old, form, &oldRun, &oldLongest, &oldWatched); err != nil {
			return 0
		}
		longest = max(longest, oldLongest)
		if oldRun == run {
			watched = max(watched, oldWatched)
		}
	}
	db.Set(keys[0], fmt.Sprintf(form, run, longest, watched), 0)
	return 1
}

// arrange breaks the remaining parts.
func (b broken) arrange(m *master) {
	n := m.node
	n.Handle(func(_ int, args []string) ([]byte, bool) {
		switch {
		case args[0] == "CLIENT" && args[1] == "KILL" && b.deafToKill:
			return []byte(":1\r\n"), true
		case args[0] != "SET":
			return nil, false
		case m.index < b.liars:
			return []byte("+OK\r\n"), true
		case !b.withoutNX && !b.forgetsTTL && !b.grantsShort:
			return nil, false
		}
		if _, there := n.Get(args[1]); there && !b.withoutNX {
			return []byte("_\r\n"), true
		}
		ttl := milliseconds(args[len(args)-1])
		switch {
		case b.forgetsTTL:
			ttl = 0
		case b.grantsShort:
			ttl -= ttl / 10
		}
		n.DB().Set(args[1], args[2], ttl)
		return []byte("+OK\r\n"), true
	})
}

// The same random commands have the same replies from a real server and from a
// node in memory.
func TestScriptsAreThoseOfARealServer(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	node := redistest.NewNode(redistest.NodeConfig{})
	defer node.Close()
	teach(node, broken{})
	network := redistest.NewNetwork()
	defer network.Close()
	node.Serve(network.Listen("node"))
	conn, err := network.Dial(t.Context(), "tcp", "node")
	require.NoError(t, err)
	defer conn.Close()
	inMemory := func(args ...string) any {
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

	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 700 {
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
	key := func() string { return pick(r, "a", "b", "c") }
	token := func() string { return pick(r, "x", "y") }
	ttl := func() string { return strconv.Itoa((1 + r.IntN(9)) * 100_000_000) }
	eval := func(source string, args ...string) []string {
		return append([]string{"EVAL", source, "1", key()}, args...)
	}
	switch r.IntN(9) {
	case 0:
		return []string{"SET", key(), token(), "NX", "PX", ttl()}
	case 1:
		return []string{"GET", key()}
	case 2:
		return eval(releaseSource, token())
	case 3:
		return eval(extendSource, token(), ttl())
	case 4:
		return eval(healSource, token(), ttl())
	case 5:
		return eval(shortenSource, token(), ttl())
	case 6:
		return []string{"EVAL", releaseManySource, "2", "a", "b", token(), token()}
	case 7:
		return []string{"EVAL", extendManySource, "2", "a", "b", token(), ttl(), token(), ttl()}
	default:
		seal := fmt.Sprintf("redlock-seal 1 run_id=%s max_ttl_ms=%d watched_ms=%d", pick(r, "m", "n"), r.IntN(9), r.IntN(9))
		return []string{"EVAL", sealSource, "1", "redlock:seal", seal}
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
