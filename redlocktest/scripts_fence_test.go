package redlocktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The codes that acquire_fenced.lua returns.
const (
	heldByAny = iota
	granted
	tooLow
	tooHigh
	grantedBlind // the node has no floor
)

const (
	fenceLock, fenceLast, fenceRecord = "a", "a:fence", "redlock:fence"
	// aPeriod is so long that none ends during a test.
	aPeriod = 1_000_000_000_000 * time.Millisecond
)

// bothNodes are a real server and a node in memory.
func bothNodes(t *testing.T) map[string]func(args ...string) any {
	server := redistest.Servers(t, 1)[0]
	return map[string]func(args ...string) any{
		"real": func(args ...string) any {
			said, err := server.Do(args...)
			if err != nil {
				return err.Error()
			}
			return said
		},
		"in memory": inMemory(t),
	}
}

// A state is what a node has before an acquisition; "" is no such key.
type fenceState struct{ lock, last, record string }

func (s fenceState) arrange(do func(args ...string) any) { s.at(fenceLock, do) }

// at is arrange for another resource.
func (s fenceState) at(lock string, do func(args ...string) any) {
	for key, value := range map[string]string{lock: s.lock, lock + ":fence": s.last, fenceRecord: s.record} {
		do("DEL", key)
		if value != "" {
			do("SET", key, value)
		}
	}
}

// What acquire_fenced.lua answers and leaves: on a real server, and in memory.
func TestFencedScript_F1(t *testing.T) {
	period := time.Now().UnixMilli() / aPeriod.Milliseconds()
	record := func(floor, was, cur, prev int64) string {
		return pure.Record{Run: "r", Floor: floor, Period: was, Cur: cur, Prev: prev}.String()
	}
	const (
		none  = pure.NoFloor
		ahead = 1_000_000 // of a number, in the record
	)
	now, sides := time.Now().UnixMicro(), bothNodes(t)
	for name, c := range map[string]struct {
		has      fenceState
		number   int64
		code     int
		answer   int64  // -1: about now
		recorded string // "" is as before
	}{
		"nothing is there":                        {fenceState{}, 5, grantedBlind, 0, pure.Record{Run: "-", Floor: none, Period: period, Cur: 5 + ahead}.String()},
		"a floor":                                 {fenceState{record: record(3, period, 0, 0)}, 5, granted, 3, record(3, period, 5+ahead, 0)},
		"the floor itself":                        {fenceState{record: record(5, period, 0, 0)}, 5, tooLow, 5, ""},
		"below the floor":                         {fenceState{record: record(9, period, 0, 0)}, 5, tooLow, 9, ""},
		"no floor, and numbers before":            {fenceState{record: record(none, period, 4, 3)}, 5, grantedBlind, 3, record(none, period, 5+ahead, 3)},
		"above the last":                          {fenceState{last: "4", record: record(0, period, 4, 0)}, 5, granted, 4, record(0, period, 5+ahead, 0)},
		"the last itself":                         {fenceState{last: "5", record: record(0, period, 5, 0)}, 5, tooLow, 5, ""},
		"below the last":                          {fenceState{last: "6", record: record(0, period, 6, 0)}, 5, tooLow, 6, ""},
		"others' numbers of this period are free": {fenceState{record: record(0, period, 8, 3)}, 5, granted, 3, record(0, period, 8, 3)},
		"those of earlier periods are not":        {fenceState{record: record(0, period, 0, 8)}, 5, tooLow, 8, ""},
		"the period has ended":                    {fenceState{record: record(0, period-1, 8, 3)}, 5, tooLow, 8, ""},
		"… and before, it was higher":             {fenceState{record: record(0, period-1, 3, 8)}, 5, tooLow, 8, ""},
		"… or the clock was set back":             {fenceState{record: record(0, period+1, 4, 3)}, 5, granted, 4, record(0, period, 5+ahead, 4)},
		"the last is an old one, from a file":     {fenceState{last: "4", record: record(7, period, 4, 0)}, 5, tooLow, 7, ""},
		"the last is of an earlier period":        {fenceState{last: "4", record: record(0, period, 0, 8)}, 5, granted, 4, record(0, period, 5+ahead, 8)},
		"a last that was not granted":             {fenceState{last: "9", record: record(3, period, 6, 0)}, 7, granted, 6, record(3, period, 7+ahead, 0)},
		"… nor is it of an earlier period":        {fenceState{last: "9", record: record(3, period-1, 6, 4)}, 6, tooLow, 6, ""},
		"… and is beyond all numbers":             {fenceState{last: "99999999999999999999", record: record(3, period, 0, 6)}, 7, granted, 6, record(3, period, 7+ahead, 6)},
		"held, and a last that was not granted":   {fenceState{"another", "9", record(0, period, 6, 0)}, 7, heldByAny, 6, ""},
		"held":                                    {fenceState{"another", "4", record(0, period, 4, 0)}, 5, heldByAny, 4, ""},
		"held, by a plain lock":                   {fenceState{"another", "", record(2, period, 4, 3)}, 5, heldByAny, 3, ""},
		"held, when the period has ended":         {fenceState{"another", "4", record(2, period-1, 4, 3)}, 9, heldByAny, 4, ""},
		"the record is far enough":                {fenceState{last: "4", record: record(0, period, 5, 0)}, 5, granted, 4, ""},
		"about now":                               {fenceState{record: record(0, period, 0, 0)}, now, granted, 0, record(0, period, now+ahead, 0)},
		"as far ahead as allowed":                 {fenceState{record: record(0, period, 0, 0)}, now + 50_000_000, granted, 0, record(0, period, now+50_000_000+ahead, 0)},
		"too far ahead":                           {fenceState{record: record(0, period, 0, 0)}, now + 9e9, tooHigh, -1, ""},
		"ahead of now, but not of others":         {fenceState{record: record(0, period, now+9e9, 0)}, now + 9e9 + 5, granted, 0, record(0, period, now+9e9+5+ahead, 0)},
		"ahead of now, but not of the floor":      {fenceState{record: record(now+9e9, period, 0, 0)}, now + 9e9 + 5, granted, now + 9e9, record(now+9e9, period, now+9e9+5+ahead, 0)},
		"too far ahead of others":                 {fenceState{record: record(0, period, 5, now+5e9)}, now + 9e9, tooHigh, now + 5e9, ""},
		"all digits":                              {fenceState{record: record(0, period, 0, pure.LastNumber-1)}, pure.LastNumber, granted, pure.LastNumber - 1, record(0, period, pure.LastNumber, pure.LastNumber-1)},
	} {
		for side, do := range sides {
			t.Run(name+"/"+side, func(t *testing.T) {
				c.has.arrange(do)
				said := do("EVAL", lua.AcquireFenced, "3", fenceLock, fenceLast, fenceRecord,
					"token", "5000", fmt.Sprint(c.number), "60000000", fmt.Sprint(aPeriod.Milliseconds())).([]any)
				require.EqualValues(t, c.code, said[0])
				require.Equal(t, c.code == heldByAny, len(said) == 3)
				if c.answer < 0 {
					require.InDelta(t, time.Now().UnixMicro(), said[1], 30e6)
				} else {
					require.EqualValues(t, c.answer, said[1])
				}
				if c.recorded == "" {
					c.recorded = c.has.record
				}
				require.Equal(t, c.recorded, do("GET", fenceRecord))
				require.EqualValues(t, -1, do("PTTL", fenceRecord), "it does not expire")
				if c.code == granted || c.code == grantedBlind {
					require.Equal(t, "token", do("GET", fenceLock))
					require.Equal(t, fmt.Sprint(c.number), do("GET", fenceLast))
					require.InDelta(t, 5000, do("PTTL", fenceLock), 3000)
					require.InDelta(t, aPeriod.Milliseconds()+3_600_000, do("PTTL", fenceLast), 60_000)
					return
				}
				for key, was := range map[string]string{fenceLock: c.has.lock, fenceLast: c.has.last} {
					if was == "" {
						require.EqualValues(t, 0, do("EXISTS", key))
					} else {
						require.Equal(t, was, do("GET", key))
					}
				}
			})
		}
	}
}

