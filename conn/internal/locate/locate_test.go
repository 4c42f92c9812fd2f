package locate

import (
	"strings"
	"testing"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// value decodes one value.
func value(t testing.TB, encoded string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	_, err := r.Fill(strings.NewReader(encoded))
	require.NoError(t, err)
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok, "%q", encoded)
	return v
}

// list encodes an array of texts.
func list(texts ...string) string {
	b := resp.AppendArray(nil, len(texts))
	for _, text := range texts {
		b = resp.AppendBulkString(b, text)
	}
	return string(b)
}

func TestAddress(t *testing.T) {
	for _, c := range [][3]string{
		{"10.0.0.1", "6379", "10.0.0.1:6379"}, {"::1", "1", "[::1]:1"}, {"fe80::1%eth0", "65535", "[fe80::1%eth0]:65535"},
		{"db_1.example-x", "1", "db_1.example-x:1"}, {"\u00e4", "1", "\u00e4:1"},
	} {
		addr, err := Address(c[0], c[1])
		if assert.NoError(t, err, c[0]) {
			assert.Equal(t, c[2], addr)
		}
	}
	for _, c := range [][2]string{
		{"", "1"}, {"a", ""}, {"a", "0"}, {"a", "65536"}, {"a", "-1"}, {"a", "+1"}, {"a", "1 "}, {"a b", "1"}, {"a\r\nb", "1"}, {"a:1", "1"},
		{"[::1]", "1"}, {"a%b", "1"}, {"a/b", "1"}, {"a@b", "1"}, {"\x1b[2J", "1"}, {"\xff", "1"}, {strings.Repeat("a", 256), "1"}, {"?", "1"},
	} {
		addr, err := Address(c[0], c[1])
		if assert.Error(t, err, "%q", c) {
			assert.NotContains(t, err.Error(), "\x1b")
			assert.Less(t, len(err.Error()), 100)
		}
		assert.Empty(t, addr)
	}
}

func TestMaster_R33(t *testing.T) {
	addr, err := Master(value(t, list("10.0.0.1", "6380")))
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:6380", addr)
	for _, null := range []string{"*-1\r\n", "$-1\r\n", "_\r\n"} {
		_, err = Master(value(t, null))
		require.ErrorIs(t, err, ErrNoMaster)
	}
	for _, junk := range []string{
		"+OK\r\n", ":1\r\n", "*0\r\n", list("a"), list("a", "1", "2"), list("", "1"), list("a", "x"), "%1\r\n+a\r\n+1\r\n", "*2\r\n*0\r\n*0\r\n", "*2\r\n$-1\r\n$1\r\n1\r\n",
	} {
		_, err = Master(value(t, junk))
		assert.Error(t, err, junk)
	}
}

func TestSwitched(t *testing.T) {
	for encoded, want := range map[string]bool{
		list("message", SwitchMaster, "m 10.0.0.1 1 10.0.0.2 1"):  true,
		list("message", SwitchMaster, "m2 10.0.0.1 1 10.0.0.2 1"): false,
		list("message", "+sdown", "m 10.0.0.1 1 10.0.0.2 1"):      false,
		list("subscribe", SwitchMaster, "m "):                     false,
		list("pong", ""):                                          false,
		"*-1\r\n":                                                 false,
		"+m \r\n":                                                 false,
	} {
		assert.Equal(t, want, Switched(value(t, encoded), "m"), encoded)
	}
}

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{
		"mymaster": true, "A.b-c_9": true, "": false, "a b": false, "a/b": false, "\u00e4": false, strings.Repeat("a", 257): false,
	} {
		assert.Equal(t, want, IsName(name), name)
	}
}

// shard encodes a range of slots with its servers.
func shard(first, last int64, servers ...string) string {
	b := resp.AppendArray(nil, 2+len(servers))
	b = resp.AppendInteger(resp.AppendInteger(b, first), last)
	return string(b) + strings.Join(servers, "")
}

// server encodes a server of a shard.
func server(host string, port int64, id string) string {
	b := resp.AppendInteger(resp.AppendBulkString(resp.AppendArray(nil, 4), host), port)
	return string(resp.AppendBulkString(b, id)) + "*0\r\n"
}

