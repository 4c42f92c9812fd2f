package redlocktest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/require"
)

// The scripts of locks on several resources, for every state of three keys: no
// key, ours, another's; on a real server also a key of another type. A script
// that refuses has changed nothing, but a release that deletes what is ours.
// An acquisition says which key is in the way, and what it holds.
func TestScriptsOfSeveral(t *testing.T) {
	real, inMemory := onServer(t), inMemory(t)
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
			run := func(script string, args ...string) any {
				return do(append(append([]string{"EVAL", script, "3"}, keys...), args...)...)
			}
			eval := func(script string, args ...string) int { return int(run(script, args...).(int64)) }

			first, ours := prepare()
			if said := run(lua.AcquireAll, "us", longer); first == 0 {
				require.EqualValues(t, 1, said)
				requireKeys(func(int) (any, int, int) { return "us", 150_000, 200_000 })
			} else {
				require.Equal(t, fmt.Sprint(first, " ", []string{"", "us", "them", ""}[is[first-1]]), said, "%v", is)
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
	for _, do := range []func(args ...string) any{real, inMemory} {
		do("SET", "a", "us")
		require.EqualValues(t, 1, do("EVAL", lua.ExtendAll, "1", "a", "us", "1000", "300000"))
		require.InDelta(t, 300_000, do("PTTL", "a"), 10_000, "a key without an end gets one")
	}
}

// A value that is longer than a lock's can be is not shown: no reply is long
// (R32).
func TestScriptsShowNoLongValue_R32(t *testing.T) {
	longest := strings.Repeat("x", pure.TokenText+1+pure.LongestOwner)
	for side, do := range bothNodes(t) {
		for value, shown := range map[string]string{"": "", longest: longest, strings.Repeat("x", 101): "", strings.Repeat("x", 1<<20): ""} {
			do("SET", "b", value)
			require.Equal(t, "2 "+shown, do("EVAL", lua.AcquireAll, "2", "a", "b", "us", "5000"), side)
			said := do("EVAL", lua.AcquireFenced, "5", "a", "b", "a:fence", "b:fence", fenceRecord, "us", "5000", "5", "60000000", "1000")
			require.Equal(t, "2 "+shown, said.([]any)[2], side)
			require.EqualValues(t, 0, do("EXISTS", "a"))

			do("SET", "w", value)
			require.Equal(t, "1 "+shown, do(rwCall(lua.Read, "us", "5000")...), side)
			require.Equal(t, "1 "+shown, do(rwCall(lua.Write, "us", "5000", "", "0")...), side)
			require.Equal(t, "1 "+shown, do("EVAL", lua.AskFair, "5", "w", "f:queue", "f:ticket", "f:turn", "f:queue:", "us", "5000", "", "0", "try",
				"500", "f:queue:"), side)
			do("DEL", "w")
			require.EqualValues(t, 1, do(rwCall(lua.Read, value, "100000")...), side)
			require.Equal(t, "2 "+shown, do(rwCall(lua.Write, "us", "5000", "another reader", "0")...), side)
			do("DEL", "w:readers")
		}
	}
}

// What acquire_fenced.lua answers and leaves for three resources, on a real
// server and in memory. The number is compared with every last number, and
// becomes the last one of each.
func TestFencedScriptOfSeveral_F1(t *testing.T) {
	period := time.Now().UnixMilli() / aPeriod.Milliseconds()
	record := func(floor, was, cur, prev int64) string {
		return pure.Record{Run: "r", Floor: floor, Period: was, Cur: cur, Prev: prev}.String()
	}
	const ahead = 1_000_000 // of a number, in the record
	type three [3]string
	sides := bothNodes(t)
	for name, c := range map[string]struct {
		locks, lasts three
		record       string
		code         int
		answer       int64
		text         string // "" is none
		recorded     string // "" is as before
	}{
		"nothing is there":             {three{}, three{}, record(0, period, 0, 0), granted, 0, "", record(0, period, 5+ahead, 0)},
		"no floor":                     {three{}, three{}, record(pure.NoFloor, period, 0, 3), grantedBlind, 3, "", record(pure.NoFloor, period, 5+ahead, 3)},
		"above each":                   {three{}, three{"1", "4", "2"}, record(0, period, 9, 0), granted, 4, "", ""},
		"the last of one":              {three{}, three{"1", "4", "5"}, record(0, period, 9, 0), tooLow, 5, "", ""},
		"below the first's":            {three{}, three{"6", "", ""}, record(0, period, 9, 0), tooLow, 6, "", ""},
		"below the middle one's":       {three{}, three{"", "7", "4"}, record(0, period, 9, 0), tooLow, 7, "", ""},
		"one is missing, but for prev": {three{}, three{"1", "", "2"}, record(0, period, 9, 5), tooLow, 5, "", ""},
		"all are there: prev is not":   {three{}, three{"1", "4", "2"}, record(0, period, 9, 8), granted, 4, "", ""},
		"below the floor":              {three{}, three{"1", "4", "2"}, record(8, period, 9, 0), tooLow, 8, "", ""},
		"the period has ended":         {three{}, three{"1", "4", ""}, record(0, period-1, 8, 3), tooLow, 8, "", ""},
		"the first is held":            {three{"x", "", "y"}, three{"1", "4", "2"}, record(0, period, 9, 0), heldByAny, 4, "1 x", ""},
		"the last is held":             {three{"", "", "y"}, three{"", "", ""}, record(0, period, 9, 3), heldByAny, 3, "3 y", ""},
		"held, and below another's":    {three{"", "x", ""}, three{"", "", "7"}, record(0, period, 9, 0), heldByAny, 7, "2 x", ""},
	} {
		for side, do := range sides {
			t.Run(name+"/"+side, func(t *testing.T) {
				locks, lasts := []string{"a", "b", "c"}, []string{"a:fence", "b:fence", "c:fence"}
				for i := range locks {
					fenceState{c.locks[i], c.lasts[i], c.record}.at(locks[i], do)
				}
				said := do(append(append(append([]string{"EVAL", lua.AcquireFenced, "7"}, locks...), lasts...), fenceRecord,
					"token", "5000", "5", "60000000", fmt.Sprint(aPeriod.Milliseconds()))...)
				want := []any{int64(c.code), c.answer}
				if c.text != "" {
					want = append(want, c.text)
				}
				require.Equal(t, want, said)
				if c.recorded == "" {
					c.recorded = c.record
				}
				require.Equal(t, c.recorded, do("GET", fenceRecord))
				granted := c.code == granted || c.code == grantedBlind
				for i := range locks {
					lock, last := any(c.locks[i]), any(c.lasts[i])
					if granted {
						lock, last = "token", "5"
						require.InDelta(t, 5000, do("PTTL", locks[i]), 3000)
						require.InDelta(t, aPeriod.Milliseconds()+3_600_000, do("PTTL", lasts[i]), 60_000)
					}
					for key, value := range map[string]any{locks[i]: lock, lasts[i]: last} {
						if value == "" {
							value = nil
						}
						require.Equal(t, value, do("GET", key), key)
					}
				}
			})
		}
	}
}

// A key of another type is in the way, whichever it is, and the keys before it
// are not set. A last number of another form lets nothing be granted.
func TestFencedScriptOfSeveralFindsSomethingElse(t *testing.T) {
	for side, do := range bothNodes(t) {
		command := []string{
			"EVAL", lua.AcquireFenced, "7", "a", "b", "c", "a:fence", "b:fence", "c:fence", fenceRecord, "token", "5000", "5", "60000000", "1000",
		}
		locks := func() (n int64) {
			return do("EXISTS", "a").(int64) + do("EXISTS", "b").(int64) + do("EXISTS", "c").(int64)
		}
		for i, lock := range []string{"a", "b", "c"} {
			for _, key := range []string{"a", "b", "c"} {
				fenceState{}.at(key, do)
			}
			do("SET", lock+":fence", "a token")
			require.Contains(t, do(command...), "holds something else", side)
			require.Zero(t, locks())
			do("DEL", lock+":fence")
			if side != "real" { // a node in memory has no lists
				continue
			}
			do("RPUSH", lock, "x")
			require.Equal(t, []any{int64(heldByAny), int64(0), fmt.Sprint(i+1, " ")}, do(command...))
			require.EqualValues(t, 1, locks())
			require.Equal(t, "list", do("TYPE", lock))
			for _, key := range []string{"a", "b", "c"} {
				fenceState{}.at(key, do)
			}
			do("RPUSH", lock+":fence", "x")
			require.Contains(t, do(command...), "holds something else")
			require.Zero(t, locks())
		}
	}
}