// Where a key holds something else, nothing is granted.
func TestFencedScriptFindsSomethingElse(t *testing.T) {
	command := []string{"EVAL", lua.AcquireFenced, "3", fenceLock, fenceLast, fenceRecord, "token", "5000", "5", "60000000", "1000"}
	for side, do := range bothNodes(t) {
		for _, has := range []fenceState{
			{last: "a token"}, {last: "-5"}, {last: "5 "}, {last: "+5"},
			{record: "redlock-fence 2 x"}, {record: "redlock-fence 1 run_id=r floor= period=1 cur=1 prev=1"},
			{record: "redlock-fence 1 run_id=r floor=1 period=1 cur=1 prev=1 "},
			{record: "redlock-fence 1 run_id=r floor=1 period=1 cur=9007199254740992 prev=1"},
		} {
			has.arrange(do)
			require.Contains(t, do(command...), "holds something else", "%s: %q", side, has)
			require.EqualValues(t, 0, do("EXISTS", fenceLock))
		}
		if side == "real" { // a node in memory has no lists
			fenceState{}.arrange(do)
			do("RPUSH", fenceLock, "x")
			require.EqualValues(t, []any{int64(heldByAny), int64(0), "1 "}, do(command...))
			for _, key := range []string{fenceLast, fenceRecord} {
				fenceState{}.arrange(do)
				do("RPUSH", key, "x")
				require.Contains(t, do(command...), "holds something else")
				require.EqualValues(t, 0, do("EXISTS", fenceLock))
				require.Equal(t, "list", do("TYPE", key))
			}
		}
		fenceState{record: "redlock-fence 2 x"}.arrange(do)
		do("SET", "redlock:seal", "s")
		require.Contains(t, do("EVAL", lua.Floor, "2", fenceRecord, "redlock:seal", "s", "r", "5"), "holds something else")
	}
}

