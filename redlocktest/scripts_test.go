package redlocktest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

const sealKey = "redlock:seal"

// The nodes of these tests are members of some sets.
var (
	memberX, memberY, memberZ = strings.Repeat("1", 16), strings.Repeat("2", 16), strings.Repeat("3", 16)
	setXY, setXZ              = pure.IdentityOf([]string{memberX, memberY}), pure.IdentityOf([]string{memberX, memberZ})
)

// seals are what a node can be: of each seat, with few and many names, and with
// proofs of each kind.
func seals() (all []pure.Seal) {
	names := [2]pure.Names{pure.Names("").With(memberX, strings.Repeat("a", 16))}
	for _, digit := range []string{"b", "c", "d", "e", "f"} {
		names[1] = names[1].With(memberX, strings.Repeat(digit, 16))
	}
	names[1] = names[1].With(memberY, strings.Repeat("a", 16))
	for _, seat := range []pure.Seat{
		{Member: memberX}, {Member: memberY},
		{Member: memberX, Listed: setXY}, {Member: memberX, Listed: setXZ}, {Member: memberY, Listed: setXY},
		{Member: memberX, Open: setXY}, {Member: memberX, Open: setXZ},
		{Member: memberZ, Open: setXY}, {Member: memberZ, Listed: setXZ, Open: setXY}, // which is replaced
	} {
		for i, proof := range []pure.Seal{
			{Run: "m", MaxTTL: time.Second, Watched: 2 * time.Minute, Uptime: 3 * time.Minute},
			{Run: "m", MaxTTL: time.Hour, Watched: time.Minute, Failover: pure.Failover{Expected: true, Bound: 7 * time.Second}},
			{Run: "n", MaxTTL: time.Minute, Watched: time.Hour, Failover: pure.Failover{Expected: true, Bound: 5 * time.Second}},
			{Run: pure.NoRun, MaxTTL: time.Minute},
		} {
			s := pure.Seal{Seat: seat}
			if seat.Set() == setXZ {
				s.Names = pure.Names("").With(memberX, strings.Repeat("a", 16))
			} else if !seat.Free() {
				s.Names = names[i%2]
			}
			if seat.Open != (pure.Identity{}) {
				proof.Seat, proof.Names = s.Seat, s.Names
				s = proof
			}
			all = append(all, s)
		}
	}
	return slices.Compact(all)
}

// replaced reports whether a node belongs to a deployment that is over.
func replaced(s pure.Seal) bool { return s.Open != pure.Identity{} && !s.Open.Has(s.Member) }

// strangers are values that are no seals.
var strangers = []string{
	"a token, 20 bytes in", " ", "x\r\n", strings.Repeat("long", 300), "redlock-seal 5 x", "redlock-seal 5 member=" + memberX + " ",
	"redlock-seal 4 member=" + memberX, "redlock-seal 6 member=" + memberX, "redlock-seal 5 member=" + memberX + " names=",
}

// proves reports whether a node gets a proof with its seat.
func proves(is pure.Seal) bool { return is.Open != pure.Identity{} && !replaced(is) }

// sealCall is the script of seals, for a node with a seal or none ("").
func sealCall(was string, is pure.Seal, more ...string) []string {
	proof := ""
	if proves(is) {
		proof = is.Proof()
	}
	return append([]string{"EVAL", lua.Seal, "1", sealKey, was, is.Seat.String(), string(is.Names), proof}, more...)
}

// changed returns what the script shall do with a value, in terms of package
// pure.
func changed(value string, was pure.Seat, is pure.Seal) (done int64, after string) {
	old, err := pure.ParseSeal(value)
	if value != "" && err != nil || old.Seat != was && (old.Seat != is.Seat || proves(is)) {
		return 0, value
	}
	then := is
	if replaced(is) {
		then = old // its proof stays as it is
	}
	then.Seat, then.Names = is.Seat, is.Names
	if old.Set() == is.Set() {
		then.Names = old.Names.And(is.Names)
	}
	if old.Seat == is.Seat {
		then = then.Over(old)
	}
	return 1, then.String()
}

