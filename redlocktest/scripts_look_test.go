package redlocktest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lookAt asks one side for all participants of a page, each in a text without
// its time, and checks the times.
func lookAt(t *testing.T, do func(args ...string) any, command []string) (said []string) {
	t.Helper()
	reply := do(command...)
	if reply == nil {
		return nil
	}
	all := reply.([]any)
	require.Equal(t, 2, len(all)%3)
	said = append(said, fmt.Sprint(all[:2]))
	for i := 2; i < len(all); i += 3 {
		said = append(said, fmt.Sprint(all[i], all[i+2]))
		require.Positive(t, all[i+1].(int64))
		require.LessOrEqual(t, all[i+1].(int64), int64(1_000_000_000))
	}
	return said
}

// The scripts that look at readers, permits and queues do the same on a real
// server as in memory, page by page, and change nothing.
func TestLookScripts(t *testing.T) {
	real, inMemory := onServer(t), inMemory(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	most := make(map[string]int)
	both := func(command ...string) {
		require.Equal(t, real(command...), inMemory(command...), "%q", command)
	}
	for round := range 40 {
		size := r.IntN(50)
		for i := range size {
			value := fmt.Sprintf("%s%d", strings.Repeat("v", r.IntN(2)*100), r.IntN(60))
			// No two times are the same, so the order is.
			ttl := strconv.Itoa(100_000_000 + r.IntN(40)*20_000_000 + (round*50+i)*5_000)
			both(rwCall(lua.Read, value, ttl)...)
			both("EVAL", lua.AcquirePermit, "3", "s#"+strconv.Itoa(i), "s:permits", "s:mark", value, ttl, "50", strconv.Itoa(i), "s#", "0")
			both("EVAL", lua.AskFair, "5", "f", "f:queue", "f:ticket", "f:turn", "f:queue:"+value, "token "+value, ttl, value,
				strconv.Itoa(round*50+i+1), "new", "100000000", "f:queue:")
		}
		if r.IntN(2) == 0 {
			both(rwCall(lua.Write, "writer", "100000000", "", "100000000")...)
		}
		for range r.IntN(5) {
			both("DEL", "s#"+strconv.Itoa(r.IntN(50)))
			both("DEL", "f:queue:"+strconv.Itoa(r.IntN(60)))
		}
		for skip := 0; skip <= 60; skip += []int{20, 7}[r.IntN(2)] {
			at := strconv.Itoa(skip)
			for name, command := range map[string][]string{
				"readers": {"EVAL", lua.LookReaders, "2", "w:readers", "w:mark", at},
				"permits": {"EVAL", lua.LookPermits, "1", "s:permits", "s#", at},
				"queue":   {"EVAL", lua.LookQueue, "3", "f:queue", "f", "f:turn", "f:queue:", at},
			} {
				before := real("DEBUG", "DIGEST")
				said := lookAt(t, real, command)
				require.Equal(t, before, real("DEBUG", "DIGEST"), "it changes nothing")
				require.Equal(t, said, lookAt(t, inMemory, command), "%q", command)
				most[name] = max(most[name], len(said))
			}
		}
		for _, key := range real("KEYS", "*").([]any) {
			both("DEL", key.(string))
		}
	}
	for name, n := range most {
		require.Equal(t, 21, n, name)
	}
}

// Readers whose time is over are not there, nor are keys of other types.
func TestLookScriptsMeetStrangers(t *testing.T) {
	server, inMemory := redistest.Servers(t, 1)[0], inMemory(t)
	real := func(args ...string) any {
		said, err := server.Do(args...)
		if err != nil {
			return err.Error()
		}
		return said
	}
	readers := []string{"EVAL", lua.LookReaders, "2", "w:readers", "w:mark", "0"}
	permits := []string{"EVAL", lua.LookPermits, "1", "s:permits", "s#", "0"}
	queue := []string{"EVAL", lua.LookQueue, "3", "f:queue", "f", "f:turn", "f:queue:", "0"}
	for side, do := range map[string]func(args ...string) any{"real": real, "in memory": inMemory} {
		for _, command := range [][]string{readers, permits, queue} {
			require.Nil(t, do(command...), side)
		}
		require.EqualValues(t, 1, do(rwCall(lua.Read, "long", "100000")...), side)
		require.EqualValues(t, 1, do(rwCall(lua.Read, "short", "30")...), side)
		time.Sleep(40 * time.Millisecond)
		said := do(readers...).([]any)
		require.Len(t, said, 5, side)
		require.EqualValues(t, 2, said[1], "%s: the size has both", side)
		require.Equal(t, "long", said[4], side)
		past, future := time.Now().Add(-time.Minute).UnixMilli(), time.Now().Add(time.Minute).UnixMilli()
		record := func(ends int64, number string) {
			do("ZADD", "s:permits", strconv.FormatInt(ends, 10), number)
		}
		for _, number := range []string{"0", "02", "-1", "1.5", "1025", "x"} {
			record(future, "1")
			record(past, number)
			require.Nil(t, do(permits...), "%s: %q", side, number)
			do("DEL", "s:permits")
		}
		record(past, "3")
		require.Nil(t, do(permits...), "%s: no number counts", side)
		record(future, "2")
		do("SET", "s#1", "for ever")
		require.EqualValues(t, []any{int64(2), int64(2), int64(1), int64(-1), "for ever"}, do(permits...), side)
		record(future, "1")
		require.EqualValues(t, []any{int64(1), int64(2), int64(1), int64(-1), "for ever"}, do(permits...), side)
	}
	// A node in memory has no lists.
	for key, command := range map[string][]string{"w:readers": readers, "s:permits": permits, "f:queue": queue} {
		real("DEL", key)
		real("RPUSH", key, "x")
		require.Contains(t, real(command...), "WRONGTYPE", key)
		real("DEL", key)
		real("SET", key, "x")
		require.Nil(t, real(command...), key)
	}
	real("DEL", "f:queue", "w:readers")
	real("ZADD", "f:queue", "-inf", "low", "+inf", "high")
	real("SET", "f:queue:low", "")
	real("SET", "f:queue:high", "")
	most := int64(1<<53 - 1)
	require.Equal(t, []any{int64(0), int64(2), int64(0), int64(-1), "low", most, int64(-1), "high"}, real(queue...))
	real("ZADD", "w:readers", "-inf", "low", "+inf", "high")
	require.Equal(t, []any{int64(0), int64(2), int64(0), most, "high"}, real(readers...))
}
