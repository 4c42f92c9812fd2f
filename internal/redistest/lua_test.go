package redistest_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

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
		"return redis.call('ZADD', 'k', 'GT', 1, 'b') .. ' ' .. redis.call('ZSCORE', 'k', 'b')",
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
	} {
		require.Equal(t, gist(theirs.do("EVAL", source, "0")), gist(ours.do("EVAL", source, "0")), source)
	}
}