// A floor is written only beside the seal that was seen, and never lowered.
func TestFloorScript_F3(t *testing.T) {
	has := func(floor, cur, prev int64) string {
		return pure.Record{Run: "old", Floor: floor, Period: 7, Cur: cur, Prev: prev}.String()
	}
	wants := func(floor, cur, prev int64) string {
		return pure.Record{Run: "new", Floor: floor, Period: 7, Cur: cur, Prev: prev}.String()
	}
	sides := bothNodes(t)
	for name, c := range map[string]struct {
		seal, record string
		answer       int64
		after        string
	}{
		"no record":       {"s", "", 1, pure.Record{Run: "new", Floor: 5}.String()},
		"no floor":        {"s", has(pure.NoFloor, 9, 8), 1, wants(5, 9, 8)},
		"a lower floor":   {"s", has(4, 0, 0), 1, wants(5, 0, 0)},
		"the same floor":  {"s", has(5, 0, 0), 1, wants(5, 0, 0)},
		"a higher floor":  {"s", has(6, 2, 3), 1, wants(6, 2, 3)},
		"another seal":    {"s2", has(4, 0, 0), 0, has(4, 0, 0)},
		"no seal":         {"", has(4, 0, 0), 0, has(4, 0, 0)},
		"more digits win": {"s", has(10, 0, 0), 1, wants(10, 0, 0)},
	} {
		for side, do := range sides {
			t.Run(name+"/"+side, func(t *testing.T) {
				fenceState{record: c.record}.arrange(do)
				do("DEL", "redlock:seal")
				if c.seal != "" {
					do("SET", "redlock:seal", c.seal)
				}
				require.Equal(t, c.answer, do("EVAL", lua.Floor, "2", fenceRecord, "redlock:seal", "s", "new", "5"))
				require.Equal(t, c.after, do("GET", fenceRecord))
				require.EqualValues(t, -1, do("PTTL", fenceRecord))
			})
		}
	}
}

// An operator's floor takes the place of a record that is none, or that is
// beyond what the operator believes (R33). Without an operator, such a record
// stays.
func TestFloorScriptOfAnOperator_R33(t *testing.T) {
	has := func(floor, cur, prev int64) string {
		return pure.Record{Run: "old", Floor: floor, Period: 7, Cur: cur, Prev: prev}.String()
	}
	fresh := pure.Record{Run: "new", Floor: 5}.String()
	for name, c := range map[string]struct{ record, after string }{
		"no record":             {"", fresh},
		"as much as believed":   {has(4, 20, 20), pure.Record{Run: "new", Floor: 5, Period: 7, Cur: 20, Prev: 20}.String()},
		"a higher floor":        {has(20, 2, 3), pure.Record{Run: "new", Floor: 20, Period: 7, Cur: 2, Prev: 3}.String()},
		"cur is beyond":         {has(4, 21, 3), fresh},
		"prev is beyond":        {has(4, 2, 21), fresh},
		"the floor is beyond":   {has(21, 2, 3), fresh},
		"no floor, and beyond":  {has(pure.NoFloor, 21, 3), fresh},
		"no number at all":      {"redlock-fence 1 run_id=r floor=1 period=1 cur=99999999999999999999 prev=1", fresh},
		"something else stands": {"12", fresh},
	} {
		for side, do := range bothNodes(t) {
			t.Run(name+"/"+side, func(t *testing.T) {
				fenceState{record: c.record}.arrange(do)
				do("SET", "redlock:seal", "s")
				command := []string{"EVAL", lua.Floor, "2", fenceRecord, "redlock:seal", "s2", "new", "5", "20"}
				require.EqualValues(t, 0, do(command...), "another seal")
				command[5] = "s"
				require.EqualValues(t, 1, do(command...))
				require.Equal(t, c.after, do("GET", fenceRecord))
			})
		}
	}
	server := redistest.Servers(t, 1)[0]
	for _, command := range [][]string{{"SET", "redlock:seal", "s"}, {"RPUSH", fenceRecord, "x"}} {
		_, err := server.Do(command...)
		require.NoError(t, err)
	}
	_, err := server.Do("EVAL", lua.Floor, "2", fenceRecord, "redlock:seal", "s", "new", "5")
	require.ErrorContains(t, err, "holds something else")
	said, err := server.Do("EVAL", lua.Floor, "2", fenceRecord, "redlock:seal", "s", "new", "5", "20")
	require.NoError(t, err)
	require.EqualValues(t, 1, said, "a key of another type")
}