// The script changes a node only if it is what the client takes it for, and
// what it says of a deployment is never lowered (R23, R30).
func TestSealScript_R23_R30(t *testing.T) {
	values, seats := append([]string{""}, strangers...), []pure.Seat{{}}
	for _, s := range seals() {
		values, seats = append(values, s.String()), append(seats, s.Seat)
	}
	for side, do := range bothNodes(t) {
		for _, value := range values {
			now := "?"
			for _, was := range slices.Compact(seats) {
				for _, is := range seals() {
					if is.Open != was.Open && replaced(is) {
						continue // no client gives a new member the proof of an old one
					}
					if now != value {
						do("DEL", sealKey)
						if value != "" {
							do("SET", sealKey, value)
						}
					}
					done, after := changed(value, was, is)
					require.Equal(t, done, do(sealCall(was.String(), is)...), "%s: %q, from %q to %q", side, value, was, is)
					now, _ = do("GET", sealKey).(string)
					require.Equal(t, after, now, "%s: %q, from %q to %q", side, value, was, is)
				}
			}
		}
		do("DEL", sealKey)
		do("HSET", sealKey, "of", "another type")
		for _, is := range seals() {
			require.EqualValues(t, 0, do(sealCall("", is)...), side)
			require.EqualValues(t, 1, do("HLEN", sealKey), side)
		}
	}
}

// A node belongs to a deployment with one of its databases, even to the same
// deployment. Those that are over are removed, unless another is in the way.
func TestSealScriptInSeveralDatabases_R30(t *testing.T) {
	const inDatabase = "redis.call('SELECT', ARGV[1]) if ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) end return redis.call('GET', KEYS[1])"
	open := func(who pure.Identity) pure.Seal {
		return pure.Seal{Seat: pure.Seat{Member: memberX, Open: who}, Names: pure.Names("").With(memberX, memberX), Run: "m", MaxTTL: time.Second}
	}
	named, listed := pure.Seal{Seat: pure.Seat{Member: memberY}}, open(setXZ)
	listed.Listed, listed.Open = listed.Open, pure.Identity{}
	xy, xz := open(setXY).String(), open(setXZ).String()
	for side, do := range bothNodes(t) {
		at := func(db string, seal ...string) any {
			return do(append([]string{"EVAL", inDatabase, "1", sealKey, db}, seal...)...)
		}
		for name, c := range map[string]struct {
			at1, at3, over string
			is             pure.Seal
			says           any
			after1, after3 any
		}{
			"free":                    {named.String(), named.String(), "", named, int64(1), named.String(), named.String()},
			"strange":                 {"x", "y", setXY.ID, named, int64(1), "x", "y"},
			"listed":                  {named.String(), listed.String(), "", named, "3 " + setXZ.ID, named.String(), listed.String()},
			"open":                    {xy, xz, "", named, "1 " + setXY.ID, xy, xz},
			"open, and adopted":       {"x", xy, "", open(setXY), "3 " + setXY.ID, "x", xy},
			"over":                    {xy, "y", setXY.ID, open(setXZ), int64(1), nil, "y"},
			"over, not yet":           {xy, "y", setXY.ID, named, int64(1), xy, "y"},
			"over, and another after": {xy, xz, setXY.ID, named, "3 " + setXZ.ID, xy, xz},
			"and another before":      {xz, xy, setXY.ID, named, "1 " + setXZ.ID, xz, xy},
			"both over":               {xy, listed.String(), setXZ.ID + " " + setXY.ID, open(setXZ), int64(1), nil, nil},
		} {
			do("DEL", sealKey)
			at("1", c.at1)
			at("3", c.at3)
			require.Equal(t, c.says, do(sealCall("", c.is, " "+c.over+" ", "0")...), "%s: %s", side, name)
			require.Equal(t, []any{c.after1, c.after3}, []any{at("1"), at("3")}, "%s: %s", side, name)
			var own any
			if c.says == int64(1) {
				own = c.is.String()
			}
			require.Equal(t, own, do("GET", sealKey), "%s: %s", side, name)
		}
	}
}

