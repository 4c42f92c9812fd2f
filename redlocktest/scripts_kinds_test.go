package redlocktest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// rwCall returns a call of one of the scripts of read/write locks.
func rwCall(script string, args ...string) []string {
	keys := []string{"3", "w", "w:readers", "w:mark"}
	switch script {
	case lua.ExtendRead:
		keys = []string{"1", "w:readers"}
	case lua.ReleaseRead:
		keys = []string{"2", "w:readers", "w"}
	case lua.ReleaseMarked:
		keys = []string{"2", "w", "w:mark"}
	}
	return append(append([]string{"EVAL", script}, keys...), args...)
}

// The scripts of read/write locks.
func TestRecordedReadWriteScripts(t *testing.T) {
	recording{name: "readers", steps: 300, keys: []string{"w", "w:readers", "w:mark"}, draw: func(r *rand.Rand, step int) []string {
		value := func() string { return pick(r, "x", "y", "z") }
		ttl := func() string { return times(r, step) }
		switch r.IntN(8) {
		case 0, 1:
			return rwCall(lua.Read, value(), ttl())
		case 2:
			return rwCall(lua.Write, value(), ttl(), pick(r, "", value()), pick(r, "0", ttl()))
		case 3:
			return rwCall(lua.Downgrade, value(), value(), ttl())
		case 4:
			return rwCall(lua.ExtendRead, value(), ttl())
		case 5:
			return rwCall(lua.ReleaseRead, value(), pick(r, "", value()))
		case 6:
			return rwCall(lua.ReleaseMarked, value())
		}
		return []string{"DEL", "w:mark"}
	}}.run(t)
}

// bothSides runs a test on a real server and in memory, where time is
// simulated. A few commands take less than a unit, however busy the machine is.
func bothSides(t *testing.T, test func(t *testing.T, do func(args ...string) any, unit time.Duration)) {
	t.Parallel()
	t.Run("real", func(t *testing.T) { test(t, onServer(t), 2*time.Second) })
	t.Run("in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, inMemory(t), time.Hour) })
	})
}