func TestOwner_R33(t *testing.T) {
	all := value(t, "*3\r\n"+shard(0, 5, server("a", 1, "ida"), server("r", 1, "idr"))+shard(7, 7, server("", 2, "idb"))+
		shard(8, 16383, "*2\r\n$-1\r\n:3\r\n"))
	for _, c := range []struct {
		slot     uint16
		addr, id string
	}{{0, "a:1", "ida"}, {5, "a:1", "ida"}, {7, "asked:2", "idb"}, {16383, "asked:3", ""}} {
		addr, id, err := Owner(all, c.slot, "asked")
		if assert.NoError(t, err) {
			assert.Equal(t, [2]string{c.addr, c.id}, [2]string{addr, id}, c.slot)
		}
	}
	_, _, err := Owner(all, 6, "asked")
	require.ErrorIs(t, err, ErrNoOwner)
	for _, junk := range []string{
		"+OK\r\n", "*-1\r\n", "*0\r\n", ":0\r\n", "*1\r\n:1\r\n", "*1\r\n*-1\r\n", "*1\r\n" + shard(0, 5), "*1\r\n*3\r\n+a\r\n+b\r\n" + server("a", 1, ""),
		"*1\r\n*3\r\n:0\r\n$1\r\n9\r\n" + server("a", 1, ""), "*1\r\n*3\r\n:0\r\n:9\r\n*0\r\n", "*1\r\n*3\r\n:0\r\n:9\r\n*-1\r\n", "*1\r\n*3\r\n:0\r\n:9\r\n+a\r\n",
		"*1\r\n" + shard(0, 5, server("?", 1, "")), "*1\r\n" + shard(0, 5, server("a", 0, "")), "*1\r\n" + shard(0, 5, server("a", 65536, "")),
		"*1\r\n" + shard(5, 0, server("a", 1, "")), "*1\r\n" + shard(-9, -1, server("a", 1, "")),
	} {
		addr, _, err := Owner(value(t, junk), 0, "asked")
		assert.Error(t, err, "%q: %s", junk, addr)
	}
}

func TestMoved(t *testing.T) {
	for said, want := range map[string]bool{
		"-MOVED 866 10.0.0.9:7001\r\n": true, "-MOVED 8666 a:1\r\n": false, "-MOVED 86 a:1\r\n": false, "-ASK 866 a:1\r\n": false, "-MOVED\r\n": false,
	} {
		assert.Equal(t, want, Moved(value(t, said), 866), said)
	}
}

// More than half of the seeds decide at once. Otherwise what most of them say
// is tried first, when no more answers are waited for (R33).
func TestTally_R33(t *testing.T) {
	next := func(tally *Tally) string {
		addr, _ := tally.Next()
		return addr
	}
	tally := &Tally{Seeds: 5}
	for _, addr := range []string{"a", "b", "b"} {
		tally.Heard(addr)
		require.Empty(t, next(tally))
		require.False(t, tally.Decided())
	}
	tally.Heard("b")
	require.True(t, tally.Decided())
	require.Equal(t, "b", next(tally), "more than half")
	require.Empty(t, next(tally), "the last seed may still say something else")
	require.False(t, tally.Exhausted())
	tally.Heard("")
	require.Equal(t, "a", next(tally))
	require.True(t, tally.Exhausted())
	require.Empty(t, next(tally))
	require.True(t, tally.Outvoted("a"))
	require.False(t, tally.Outvoted("b"))
	require.True(t, tally.Outvoted("c"))

	tally = &Tally{Seeds: 4}
	tally.Heard("a")
	tally.Heard("b")
	require.Empty(t, next(tally))
	tally.Hurry = true
	require.Equal(t, "a", next(tally), "the first of equals")
	require.False(t, tally.Outvoted("b"), "a tie says nothing")
	tally.Add("c")
	tally.Add("c")
	require.Equal(t, "c", next(tally))
	require.Equal(t, "b", next(tally))
	require.False(t, tally.Exhausted(), "two have not been heard")
	for i := range 2 * mostNamed {
		tally.Add(strings.Repeat("x", i+1))
	}
	require.Len(t, tally.named, mostNamed)
}

// FuzzAnswers reads any reply as each kind of answer. What comes of it is an
// error or an address that could stand in a URL.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(list("10.0.0.1", "6380")), uint16(0))
	f.Add([]byte(list("message", SwitchMaster, "m 10.0.0.1 1 10.0.0.2 1")), uint16(1))
	f.Add([]byte("*1\r\n"+shard(0, 5, server("a", 1, "ida"))), uint16(2))
	f.Add([]byte("-MOVED 866 10.0.0.9:7001\r\n"), uint16(866))
	f.Fuzz(func(t *testing.T, encoded []byte, slot uint16) {
		r := resp.NewReader(resp.Limits{Size: 1 << 16, Elements: 1 << 10})
		copy(r.Space(), encoded)
		r.Commit(min(len(encoded), len(r.Space())))
		v, ok, err := r.Next()
		if !ok || err != nil {
			return
		}
		Switched(v, "m")
		Moved(v, slot)
		master, err := Master(v)
		check(t, master, err)
		owner, _, err := Owner(v, slot, "asked")
		check(t, owner, err)
	})
}

// check accepts an error, or an address.
func check(t *testing.T, addr string, err error) {
	t.Helper()
	require.Equal(t, err == nil, addr != "")
	if err == nil {
		require.NotContains(t, addr, " ")
		require.Greater(t, strings.LastIndexByte(addr, ':'), 0)
	} else {
		require.Less(t, len(err.Error()), 400)
	}
}