// Where a user may not SELECT, the script does its work in its own database.
// Without GET it gives no answer: a 0 would say that the node is something
// else.
func TestSealScriptOfAUserWhoMayLittle_R30(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	call := sealCall("", seals()[0], "  ", "0")
	for lacks, want := range map[string]any{"select": int64(1), "get": nil} {
		_, err := server.Do("ACL", "SETUSER", "lacks", "reset", "on", "nopass", "~*", "+@all", "-"+lacks)
		require.NoError(t, err)
		server.Authenticate("lacks", "any")
		said, err := server.Do(call...)
		server.Authenticate("", "")
		require.Equal(t, want, said)
		require.Equal(t, want == nil, err != nil, "%v", err)
	}
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

// What the scripts do is recorded in testdata/scripts, a command a line: what
// it was, what the server said, and the keys that it left. A real server and a
// node in memory must do what is written there. The commands are drawn from few
// keys, tokens and times, so that they meet, always the same.
//
//	go test ./redlocktest -run TestRecorded -scripts.record   writes them anew
var record = flag.Bool("scripts.record", false, "write testdata/scripts anew, from a real server")

// A recording is one file of testdata/scripts.
type recording struct {
	name  string
	steps int
	keys  []string                              // whose state is shown
	draw  func(r *rand.Rand, step int) []string // the next command
	short *strings.Replacer                     // makes texts shorter; nil for none
}

// unit is the least difference of times, in ms, that a recording shows. No TTL
// ends during a test.
const unit = 1_000_000

func (r recording) run(t *testing.T) {
	t.Helper()
	path := filepath.Join("..", "testdata", "scripts", r.name+".txt")
	if *record {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(r.lines(t, onServer(t)), "\n")+"\n"), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for side, do := range map[string]func(args ...string) any{"on a real server": onServer(t), "in memory": inMemory(t)} {
		for i, line := range r.lines(t, do) {
			require.Equal(t, want[i], line, "%s: %s:%d", side, path, i+1)
		}
	}
}

func (r recording) lines(t *testing.T, do func(args ...string) any) []string {
	random := rand.New(rand.NewPCG(1, 0))
	do(append([]string{"DEL"}, r.keys...)...)
	lines := make([]string, r.steps)
	for i := range lines {
		command := r.draw(random, i)
		line := fmt.Sprintf("%s → %v", r.command(t, command), do(command...))
		for _, key := range r.keys {
			line += r.state(do, key)
		}
		if r.short != nil {
			line = r.short.Replace(line)
		}
		lines[i] = strings.ReplaceAll(line, "\r\n", `\r\n`)
	}
	return lines
}

// command names the script of a command, and its keys and arguments.
func (r recording) command(t *testing.T, args []string) string {
	if args[0] != "EVAL" {
		return strings.Join(args, " ")
	}
	n, err := strconv.Atoi(args[2])
	require.NoError(t, err)
	return scriptName(t, args[1]) + " " + strings.Join(args[3:3+n], " ") + " : " + strings.Join(args[3+n:], " ")
}

// scriptName returns the name of a script's file.
func scriptName(t *testing.T, source string) string {
	files, err := filepath.Glob("../internal/lua/*.lua")
	require.NoError(t, err)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && string(text) == source {
			return strings.TrimSuffix(filepath.Base(file), ".lua")
		}
	}
	t.Fatal("no such script")
	return ""
}

// state shows a key that exists: its value, or its members, each with its
// score or the time that it stands for, and what is left of its own time.
func (r recording) state(do func(args ...string) any, key string) string {
	rest := do("PTTL", key).(int64)
	if rest == -2 {
		return ""
	}
	left := "ever"
	if rest >= 0 {
		left = units(rest)
	}
	if strings.HasSuffix(key, ":permits") {
		return fmt.Sprintf(" | %s (%s) %s", key, fields(do, key), left)
	}
	if strings.HasSuffix(key, ":readers") || strings.HasSuffix(key, ":queue") || strings.HasSuffix(key, ":leases") {
		return fmt.Sprintf(" | %s (%s) %s", key, members(do, key), left)
	}
	return fmt.Sprintf(" | %s=%v %s", key, do("GET", key), left)
}