// inMS returns a time as an argument of a script.
func inMS(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Readers leave when their own time is over, on a real server as in memory.
func TestReadersTimesEnd(t *testing.T) { bothSides(t, testReadersTimesEnd) }

func testReadersTimesEnd(t *testing.T, do func(args ...string) any, unit time.Duration) {
	one, many := inMS(unit), inMS(1000*unit)
	require.EqualValues(t, 1, do(rwCall(lua.Read, "short", one)...))
	require.EqualValues(t, 1, do(rwCall(lua.Read, "long", many)...))
	require.EqualValues(t, 1, do(rwCall(lua.Read, "middle", inMS(500*unit))...))
	require.Equal(t, "2 long", do(rwCall(lua.Write, "w", one, "", "0")...))
	require.InDelta(t, (1000*unit + time.Second).Milliseconds(), do("PTTL", "w:readers"), float64(unit.Milliseconds()), "nothing is shortened")
	time.Sleep(unit + unit/10)
	require.EqualValues(t, 0, do(rwCall(lua.ExtendRead, "short", one)...))
	require.EqualValues(t, 1, do(rwCall(lua.ExtendRead, "long", "1")...))
	require.EqualValues(t, 0, do(rwCall(lua.ReleaseRead, "short", "")...))
	require.Equal(t, "2 long", do(rwCall(lua.Write, "w", one, "", "0")...))
	require.EqualValues(t, 1, do(rwCall(lua.ReleaseRead, "middle", "")...))
	require.Equal(t, "2 long", do(rwCall(lua.Write, "w", one, "", one)...))
	require.Equal(t, "3 w", do(rwCall(lua.Read, "late", one)...))
	time.Sleep(unit + unit/10)
	require.EqualValues(t, 1, do(rwCall(lua.Read, "late", many)...))
	require.EqualValues(t, 1, do(rwCall(lua.ReleaseRead, "late", "")...))
	require.EqualValues(t, 1, do(rwCall(lua.Write, "w", many, "long", "0")...))
	require.EqualValues(t, 1, do(rwCall(lua.ReleaseRead, "long", "w")...), "the writer, too")
	require.EqualValues(t, 0, do("EXISTS", "w", "w:readers", "w:mark"))

	// Readers whose time is over keep no writer out, and are removed when
	// another gets in or stays on.
	for what, c := range map[string]struct {
		command []string
		size    any
	}{
		"read":   {rwCall(lua.Read, "c", many), int64(2)},
		"extend": {rwCall(lua.ExtendRead, "b", many), int64(1)},
		"write":  {rwCall(lua.Write, "w", many, "b", "0"), int64(1)},
	} {
		size := func() any {
			return do("EVAL", lua.LookReaders, "2", "w:readers", "w:mark", "0").([]any)[1]
		}
		require.EqualValues(t, 1, do(rwCall(lua.Read, "a", inMS(unit/20))...))
		require.EqualValues(t, 1, do(rwCall(lua.Read, "b", many)...))
		time.Sleep(unit / 16)
		require.EqualValues(t, 2, size())
		require.EqualValues(t, 1, do(c.command...), what)
		require.EqualValues(t, c.size, size(), what)
		do("DEL", "w", "w:readers")
	}
	require.EqualValues(t, 1, do(rwCall(lua.Read, "a", inMS(unit/20))...))
	time.Sleep(unit / 16)
	require.EqualValues(t, 1, do(rwCall(lua.Write, "w", one, "", "0")...))
	require.EqualValues(t, 0, do("EXISTS", "w:readers"))
}

// A reader whose user may not remove the others is not let in, or has an end.
func TestReadersEndThoughNoneIsRemoved_R22(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	_, err := server.Do("ACL", "SETUSER", "lacks", "reset", "on", "nopass", "~*", "+@all", "-zremrangebyscore")
	require.NoError(t, err)
	server.Authenticate("lacks", "any")
	_, first := server.Do(rwCall(lua.Read, "a", "60000")...)
	_, second := server.Do(rwCall(lua.Read, "b", "60000")...)
	server.Authenticate("", "")
	require.NoError(t, first)
	require.Error(t, second)
	left, err := server.Do("PTTL", "w:readers")
	require.NoError(t, err)
	require.InDelta(t, 61_500, left, 30_000)
}

// The times of readers and of permits are those of the server's clock, to the
// millisecond, and the key outlives the last of them by a second or two: keys
// expire by a clock that stands still while a script runs.
func TestSetsOutliveWhatIsInThem(t *testing.T) {
	do := onServer(t)
	now := func() int64 {
		return do("EVAL", "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)", "0").(int64)
	}
	const rest = `
		local time, last = redis.call('TIME'), redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
		return redis.call('PTTL', KEYS[1]) + time[1] * 1000 + math.floor(time[2] / 1000) - last[2]`
	for name, c := range map[string]struct {
		set           string
		prepare, call []string
	}{
		"read":          {"w:readers", nil, rwCall(lua.Read, "x", "100000")},
		"read beside":   {"w:readers", rwCall(lua.Read, "y", "99400"), rwCall(lua.Read, "x", "100000")},
		"extend beside": {"w:readers", rwCall(lua.Read, "x", "98400"), rwCall(lua.ExtendRead, "x", "100000")},
		"extend read":   {"w:readers", rwCall(lua.Read, "x", "50000"), rwCall(lua.ExtendRead, "x", "100000")},
		"downgrade":     {"w:readers", []string{"SET", "w", "x"}, rwCall(lua.Downgrade, "x", "y", "100000")},
	} {
		do("FLUSHALL")
		if c.prepare != nil {
			do(c.prepare...)
		}
		before := now()
		require.EqualValues(t, 1, do(c.call...), name)
		after, set := now(), do("ZRANGE", c.set, "-1", "-1", "WITHSCORES").([]any)
		ends, err := strconv.ParseInt(set[1].(string), 10, 64)
		require.NoError(t, err)
		require.True(t, before <= ends-100_000 && ends-100_000 <= after, "%s: %d", name, ends)
		require.Greater(t, do("EVAL", rest, "1", c.set), int64(500), name)
	}
	do("FLUSHALL")
	for ttl, call := range map[int64][]string{
		50_000: permitCall("0", "x", "50000", "2", "0"), 100_000: extendCall("0", "x", "100000", "2"),
	} {
		name := scriptName(t, call[1])
		if ttl > 50_000 {
			do(permitCall("0", "x", "50000", "2", "0")...)
		} else {
			do(permitCall("1", "y", "48400", "2", "0")...)
		}
		before := now()
		require.EqualValues(t, 1, do(call...), name)
		after := now()
		fields := do("HMGET", "s:permits", "0", numbersField).([]any)
		var ends, numbered int64
		_, err := fmt.Sscanf(fields[0].(string)+" "+fields[1].(string), "%d x 2=%d", &ends, &numbered)
		require.NoError(t, err, "%q", fields)
		require.Equal(t, ends, numbered)
		require.True(t, before <= ends-ttl && ends-ttl <= after, "%s: %d", name, ends)
		require.Greater(t, do("PTTL", "s:permits").(int64)+now()-ends, int64(500), name)
		do("DEL", "s:permits")
	}
}

// A key of another type is in the way, or is none of ours.
func TestReadersMeetStrangers(t *testing.T) {
	real := onServer(t)
	// A node in memory has no lists.
	for _, key := range []string{"w", "w:readers", "w:mark"} {
		real("RPUSH", key, "x")
		said := map[string][2]any{ // to Read and to Write
			"w": {"1 ", "1 "}, "w:readers": {"2 ", "2 "}, "w:mark": {"3 ", int64(1)},
		}[key]
		require.Equal(t, said[0], real(rwCall(lua.Read, "x", "1000")...), key)
		require.Equal(t, said[1], real(rwCall(lua.Write, "x", "1000", "", "1000")...), key)
		if key != "w:mark" {
			require.EqualValues(t, 0, real(rwCall(lua.Downgrade, "x", "y", "1000")...), key)
			require.EqualValues(t, 0, real(rwCall(lua.ExtendRead, "x", "1000")...), key)
			require.EqualValues(t, 0, real(rwCall(lua.ReleaseRead, "x", "x")...), key)
			require.Equal(t, "list", real("TYPE", key))
		}
		real("DEL", "w", "w:readers", "w:mark")
	}
}

// numbersField is the field of how many permits there are.
const numbersField = "how many permits there are by each client, and when the last of its ends"

// permitCall returns a call of the script that takes a permit of s.
func permitCall(n, value, ttl, permits, mark string) []string {
	return []string{"EVAL", lua.AcquirePermit, "2", "s:permits", "s:mark", value, ttl, permits, n, mark}
}

// extendCall returns a call of the script that extends a permit of s.
func extendCall(n, value, ttl, permits string) []string {
	return []string{"EVAL", lua.ExtendPermit, "1", "s:permits", value, ttl, permits, n}
}

// releaseCall returns a call of the script that gives a permit of s back.
func releaseCall(n, value string) []string {
	return []string{"EVAL", lua.ReleasePermit, "2", "s:permits", "s:mark", value, n}
}

// The scripts of semaphores.
func TestRecordedSemaphoreScripts(t *testing.T) {
	short := strings.NewReplacer(numbersField, "of")
	recording{name: "permits", steps: 400, keys: []string{"s:permits", "s:mark"}, short: short, draw: func(r *rand.Rand, step int) []string {
		n, value, permits := strconv.Itoa(r.IntN(6)), pick(r, "x", "y"), strconv.Itoa(2+r.IntN(3))
		switch r.IntN(6) {
		case 0, 1, 2:
			// A mark that is half as long as another is due for renewal by that.
			return permitCall(n, value, times(r, step), permits, strconv.Itoa(r.IntN(3)*100*unit))
		case 3:
			return extendCall(n, value, times(r, step), permits)
		case 4:
			return releaseCall(n, value)
		}
		return []string{"HDEL", "s:permits", pick(r, n, n, n, numbersField)}
	}}.run(t)
}

// A number of permits counts until the last permit of a client that named it
// has ended, on a real server as in memory, though others keep the hash. So
// does each permit.
func TestNumbersOfPermitsEnd(t *testing.T) { bothSides(t, testNumbersOfPermitsEnd) }

func testNumbersOfPermitsEnd(t *testing.T, do func(args ...string) any, unit time.Duration) {
	one, more, many := inMS(unit), inMS(5*unit/2), inMS(1000*unit)
	least := func() any {
		said, _ := do("EVAL", lua.LookPermits, "1", "s:permits", "0").([]any)
		if said == nil {
			return nil
		}
		return said[0]
	}
	require.EqualValues(t, 1, do(permitCall("0", "x", one, "1", "0")...))
	require.Equal(t, "1 ", do(permitCall("1", "y", many, "3", "0")...))
	require.EqualValues(t, 1, do(extendCall("0", "x", more, "1")...))
	require.EqualValues(t, 1, do(extendCall("0", "x", "1", "1")...))
	do("HDEL", "s:permits", "0")
	require.EqualValues(t, 1, do(permitCall("0", "y", many, "3", "0")...))
	require.InDelta(t, (1000*unit + time.Second).Milliseconds(), do("PTTL", "s:permits"), float64(unit.Milliseconds()))
	time.Sleep(unit + unit/10)
	require.EqualValues(t, 1, least(), "it was extended, and no end is moved back")
	require.EqualValues(t, 1, do(extendCall("0", "y", inMS(1100*unit), "3")...))
	time.Sleep(3 * unit / 2)
	require.EqualValues(t, 3, least())
	require.EqualValues(t, 1, do(permitCall("1", "y", many, "3", "0")...))
	require.EqualValues(t, 1, do(permitCall("2", "y", one, "3", "0")...))
	require.Equal(t, "1 ", do(permitCall("0", "z", many, "2", "0")...), "held beyond the least")
	require.Equal(t, "1 ", do(permitCall("2", "z", many, "3", "0")...), "all are held")
	time.Sleep(unit + unit/10)
	require.EqualValues(t, 0, do(extendCall("2", "y", many, "3")...), "its time is over")
	require.EqualValues(t, 1, do(permitCall("2", "z", many, "3", "0")...))
	require.EqualValues(t, 0, do(releaseCall("2", "y")...), "and it is another's")

	do("HDEL", "s:permits", numbersField)
	require.EqualValues(t, 1, do(extendCall("0", "y", "1", "2")...))
	require.EqualValues(t, 2, least(), "a number that was lost begins anew")
	require.Greater(t, do("PTTL", "s:permits"), (900 * unit).Milliseconds(), "with the end of the permit")
	for n, value := range []string{"y", "y", "z"} {
		require.EqualValues(t, 1, do(releaseCall(strconv.Itoa(n), value)...))
	}
	require.EqualValues(t, 0, do("EXISTS", "s:permits"), "with the last permit goes the hash")
	require.EqualValues(t, 1, do(permitCall("0", "x", one, "1", "0")...))
	time.Sleep(unit + unit/20)
	require.EqualValues(t, 0, do(releaseCall("0", "x")...), "it is none to give back")
}

// A key that is no hash has no permit: it is refused, and left alone.
func TestPermitsMeetStrangers(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	for _, command := range [][]string{{"SET", "s:permits", "x"}, {"ZADD", "s:permits", "1", "a"}} {
		_, err := server.Do(command...)
		require.NoError(t, err)
		_, err = server.Do(permitCall("0", "x", "60000", "4", "0")...)
		require.ErrorContains(t, err, "WRONGTYPE")
		for _, call := range [][]string{extendCall("0", "x", "60000", "4"), releaseCall("0", "x")} {
			said, err := server.Do(call...)
			require.NoError(t, err)
			require.EqualValues(t, 0, said)
		}
		_, err = server.Do("DEL", "s:permits")
		require.NoError(t, err)
	}
}

// A refusal names eight free permits at most: a client keeps no longer text
// (R32).
func TestFewFreePermitsAreNamed_R32(t *testing.T) {
	for side, do := range bothNodes(t) {
		require.EqualValues(t, 1, do(permitCall("1020", "x", "60000", "1024", "0")...), side)
		require.Equal(t, "1 1021,1022,1023,0,1,2,3,4", do(permitCall("1020", "y", "60000", "1024", "0")...), side)
	}
}

// The free ones are found among a thousand, wherever they are.
func TestFreePermitsBehindManyHeld(t *testing.T) {
	for side, do := range bothNodes(t) {
		for n := range 1024 {
			if n != 1 && n != 700 {
				do("HSET", "s:permits", strconv.Itoa(n), "99999999999999 x")
			}
		}
		for n, want := range map[string]string{"0": "1 1,700", "1023": "1 1,700", "699": "1 700,1", "350": "1 700,1"} {
			require.Equal(t, want, do(permitCall(n, "y", "60000", "1024", "0")...), "%s: %s", side, n)
		}
	}
}

// At maxmemory a server takes no permit, and extends those that are held (R25).
func TestPermitsAtMaxmemory_R25(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	do := func(args ...string) any {
		t.Helper()
		said, err := server.Do(args...)
		require.NoError(t, err)
		return said
	}
	require.EqualValues(t, 1, do(permitCall("0", "x", "1", "2", "0")...))
	require.EqualValues(t, 1, do(permitCall("1", "x", "10000", "3", "0")...))
	time.Sleep(5 * time.Millisecond) // one permit has ended
	do("CONFIG", "SET", "maxmemory", "1")
	_, err := server.Do(permitCall("0", "y", "10000", "3", "0")...)
	require.ErrorContains(t, err, "OOM")
	for _, ttl := range []string{"20000", "1000"} {
		require.EqualValues(t, 1, do(extendCall("1", "x", ttl, "3")...), "in ms: %s", ttl)
		require.InDelta(t, 21000, do("PTTL", "s:permits"), 1000)
	}
	require.EqualValues(t, 1, do(releaseCall("1", "x")...))
}

// A record that holds something else is refused, and no number in it counts
// (R32).
func TestRecordsThatAreNone_R32(t *testing.T) {
	ends := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	for side, do := range bothNodes(t) {
		for _, record := range []string{
			"1025=" + ends, "0=" + ends, "02=" + ends, "-1=" + ends, "1.5=" + ends, "x", "2", "=" + ends, "2=" + ends + " x", "2=x",
			"1025=1", "2=" + ends + " 99999999=" + ends, "2=" + ends + ",3=" + ends,
		} {
			do("DEL", "s:permits")
			do("HSET", "s:permits", numbersField, record)
			require.Contains(t, fmt.Sprint(do(permitCall("0", "x", "1000", "3", "0")...)), "holds something else", "%s: %q", side, record)
			require.Nil(t, do("EVAL", lua.LookPermits, "1", "s:permits", "0"), "%s: %q", side, record)
		}
	}
}

// askCall returns a call of the script that asks for the fair lock f.
func askCall(waiter, value, ttl, ticket, mode, lease string) []string {
	return []string{
		"EVAL", lua.AskFair, "6", "f", "f:queue", "f:leases", "f:ticket", "f:turn", "f:queue:" + waiter,
		value, ttl, waiter, ticket, mode, lease,
	}
}

// leaveCall returns a call of the script that gives f back.
func leaveCall(waiter, value, leaves string) []string {
	return []string{"EVAL", lua.ReleaseFair, "5", "f", "f:queue", "f:leases", "f:turn", "f:queue:" + waiter, value, waiter, leaves}
}

// The scripts of fair locks. Some leases have ended.
func TestRecordedFairScripts(t *testing.T) {
	keys := []string{"f", "f:queue", "f:leases", "f:ticket", "f:turn", "f:queue:a", "f:queue:b", "f:queue:c", "f:queue:d"}
	recording{name: "fair", steps: 400, keys: keys, draw: func(r *rand.Rand, step int) []string {
		waiter := pick(r, "a", "b", "c", "d")
		value := "by " + waiter
		switch r.IntN(6) {
		case 0, 1, 2, 3:
			// A lease that is half as long as another is due for renewal by that.
			ticket, lease := strconv.Itoa(1_000_000+step+r.IntN(20)), strconv.Itoa((1+r.IntN(2))*100*unit)
			return askCall(waiter, value, times(r, step), ticket, pick(r, "new", "keep", "keep", "try"), lease)
		case 4:
			return leaveCall(waiter, value, strconv.Itoa(r.IntN(2)))
		}
		if r.IntN(2) == 0 {
			return []string{"ZADD", "f:leases", "XX", "1", waiter}
		}
		return []string{"DEL", pick(r, "f", "f:ticket")}
	}}.run(t)
}

// A key of another type holds a fair lock, as it holds a plain one or one of
// several, and a name of a waiter that is too long for one of ours is not
// repeated (R32).
func TestFairScriptMeetsStrangers_R32(t *testing.T) {
	real, inMemory := onServer(t), inMemory(t)
	ask := func(waiter, ticket, mode string) []string {
		return askCall(waiter, "token", "100000", ticket, mode, "100000")
	}
	long := strings.Repeat("w", 5000)
	for side, do := range map[string]func(args ...string) any{"real": real, "in memory": inMemory} {
		require.EqualValues(t, 1, do(ask(long, "1", "new")...), side)
		do("DEL", "f", "f:turn")
		require.Equal(t, "2 2 ", do(ask("b", "2", "new")...), side)
		do("DEL", "f:queue", "f:leases", "f:ticket", "f:queue:b", "f:queue:"+long)
	}
	real("RPUSH", "f", "x") // a node in memory has no lists
	require.Equal(t, "1 ", real(ask("b", "3", "new")...))
	require.Equal(t, "2 ", real("EVAL", lua.AcquireAll, "2", "e", "f", "us", "1000"))
	require.EqualValues(t, 0, real("EVAL", lua.ReleaseAll, "1", "f", "us"))
	require.Equal(t, "list", real("TYPE", "f"))
	require.EqualValues(t, 0, real("EXISTS", "e"))
}

// A highest ticket above which too few are left was let in by no caller. The
// node goes by its last waiter instead, and the next one mends the key (R33).
func TestABadHighestTicket_R33(t *testing.T) {
	for side, do := range bothNodes(t) {
		t.Run(side, func(t *testing.T) {
			ask := func(waiter, ticket string) any {
				return do(askCall(waiter, "by "+waiter, "100000", ticket, "new", "100000")...)
			}
			do("DEL", "f", "f:queue", "f:ticket", "f:turn")
			require.EqualValues(t, 1, ask("a", "5"))
			do("SET", "f:ticket", "9007199164740991")
			require.Equal(t, "3 9007199164740991", ask("b", "7"), "there are enough above it")
			for _, bad := range []string{"9007199164740992", "9007199254740991", "9223372036854775807"} {
				do("SET", "f:ticket", bad)
				require.Equal(t, "3 5", ask("b", "5"), "a stands there")
			}
			require.Equal(t, "1 by a", ask("b", "7"))
			require.Equal(t, "7", do("GET", "f:ticket"))
		})
	}
}

// A value that is longer than a lock's can be is not shown: no reply is long
// (R32).
func TestScriptsShowNoLongValue_R32(t *testing.T) {
	require.LessOrEqual(t, pure.LongestValue, pure.LongestShown)
	longest := strings.Repeat("x", pure.LongestShown)
	for side, do := range bothNodes(t) {
		for value, shown := range map[string]string{"": "", longest: longest, longest + "x": "", strings.Repeat("x", 1<<20): ""} {
			do("SET", "b", value)
			require.Equal(t, "2 "+shown, do("EVAL", lua.AcquireAll, "2", "a", "b", "us", "5000"), side)
			said := do("EVAL", lua.AcquireFenced, "5", "a", "b", "a:fence", "b:fence", fenceRecord, "us", "5000", "5", "60000000", fmt.Sprint(lastTTL))
			require.Equal(t, "2 "+shown, said.([]any)[2], side)
			require.EqualValues(t, 0, do("EXISTS", "a"))

			do("SET", "w", value)
			require.Equal(t, "1 "+shown, do(rwCall(lua.Read, "us", "5000")...), side)
			require.Equal(t, "1 "+shown, do(rwCall(lua.Write, "us", "5000", "", "0")...), side)
			do("SET", "f", value)
			require.Equal(t, "1 "+shown, do(askCall("", "us", "5000", "0", "try", "500")...), side)
			do("DEL", "w", "f")
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
				var has []fenceState
				for i := range c.locks {
					has = append(has, fenceState{c.locks[i], c.lasts[i], c.record})
				}
				want := []any{int64(c.code), c.answer}
				if c.text != "" {
					want = append(want, c.text)
				}
				require.Equal(t, want, acquireFenced(t, do, has, 5, c.recorded))
			})
		}
	}
}

