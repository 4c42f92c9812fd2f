package redlocktest

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/lua"
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

// The times in a set of readers and in a record of permits are those of the
// server's clock, to the millisecond, and the set outlives the last of them by
// a second: keys expire by a clock that stands still while a script runs.
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
		"extend read":   {"w:readers", rwCall(lua.Read, "x", "50000"), rwCall(lua.ExtendRead, "x", "100000")},
		"downgrade":     {"w:readers", []string{"SET", "w", "x"}, rwCall(lua.Downgrade, "x", "y", "100000")},
		"permit":        {"s:permits", nil, permitCall("0", "x", "100000", "2", "0")},
		"extend permit": {"s:permits", []string{"SET", "s#0", "x", "PX", "50000"}, []string{"EVAL", lua.ExtendPermit, "2", "s#0", "s:permits", "x", "100000", "100000", "2"}},
	} {
		do("FLUSHALL")
		if c.prepare != nil {
			do(c.prepare...)
		}
		before := now()
		require.EqualValues(t, 1, do(c.call...), name)
		after, set := now(), do("ZRANGE", c.set, "0", "0", "WITHSCORES").([]any)
		ends, err := strconv.ParseInt(set[1].(string), 10, 64)
		require.NoError(t, err)
		require.True(t, before <= ends-100_000 && ends-100_000 <= after, "%s: %d", name, ends)
		require.Greater(t, do("EVAL", rest, "1", c.set), int64(100), name)
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

// permitCall returns a call of the script that takes a permit of s.
func permitCall(n, value, ttl, permits, mark string) []string {
	return []string{"EVAL", lua.AcquirePermit, "3", "s#" + n, "s:permits", "s:mark", value, ttl, permits, n, "s#", mark}
}

// The scripts of semaphores.
func TestRecordedSemaphoreScripts(t *testing.T) {
	keys := []string{"s:permits", "s:mark", "s#0", "s#1", "s#2", "s#3"}
	recording{name: "permits", steps: 400, keys: keys, draw: func(r *rand.Rand, step int) []string {
		n, value, permits := strconv.Itoa(r.IntN(6)), pick(r, "x", "y"), strconv.Itoa(2+r.IntN(3))
		switch r.IntN(6) {
		case 0, 1, 2:
			// A mark that is half as long as another is due for renewal by that.
			return permitCall(n, value, times(r, step), permits, strconv.Itoa(r.IntN(3)*100*unit))
		case 3:
			return []string{"EVAL", lua.ExtendPermit, "2", "s#" + n, "s:permits", value, times(r, step), times(r, step), permits}
		case 4:
			return []string{"EVAL", lua.ReleaseMarked, "2", "s#" + n, "s:mark", value}
		}
		return []string{"DEL", pick(r, "s#"+n, "s#"+n, "s:permits")}
	}}.run(t)
}

// A number of permits counts until the last permit of a client that named it
// has ended, on a real server as in memory, though others keep the record.
func TestNumbersOfPermitsEnd(t *testing.T) { bothSides(t, testNumbersOfPermitsEnd) }

func testNumbersOfPermitsEnd(t *testing.T, do func(args ...string) any, unit time.Duration) {
	one, more, many := inMS(unit), inMS(5*unit/2), inMS(1000*unit)
	extend := func(n, value, ttl, permits string) []string {
		return []string{"EVAL", lua.ExtendPermit, "2", "s#" + n, "s:permits", value, ttl, ttl, permits}
	}
	least := func() any {
		said, _ := do("EVAL", lua.LookPermits, "1", "s:permits", "s#", "0").([]any)
		if said == nil {
			return nil
		}
		return said[0]
	}
	require.EqualValues(t, 1, do(permitCall("0", "x", one, "1", "0")...))
	require.Equal(t, "1 ", do(permitCall("1", "y", many, "3", "0")...))
	require.EqualValues(t, 1, do(extend("0", "x", more, "1")...))
	require.EqualValues(t, 1, do(extend("0", "x", "1", "1")...))
	do("DEL", "s#0")
	require.EqualValues(t, 1, do(permitCall("0", "y", many, "3", "0")...))
	require.InDelta(t, (1000*unit + time.Second).Milliseconds(), do("PTTL", "s:permits"), float64(unit.Milliseconds()))
	time.Sleep(unit + unit/10)
	require.EqualValues(t, 1, least(), "it was extended, and no end is moved back")
	require.EqualValues(t, 1, do(extend("0", "y", inMS(1100*unit), "3")...))
	time.Sleep(3 * unit / 2)
	require.EqualValues(t, 3, least())
	require.EqualValues(t, 1, do(permitCall("1", "y", many, "3", "0")...))
	require.EqualValues(t, 1, do(permitCall("2", "y", many, "3", "0")...))
	require.Equal(t, "1 ", do(permitCall("0", "z", many, "2", "0")...), "held beyond the least")

	do("DEL", "s:permits")
	require.EqualValues(t, 1, do(extend("0", "y", "1", "2")...))
	require.EqualValues(t, 2, least(), "a record that was lost begins anew")
	require.Greater(t, do("PTTL", "s:permits"), (900 * unit).Milliseconds(), "with the end of the permit")
}

// A key that holds no string is no free permit, though MGET shows no value:
// callers that wait would ask for it again and again. So the mark is set.
func TestPermitsInPlaceOfOtherKeys(t *testing.T) {
	do := onServer(t)
	do("HSET", "s#0", "a", "b")
	do("ZADD", "s#2", "1", "a")
	do("SET", "s#3", "x")
	for _, n := range []string{"0", "2", "3"} {
		require.Equal(t, "1 1", do(permitCall(n, "x", "60000", "4", "1000")...))
	}
	require.Nil(t, do("GET", "s:mark"))
	require.EqualValues(t, 1, do(permitCall("1", "x", "60000", "4", "1000")...))
	require.Equal(t, "1 ", do(permitCall("0", "y", "60000", "4", "1000")...))
	require.Equal(t, "", do("GET", "s:mark"))
}

// A refusal names eight free permits at most: a client keeps no longer text
// (R32).
func TestFewFreePermitsAreNamed_R32(t *testing.T) {
	for side, do := range bothNodes(t) {
		require.EqualValues(t, 1, do(permitCall("1020", "x", "60000", "1024", "0")...), side)
		require.Equal(t, "1 1021,1022,1023,0,1,2,3,4", do(permitCall("1020", "y", "60000", "1024", "0")...), side)
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
	extend := func(ttl string) any {
		return do("EVAL", lua.ExtendPermit, "2", "s#1", "s:permits", "x", ttl, ttl, "3")
	}
	require.EqualValues(t, 1, do(permitCall("0", "x", "1", "2", "0")...))
	require.EqualValues(t, 1, do(permitCall("1", "x", "10000", "3", "0")...))
	time.Sleep(5 * time.Millisecond) // one number has ended
	do("CONFIG", "SET", "maxmemory", "1")
	_, err := server.Do(permitCall("0", "y", "10000", "3", "0")...)
	require.ErrorContains(t, err, "OOM")
	require.Nil(t, do("GET", "s#0"))
	for _, ttl := range []string{"20000", "1000"} {
		require.EqualValues(t, 1, extend(ttl), "in ms: %s", ttl)
		require.InDelta(t, 20000, do("PTTL", "s#1"), 1000)
		require.InDelta(t, 21000, do("PTTL", "s:permits"), 1000)
	}
	do("DEL", "s:permits")
	require.EqualValues(t, 1, extend("1000"))
	require.InDelta(t, 21000, do("PTTL", "s:permits"), 1000, "a record that was lost begins anew")
	require.EqualValues(t, 1, do("EVAL", lua.ReleaseMarked, "2", "s#1", "s:mark", "x"))
}

// A record that holds something else is refused, and not looked through: a
// number in it would make the server ask for as many keys (R32).
func TestRecordsThatAreNone_R32(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	for _, number := range []string{"1025", "0", "02", "-1", "1.5", "x", ""} {
		_, err := server.Do("DEL", "s:permits")
		require.NoError(t, err)
		_, err = server.Do("ZADD", "s:permits", "+inf", number)
		require.NoError(t, err)
		_, err = server.Do(permitCall("0", "x", "1000", "3", "0")...)
		require.ErrorContains(t, err, "holds something else", "%q", number)
		said, err := server.Do("EVAL", lua.LookPermits, "1", "s:permits", "s#", "0")
		require.NoError(t, err)
		require.Nil(t, said, "%q", number)
	}
}

// The scripts of fair locks. A lease that has ended is a key that is not there.
func TestRecordedFairScripts(t *testing.T) {
	keys := []string{"f", "f:queue", "f:ticket", "f:turn", "f:queue:a", "f:queue:b", "f:queue:c", "f:queue:d"}
	recording{name: "fair", steps: 400, keys: keys, draw: func(r *rand.Rand, step int) []string {
		waiter := pick(r, "a", "b", "c", "d")
		lease, value := "f:queue:"+waiter, "by "+waiter
		switch r.IntN(6) {
		case 0, 1, 2, 3:
			// A lease that is half as long as another is due for renewal by that.
			return []string{
				"EVAL", lua.AskFair, "5", "f", "f:queue", "f:ticket", "f:turn", lease, value, times(r, step), waiter,
				strconv.Itoa(1_000_000 + step + r.IntN(20)), pick(r, "new", "keep", "keep", "try"), strconv.Itoa((1 + r.IntN(2)) * 100 * unit), "f:queue:",
			}
		case 4:
			return []string{"EVAL", lua.ReleaseFair, "4", "f", "f:queue", "f:turn", lease, value, waiter, strconv.Itoa(r.IntN(2))}
		}
		return []string{"DEL", pick(r, lease, lease, "f", "f:ticket")}
	}}.run(t)
}

// A key of another type holds a fair lock, as it holds a plain one, and a name
// of a waiter that is too long for one of ours is not repeated (R32).
func TestFairScriptMeetsStrangers_R32(t *testing.T) {
	real, inMemory := onServer(t), inMemory(t)
	ask := func(waiter, ticket, mode string) []string {
		return []string{
			"EVAL", lua.AskFair, "5", "f", "f:queue", "f:ticket", "f:turn", "f:queue:" + waiter,
			"token", "100000", waiter, ticket, mode, "100000", "f:queue:",
		}
	}
	long := strings.Repeat("w", 5000)
	for side, do := range map[string]func(args ...string) any{"real": real, "in memory": inMemory} {
		require.EqualValues(t, 1, do(ask(long, "1", "new")...), side)
		do("DEL", "f", "f:turn")
		require.Equal(t, "2 2 ", do(ask("b", "2", "new")...), side)
		do("DEL", "f:queue", "f:ticket", "f:queue:b", "f:queue:"+long)
	}
	real("RPUSH", "f", "x") // a node in memory has no lists
	require.Equal(t, "1 ", real(ask("b", "3", "new")...))
	require.Equal(t, "list", real("TYPE", "f"))
}

// A highest ticket above which too few are left was let in by no caller. The
// node goes by its last waiter instead, and the next one mends the key (R33).
func TestABadHighestTicket_R33(t *testing.T) {
	for side, do := range bothNodes(t) {
		t.Run(side, func(t *testing.T) {
			ask := func(waiter, ticket string) any {
				return do("EVAL", lua.AskFair, "5", "f", "f:queue", "f:ticket", "f:turn", "f:queue:"+waiter,
					"by "+waiter, "100000", waiter, ticket, "new", "100000", "f:queue:")
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
