package redistest_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// TestNodeAnswersLikeAServer sends the same commands to a Node and to a real
// server and compares the bytes. The texts of errors may differ between
// versions, so only their first word counts.
func TestNodeAnswersLikeAServer(t *testing.T) {
	redistest.NoLeaks(t)
	server := redistest.Servers(t, 1)[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	version, _, _ := strings.Cut(info(t, server, "redis_version:"), "\r")
	_, delex := server.Do("DELEX", "none")
	_, delifeq := server.Do("DELIFEQ", "none", "a")
	_, nxget := server.Do("SET", "none", "a", "NX", "GET", "PX", "1")
	node := redistest.NewNode(redistest.NodeConfig{Version: version, DELEX: delex == nil, DELIFEQ: delifeq == nil, NXGET: nxget == nil})
	node.Serve(l)
	defer node.Close()
	sha := redistest.SHA1(release)

	for _, proto := range []string{"2", "3"} {
		ours := open(t, "tcp", node.Addr())
		theirs := open(t, "unix", strings.TrimPrefix(server.URL(), "unix://"))
		for _, c := range []*client{ours, theirs} {
			require.Contains(t, c.do("HELLO", proto), "proto")
			require.Equal(t, "+OK\r\n", c.do("FLUSHALL"))
			require.Equal(t, "+OK\r\n", c.do("SCRIPT", "FLUSH"))
		}
		for _, command := range []string{
			"PING", "PING x", "SET k a NX PX 60000", "SET k a NX PX 60000", "SET k b XX", "GET k", "PTTL k", "PTTL none",
			"set k b px 60000", "SET k a EX", "SET k a PX 0", "SET k a PX x", "SET k a PX -1", "SET k a NX XX",
			"SET k a PX 9223372036854775807", "SET none a XX", "SET k", "SET",
			"SET k b NX GET PX 60000", "SET g a NX PX 60000 GET", "SET g b NX GET PX 60000", "GET g",
			"GET none", "DEL k none", "EXISTS k k", "PEXPIRE none 5", "SET k a", "PTTL k", "PEXPIRE k x", "PEXPIRE k -1", "GET k",
			"SELECT 1", "SELECT 99", "SELECT x", "SELECT 0", "DBSIZE", "ROLE",
			"EVALSHA " + sha + " 1 k a", "SCRIPT EXISTS " + sha, "SCRIPT LOAD *", "SCRIPT EXISTS " + sha + " x",
			"SET k a", "EVALSHA " + sha + " 1 k b", "EVALSHA " + sha + " 1 k a", "EVALSHA " + sha + " 1 k a",
			"EVALSHA " + sha + " 5 k a", "EVALSHA " + sha + " -1 k a", "EVALSHA " + sha + " x k a", "EVALSHA " + sha,
			"SCRIPT", "SCRIPT NONE", "CLIENT", "CLIENT NONE", "CLIENT SETNAME me", "CLIENT GETNAME",
			"CLIENT SETINFO LIB-NAME x", "CLIENT KILL ID 9999", "CLIENT KILL ID 0", "CLIENT KILL 1.2.3.4:5",
			"CLIENT KILL ID 9999 ADDR 1.2.3.4:5 SKIPME yes", "CLIENT KILL ID", "CLIENT KILL NONE 1",
			"AUTH pw", "AUTH default pw", "AUTH stranger pw", "HELLO 4", "HELLO x", "HELLO " + proto + " NONE", "HELLO " + proto + " AUTH stranger x",
			"DELEX k", "DELIFEQ k a", "NONE a b", "QUIT",
		} {
			args := strings.Split(command, " ")
			if args[len(args)-1] == "*" {
				args[len(args)-1] = release
			}
			require.Equal(t, gist(theirs.do(args...)), gist(ours.do(args...)), "%s in RESP%s", command, proto)
		}
	}
}

// info returns the value of a field of INFO.
func info(t *testing.T, server *redistest.Server, field string) string {
	t.Helper()
	all, err := server.Do("INFO", "server")
	require.NoError(t, err)
	_, after, ok := strings.Cut(all.(string), field)
	require.True(t, ok)
	return after
}

func open(t *testing.T, network, addr string) *client {
	t.Helper()
	conn, err := net.Dial(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &client{t, conn, resp.NewReader(resp.Limits{})}
}

// gist shortens an error to its first word. A TTL near 60,000 becomes "about
// 60000", so that a busy machine makes no difference; half the expiry still
// would.
func gist(reply string) string {
	switch {
	case strings.HasPrefix(reply, "-"):
		return strings.Fields(reply)[0]
	}
	if left, err := strconv.Atoi(strings.Trim(reply, ":\r\n")); err == nil && left > 45_000 && left <= 60_000 {
		return "about 60000"
	}
	return reply
}

// A script that nodes in memory run otherwise than servers would prove nothing.
// The interpreter keeps the old value of a local variable in x = f() and y where
// f returns nil. So no script assigns an expression with and to a variable that it
// has.
func TestScriptsAreSound(t *testing.T) {
	n := redistest.NewNode(redistest.NodeConfig{})
	defer n.Close()
	require.Equal(t, "$1\r\n5\r\n", string(n.Eval("local x = 5 x = string.match('a', 'b') and 1 return tostring(x)", nil)),
		"the interpreter was mended: this test can go")

	files, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	again := regexp.MustCompile(`(?m)^\s*[a-z_][a-z_, ]* = [^(\n]*\band\b.*$`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, line := range again.FindAllString(string(source), -1) {
			require.Regexp(t, `^\s*local `, line, file)
		}
	}
}

// What a script sees and returns is as on a real server.
func TestScriptsSeeWhatServersShow(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := redistest.NewNode(redistest.NodeConfig{})
	n.Serve(l)
	defer n.Close()
	ours, theirs := open(t, "tcp", n.Addr()), open(t, "unix", strings.TrimPrefix(server.URL(), "unix://"))
	for _, source := range []string{
		"return {1, 2.9, 'x', true, false, nil, 3}",
		"return redis.call('GET', 'none')",
		"return type(redis.call('GET', 'none'))",
		"return redis.call('SET', 'k', 1).ok",
		"redis.call('SET', 'k', 1000000 * 1000000) return redis.call('GET', 'k')",
		"return redis.pcall('ZADD', 'k', 1, 'm').err",
		"redis.call('DEL', 'k') redis.call('ZADD', 'k', 2, 'b') redis.call('ZADD', 'k', 1, 'a') return redis.call('ZRANGE', 'k', 0, -1, 'WITHSCORES')",
		"return redis.call('ZADD', 'k', 'XX', 1, 'b') .. ' ' .. redis.call('ZADD', 'k', 'XX', 1, 'c') .. ' ' .. redis.call('ZSCORE', 'k', 'b')",
		"return {redis.call('ZRANK', 'k', 'b'), redis.call('ZRANK', 'k', 'c'), redis.call('ZCARD', 'k')}",
		"return {redis.call('ZREMRANGEBYSCORE', 'k', '-inf', 1), redis.call('ZREM', 'k', 'b', 'c'), redis.call('EXISTS', 'k')}",
		"redis.call('ZADD', 'k', 1, 'm') return {redis.pcall('GET', 'k').err, redis.call('MGET', 'k', 'none')}",
		"return redis.error_reply('ERR own')",
		"return redis.status_reply('OWN')",
		"return redis.sha1hex('x')",
		"return tostring(tonumber('99999999999999999999')) .. tostring(tonumber(' 010 ')) .. tostring(tonumber('x'))",
		"return string.format('%d %s %.0f', 12, 'x', 9007199254740991)",
		"return redis.call('PTTL', 'none')",
		"redis.call('SET', 'k', 1, 'PX', 100000) return {redis.call('PTTL', 'k') > 0, redis.call('SET', 'k', 2, 'NX'), redis.call('SET', 'k', 2, 'XX').ok}",
		"redis.call('DEL', 'k') return {redis.call('HSET', 'k', 'a', 1, 'b', 2), redis.call('HMGET', 'k', 'a', 'c', 'b'), redis.call('HSET', 'k', 'a', 3)}",
		"return {redis.call('HLEN', 'k'), redis.call('HGETALL', 'k'), redis.pcall('GET', 'k').err, redis.pcall('ZCARD', 'k').err, redis.call('MGET', 'k')}",
		"return {redis.call('HDEL', 'k', 'a', 'c'), redis.call('HDEL', 'k', 'b'), redis.call('EXISTS', 'k'), redis.call('HMGET', 'k', 'a'), redis.call('HLEN', 'k')}",
		"redis.call('SET', 'k', 1) return {redis.pcall('HMGET', 'k', 'a').err, redis.pcall('HSET', 'k', 'a', 1).err, redis.pcall('HDEL', 'k', 'a').err}",
	} {
		require.Equal(t, gist(theirs.do("EVAL", source, "2", "k", "none")), gist(ours.do("EVAL", source, "2", "k", "none")), source)
	}
	require.Equal(t, theirs.do("SET", "k", "1"), ours.do("SET", "k", "1"))
	for _, source := range []string{
		"return redis.call('SCAN', 0, 'MATCH', 'k*', 'COUNT', 1000)[2]",
		"return redis.call('SCAN', '0', 'MATCH', '\\\\k*', 'COUNT', 1000)",
		"return {redis.call('SCAN', 0, 'MATCH', 'K*', 'COUNT', 1000), redis.pcall('SCAN', 'x').err, redis.pcall('SCAN', 0, 'COUNT', 0).err}",
	} {
		require.Equal(t, gist(theirs.do("EVAL", source, "0")), gist(ours.do("EVAL", source, "0")), source)
	}
}

// A script that uses a key that was not passed in KEYS, or a command whose keys
// are not known, is refused, and the test fails: a cluster of servers, and
// others too, have no such key for it.
func TestScriptsKeepToTheirKeys_R24(t *testing.T) {
	var strays []string
	n := redistest.NewNode(redistest.NodeConfig{Strays: func(text string) { strays = append(strays, text) }})
	defer n.Close()
	for _, command := range []string{
		"'GET', 'k'", "'get', KEYS[2]", "'MGET', KEYS[1], KEYS[2]", "'DEL', KEYS[2]", "'TIME'", "'SELECT', 0", "'ZADD', KEYS[2], 1, 'x'",
	} {
		require.NotContains(t, string(n.Eval("return redis.call("+command+")", []string{"k", "l"})), "KEYS", command)
	}
	require.NotContains(t, string(n.Eval("return redis.call('SCAN', 0)", nil)), "-ERR")
	require.Empty(t, strays)
	for i, command := range []string{
		"'GET', 'x'", "'set', KEYS[1] .. '#0', 1", "'MGET', KEYS[1], 'x'", "'DEL', KEYS[1], KEYS[2], 'x'", "'HMGET', 'x', 'k'",
		"'ZADD', ARGV[1], 1, KEYS[1]", "'EXISTS', ''", "'KEYS', '*'", "'SCAN', 0",
	} {
		for _, call := range []string{"call", "pcall"} {
			reply := string(n.Eval("return redis."+call+"("+command+")", []string{"k", "l"}, "x"))
			require.Regexp(t, "^-ERR a script runs .* KEYS|^-ERR .* not known", reply, command)
		}
		require.Len(t, strays, 2*(i+1), command)
	}
	require.Equal(t, []string{"l"}, n.Keys(), "nothing else was set")
}