func members(do func(args ...string) any, key string) string {
	seconds := do("TIME").([]any)[0].(string)
	now, _ := strconv.ParseInt(seconds, 10, 64)
	var shown []string
	all := do("ZRANGE", key, "0", "-1", "WITHSCORES").([]any)
	for i := 0; i < len(all); i += 2 {
		score := all[i+1].(string)
		if !strings.HasSuffix(key, ":queue") {
			ends, _ := strconv.ParseFloat(score, 64)
			score = "over"
			if int64(ends) > 1000*now {
				score = units(int64(ends) - 1000*now)
			}
		}
		shown = append(shown, fmt.Sprint(all[i], " ", score))
	}
	if !strings.HasSuffix(key, ":queue") {
		slices.Sort(shown) // which of two ends first may be a matter of a millisecond
	}
	return strings.Join(shown, ", ")
}

// fields shows a hash, with the times in it as units.
func fields(do func(args ...string) any, key string) string {
	seconds := do("TIME").([]any)[0].(string)
	now, _ := strconv.ParseInt(seconds, 10, 64)
	var shown []string
	all := do("EVAL", "return redis.call('HGETALL', KEYS[1])", "1", key).([]any)
	for i := 0; i < len(all); i += 2 {
		shown = append(shown, fmt.Sprint(all[i], ": ", moments.ReplaceAllStringFunc(all[i+1].(string), func(ms string) string {
			ends, _ := strconv.ParseInt(ms, 10, 64)
			return units(ends - 1000*now)
		})))
	}
	slices.Sort(shown)
	return strings.Join(shown, ", ")
}

// moments are times in ms.
var moments = regexp.MustCompile(`\d{12,}`)

func units(ms int64) string { return strconv.FormatInt((ms+unit/2)/unit, 10) }

