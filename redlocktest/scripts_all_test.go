package redlocktest

import (
	"testing"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The scripts of locks on several resources, for every state of three keys: no
// key, ours, another's; on a real server also a key of another type. A script
// that refuses has changed nothing, but a release that deletes what is ours.
func TestScriptsOfSeveral(t *testing.T) {
	server, inMemory := redistest.Servers(t, 1)[0], inMemory(t)
	real := func(args ...string) any {
		said, err := server.Do(args...)
		require.NoError(t, err, "%q", args)
		return said
	}
	const ttl, longer = "100000", "200000"
	keys := []string{"a", "b", "c"}
	for state := range 64 {
		is := []int{state % 4, state / 4 % 4, state / 16} // none, ours, another's, a list
		lists := state%4 == 3 || state/4%4 == 3 || state/16 == 3
		dos := []func(args ...string) any{real, inMemory}
		if lists {
			dos = dos[:1] // a node in memory has no lists
		}
		for _, do := range dos {
			prepare := func() (first, ours int) {
				for i, key := range keys {
					do("DEL", key)
					switch is[i] {
					case 1:
						do("SET", key, "us", "PX", ttl)
						ours++
					case 2:
						do("SET", key, "them", "PX", ttl)
					case 3:
						do("RPUSH", key, "them")
					}
					if first == 0 && is[i] != 0 {
						first = i + 1
					}
				}
				return first, ours
			}
			requireKeys := func(want func(is int) (value any, least, most int)) {
				for i, key := range keys {
					value, least, most := want(is[i])
					if is[i] == 3 {
						require.EqualValues(t, 1, do("EXISTS", key))
						require.EqualValues(t, -1, do("PTTL", key))
						continue
					}
					require.Equal(t, value, do("GET", key), "%s in state %v", key, is)
					left := do("PTTL", key).(int64)
					require.True(t, int(left) >= least && int(left) <= most, "%s in state %v: %d", key, is, left)
				}
			}
			asWas := func(is int) (any, int, int) {
				return []any{nil, "us", "them"}[is%3], []int{-2, 50_000, 50_000}[is%3], []int{-2, 100_000, 100_000}[is%3]
			}
			eval := func(script string, args ...string) int {
				return int(do(append(append([]string{"EVAL", script, "3"}, keys...), args...)...).(int64))
			}

			first, ours := prepare()
			if said := eval(lua.AcquireAll, "us", longer); first == 0 {
				require.Equal(t, 1, said)
				requireKeys(func(int) (any, int, int) { return "us", 150_000, 200_000 })
			} else {
				require.Equal(t, -first, said, "%v", is)
				requireKeys(asWas)
			}

			prepare()
			if said := eval(lua.ExtendAll, "us", longer); ours == 3 {
				require.Equal(t, 1, said)
				requireKeys(func(int) (any, int, int) { return "us", 150_000, 200_000 })
				require.Equal(t, 1, eval(lua.ExtendAll, "us", "1"), "nothing is shortened (R10)")
				requireKeys(func(int) (any, int, int) { return "us", 150_000, 200_000 })
			} else {
				require.Equal(t, 0, said, "%v", is)
				requireKeys(asWas)
			}

			prepare()
			said := eval(lua.ReleaseAll, "us")
			require.Equal(t, ours == 3, said == 1, "%v", is)
			requireKeys(func(is int) (any, int, int) {
				if is == 1 {
					return nil, -2, -2
				}
				return asWas(is)
			})
		}
	}
}
