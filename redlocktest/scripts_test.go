package redlocktest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// This package knows each script of package redlock by its current digest.
func TestEveryScriptIsKnown(t *testing.T) {
	known := map[string]string{
		"release.lua": releaseSHA1, "release_many.lua": releaseManySHA1, "extend.lua": extendSHA1,
		"extend_many.lua": extendManySHA1, "heal.lua": healSHA1, "shorten.lua": shortenSHA1, "seal.lua": sealSHA1,
		"look.lua": lookSHA1,
	}
	files, err := filepath.Glob("../redlock/*.lua")
	require.NoError(t, err)
	require.Len(t, files, len(known))
	for _, file := range files {
		name := filepath.Base(file)
		require.Equal(t, redistest.SHA1(source(t, name)), known[name],
			"%s has changed: see that its function in scripts.go still does the same, then write this digest there", name)
	}
}

// The same random commands, sent to a real server and to a node in memory, have
// the same replies and leave the same keys.
func TestScripts(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	d := New(t, 1)
	conn, err := d.dial(t.Context(), "tcp", "node0:6379")
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
	for range 500 {
		command := randomCommand(t, random)
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
func randomCommand(t *testing.T, r *rand.Rand) []string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	key := func() string { return pick("a", "b", "c") }
	token := func() string { return pick("x", "y") }
	ttl := func() string { return strconv.Itoa((1 + r.IntN(9)) * 100_000_000) }
	one := func(name string, args ...string) []string {
		return append([]string{"EVAL", source(t, name), "1", key()}, args...)
	}
	switch r.IntN(10) {
	case 0:
		return []string{"SET", key(), token(), "NX", "PX", ttl()}
	case 1:
		return []string{"GET", key()}
	case 2:
		return one("release.lua", token())
	case 3:
		return one("extend.lua", token(), ttl())
	case 4:
		return one("heal.lua", token(), ttl())
	case 5:
		return one("shorten.lua", token(), ttl())
	case 6:
		return []string{"EVAL", source(t, "release_many.lua"), "2", "a", "b", token(), token()}
	case 8:
		if r.IntN(2) == 0 {
			return []string{"SET", key(), strings.Repeat("long", 300), "PX", ttl()}
		}
		return one("look.lua")
	case 7:
		return []string{"EVAL", source(t, "extend_many.lua"), "2", "a", "b", token(), ttl(), token(), ttl()}
	default:
		seal := fmt.Sprintf("redlock-seal 1 run_id=%s max_ttl_ms=%d watched_ms=%d", pick("m", "n"), 1+r.IntN(9), 1+r.IntN(9))
		return []string{"EVAL", source(t, "seal.lua"), "1", "redlock:seal", seal}
	}
}

func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "redlock", name))
	require.NoError(t, err)
	return string(text)
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