// times returns a TTL as an argument: so many times a hundred units, and one
// more unit with each step, so that no two are the same.
func times(r *rand.Rand, step int) string { return strconv.Itoa((100*(1+r.IntN(9)) + step) * unit) }

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

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
			both(permitCall(strconv.Itoa(i), value, ttl, "50", "0")...)
			both(askCall(value, "token "+value, ttl, strconv.Itoa(round*50+i+1), "new", "100000000")...)
		}
		if r.IntN(2) == 0 {
			both(rwCall(lua.Write, "writer", "100000000", "", "100000000")...)
		}
		for range r.IntN(5) {
			both("HDEL", "s:permits", strconv.Itoa(r.IntN(50)))
			both("ZADD", "f:leases", "XX", "1", "v"+strconv.Itoa(r.IntN(60)))
		}
		for skip := 0; skip <= 60; skip += []int{20, 7}[r.IntN(2)] {
			at := strconv.Itoa(skip)
			for name, command := range map[string][]string{
				"readers": {"EVAL", lua.LookReaders, "2", "w:readers", "w:mark", at},
				"permits": {"EVAL", lua.LookPermits, "1", "s:permits", at},
				"queue":   {"EVAL", lua.LookQueue, "4", "f:queue", "f:leases", "f", "f:turn", at},
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

// without returns a list without the element at i.
func without(all []any, i int) []any { return slices.Delete(all, i, i+1) }

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
	permits := []string{"EVAL", lua.LookPermits, "1", "s:permits", "0"}
	queue := []string{"EVAL", lua.LookQueue, "4", "f:queue", "f:leases", "f", "f:turn", "0"}
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
		of := func(numbers string) {
			do("HSET", "s:permits", numbersField, fmt.Sprintf(numbers, future, past))
		}
		do("HSET", "s:permits", "1", fmt.Sprint(future, " a"), "2", fmt.Sprint(past, " b"), "x", fmt.Sprint(future, " c"), "3", "d")
		require.Nil(t, do(permits...), "%s: there is no number", side)
		for _, numbers := range []string{"none %d %d", "3=%[2]d"} {
			of(numbers)
			require.Nil(t, do(permits...), "%s: no number counts", side)
		}
		of("2=%d 1=%d")
		require.Equal(t, []any{int64(2), int64(2), int64(1), "a"}, without(do(permits...).([]any), 3), side)
		of("4=%[1]d 3=%[1]d 9=%[2]d")
		require.Equal(t, []any{int64(3), int64(4), int64(1), "a"}, without(do(permits...).([]any), 3), side)
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
	real("ZADD", "f:queue", "7", "dead", "8", "none")
	real("ZADD", "f:leases", "+inf", "low", "+inf", "high", "1", "dead")
	most := int64(1<<53 - 1)
	require.Equal(t, []any{int64(0), int64(4), int64(0), most, "low", most, most, "high"}, real(queue...))
	real("ZADD", "w:readers", "-inf", "low", "+inf", "high")
	require.Equal(t, []any{int64(0), int64(2), int64(0), most, "high"}, real(readers...))
}

// If a script may not run a command, it returns the error, and no answer: a
// refusal would look as if another client had the lock, and a release would not
// be repeated (R8, R12). Each of these calls succeeds, and then fails for users
// who lack one of the commands that the script runs with pcall.
func TestErrorsOfScriptsAreNoAnswers_R8_R12(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	do := func(args ...string) any {
		t.Helper()
		said, err := server.Do(args...)
		require.NoError(t, err, "%q", args)
		return said
	}
	call := func(script string, args ...string) []string { return append([]string{"EVAL", script}, args...) }
	key, reader, permit := []string{"SET", "w", "x"}, rwCall(lua.Read, "x", "100000"), permitCall("0", "x", "100000", "2", "0")
	for name, c := range map[string]struct{ prepare, call []string }{
		"release":      {key, call(lua.Release, "1", "w", "x")},
		"extend":       {key, call(lua.Extend, "1", "w", "x", "1000", "1000")},
		"heal":         {key, call(lua.Heal, "1", "w", "x", "1000", "1000")},
		"shorten":      {key, call(lua.Shorten, "1", "w", "x", "1000")},
		"look":         {key, call(lua.Look, "1", "w")},
		"acquire all":  {nil, call(lua.AcquireAll, "1", "w", "x", "1000")},
		"extend all":   {key, call(lua.ExtendAll, "1", "w", "x", "1000", "1000")},
		"release all":  {key, call(lua.ReleaseAll, "1", "w", "x")},
		"read":         {nil, reader},
		"write":        {nil, rwCall(lua.Write, "x", "1000", "", "0")},
		"downgrade":    {key, rwCall(lua.Downgrade, "x", "y", "1000")},
		"extend read":  {reader, rwCall(lua.ExtendRead, "x", "1000")},
		"release read": {reader, rwCall(lua.ReleaseRead, "x", "y")},
		"marked":       {key, rwCall(lua.ReleaseMarked, "x")},
		"permit":       {permit, extendCall("0", "x", "1000", "2")},
		"give back":    {permit, releaseCall("0", "x")},
		"ask":          {nil, askCall("a", "x", "1000", "1", "new", "1000")},
		"release fair": {[]string{"SET", "f", "x"}, leaveCall("a", "x", "1")},
		"look readers": {reader, call(lua.LookReaders, "2", "w:readers", "w:mark", "0")},
		"look permits": {permit, call(lua.LookPermits, "1", "s:permits", "0")},
		"look queue":   {[]string{"ZADD", "queue", "1", "a"}, call(lua.LookQueue, "4", "queue", "leases", "w", "turn", "0")},
	} {
		var lacks []string
		for _, match := range pcalls.FindAllStringSubmatch(c.call[1], -1) {
			lacks = append(lacks, strings.ToLower(match[1]))
		}
		slices.Sort(lacks)
		require.NotEmpty(t, lacks, name)
		for _, command := range append([]string{""}, slices.Compact(lacks)...) {
			do("FLUSHALL")
			if c.prepare != nil {
				do(c.prepare...)
			}
			if command == "" {
				require.NotContains(t, []any{nil, int64(0)}, do(c.call...), name)
				continue
			}
			do("ACL", "SETUSER", "lacks", "reset", "on", "nopass", "~*", "+@all", "-"+command)
			server.Authenticate("lacks", "any")
			said, err := server.Do(c.call...)
			server.Authenticate("", "")
			require.Error(t, err, "%s without %s: %q", name, command, said)
		}
	}
}

// pcalls finds the commands whose errors a script looks at.
var pcalls = regexp.MustCompile(`redis\.pcall\('(\w+)'`)