// acquireFenced calls acquire_fenced.lua for resources with what they have, and
// returns its reply. If that is a grant, each has the token and the number, and
// otherwise what it had; recorded is the record, or "" if it is as before.
func acquireFenced(t *testing.T, do func(args ...string) any, has []fenceState, number int64, recorded string) []any {
	t.Helper()
	locks, lasts := []string{"a", "b", "c"}[:len(has)], []string{"a:fence", "b:fence", "c:fence"}[:len(has)]
	for i, h := range has {
		h.at(locks[i], do)
	}
	said := do(slices.Concat([]string{"EVAL", lua.AcquireFenced, fmt.Sprint(2*len(has) + 1)}, locks, lasts,
		[]string{fenceRecord, "token", "5000", fmt.Sprint(number), "60000000", fmt.Sprint(lastTTL)})...).([]any)
	require.Equal(t, cmp.Or(recorded, has[0].record), do("GET", fenceRecord))
	require.EqualValues(t, -1, do("PTTL", fenceRecord), "it does not expire")
	for i, h := range has {
		if said[0] == int64(granted) || said[0] == int64(grantedBlind) {
			h.lock, h.last = "token", fmt.Sprint(number)
			require.InDelta(t, 5000, do("PTTL", locks[i]), 3000)
			require.InDelta(t, lastTTL, do("PTTL", lasts[i]), 60_000)
		}
		for key, value := range map[string]string{locks[i]: h.lock, lasts[i]: h.last} {
			if value == "" {
				require.EqualValues(t, 0, do("EXISTS", key), key)
			} else {
				require.Equal(t, value, do("GET", key), key)
			}
		}
	}
	return said
}

// A key of another type is in the way, whichever it is, and the keys before it
// are not set. A last number of another form lets nothing be granted.
func TestFencedScriptOfSeveralFindsSomethingElse(t *testing.T) {
	for side, do := range bothNodes(t) {
		command := []string{
			"EVAL", lua.AcquireFenced, "7", "a", "b", "c", "a:fence", "b:fence", "c:fence", fenceRecord, "token", "5000", "5", "60000000", fmt.Sprint(lastTTL),
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

// The codes that acquire_fenced.lua returns.
const (
	heldByAny = iota
	granted
	tooLow
	tooHigh
	grantedBlind // the node has no floor
)

const (
	fenceLock, fenceRecord = "a", "redlock:fence"
	// aPeriod is so long that none ends during a test.
	aPeriod = 1_000_000_000_000 * time.Millisecond
	// lastTTL is the TTL of a last number, in ms.
	lastTTL = int64((aPeriod + time.Hour) / time.Millisecond)
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
		"… but no number asks for the time":       {fenceState{last: "4", record: record(0, period-1, 8, 3)}, 5, granted, 4, ""},
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
				said := acquireFenced(t, do, []fenceState{c.has}, c.number, c.recorded)
				require.EqualValues(t, c.code, said[0])
				require.Equal(t, c.code == heldByAny, len(said) == 3)
				if c.answer < 0 {
					require.InDelta(t, time.Now().UnixMicro(), said[1], 30e6)
				} else {
					require.EqualValues(t, c.answer, said[1])
				}
			})
		}
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
