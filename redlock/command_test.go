package redlock

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// hostileNames would be commands if a length were ever wrong (R19).
var hostileNames = []string{
	"invoice:7", "\r\n", "a\r\nFLUSHALL\r\n", "$5\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "a\x00b", "\xff\xfe", " ", `"`, "'", "{a}b",
	"$-1\r\n", "+OK", "été", strings.Repeat("k", 1024), strings.Repeat("\r\n", 512), strings.Repeat("\x00", 1024),
}

func TestCommandsCarryAnyNameWhole(t *testing.T) { // R19
	var source wire.Tokens
	for _, prefix := range []string{"", "lock:", "p\r\n$1\r\n"} {
		c := encoding(Config{Prefix: prefix})
		for _, name := range hostileNames {
			token := wire.Veil(source.Next())
			value, key := secretOf(token), prefix+name
			for _, x := range []struct {
				got  []byte
				want []string
			}{
				{c.kinds.Set(nil, name, &token, 1500*ms).Bytes, []string{"SET", key, value, "NX", "PX", "1500"}},
				{c.kinds.Set(nil, name, &token, pure.LongestTTL).Bytes, []string{"SET", key, value, "NX", "PX", "3153600000000"}},
				{c.kinds.Encoder.Release(nil, name, &token).Bytes, []string{"EVALSHA", wire.Release.Digest, "1", key, value}},
				{c.kinds.Encoder.Extend(nil, name, &token, ms, 2*ms).Bytes, []string{"EVALSHA", wire.Extend.Digest, "1", key, value, "1", "2"}},
			} {
				require.Equal(t, resp.AppendCommand(nil, x.want...), x.got, "byte for byte")
				require.Equal(t, x.want, decoded(t, x.got), "by the decoder")
			}
		}
	}
}

func TestCommandsAreAppended(t *testing.T) {
	c := encoding(Config{})
	token := wire.Veil(Token{1, 2, 3})
	before := []byte("+before\r\n")
	got := c.kinds.Set(bytes.Clone(before), "a", &token, time.Second)
	require.Equal(t, append(before, c.kinds.Set(nil, "a", &token, time.Second).Bytes...), got.Bytes)
}

// decoded reads exactly one command.
func decoded(t *testing.T, b []byte) []string {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	for rest := b; len(rest) > 0; {
		n := copy(r.Space(), rest)
		r.Commit(n)
		rest = rest[n:]
	}
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, resp.Array, v.Type())
	var args []string
	for e := range v.Elements() {
		require.Equal(t, resp.BulkString, e.Type())
		args = append(args, string(e.Bytes()))
	}
	require.Zero(t, r.Buffered(), "bytes behind the command")
	return args
}

func TestDigestsAreTheServers(t *testing.T) {
	require.Equal(t, redistest.SHA1(releaseSource), wire.Release.Digest)
	require.Equal(t, redistest.SHA1(extendSource), wire.Extend.Digest)
	require.Equal(t, redistest.SHA1(releaseManySource), wire.ReleaseMany.Digest)
	require.Equal(t, redistest.SHA1(extendManySource), wire.ExtendMany.Digest)
	var cured []string
	for _, command := range wire.Cure(wire.Scripts(false)) {
		args := decoded(t, command)
		require.Equal(t, []string{"SCRIPT", "LOAD"}, args[:2])
		cured = append(cured, args[2])
	}
	require.Equal(t, []string{
		releaseSource, extendSource, releaseManySource, extendManySource, healSource, shortenSource,
		lua.AcquireAll, lua.ReleaseAll, lua.ExtendAll, sealSource,
		lua.Read, lua.Write, lua.Downgrade, lua.ExtendRead, lua.ReleaseRead,
		lua.AcquirePermit, lua.ExtendPermit, lua.ReleaseMarked, lua.AskFair, lua.ReleaseFair,
	}, cured)
}

// Every form of reply, and its meaning as an answer to SET and to a script
// (R16, R17).
func TestJudgement(t *testing.T) {
	const (
		granted, refused, alien = multiplex.Granted, multiplex.Refused, multiplex.Alien
	)
	for _, c := range []struct {
		reply       string
		set, script multiplex.Vote
	}{
		{"+OK\r\n", granted, alien},
		{"_\r\n", refused, alien},
		{"$-1\r\n", refused, alien},
		{"*-1\r\n", alien, alien},
		{":1\r\n", alien, granted},
		{":0\r\n", alien, refused},
		{":2\r\n", alien, alien},
		{":-1\r\n", alien, alien},
		{":01\r\n", alien, granted}, // the same number
		{"+ok\r\n", alien, alien},
		{"+OKAY\r\n", alien, alien},
		{"+O\r\n", alien, alien},
		{"+\r\n", alien, alien},
		{"+QUEUED\r\n", alien, alien},
		{"+1\r\n", alien, alien},
		{"$2\r\nOK\r\n", alien, alien},
		{"$1\r\n1\r\n", alien, alien},
		{"$0\r\n\r\n", alien, alien},
		{"=6\r\ntxt:OK\r\n", alien, alien},
		{"*1\r\n+OK\r\n", alien, alien},
		{"*1\r\n:1\r\n", alien, alien},
		{"*0\r\n", alien, alien},
		{"~1\r\n:1\r\n", alien, alien},
		{"%1\r\n+OK\r\n+OK\r\n", alien, alien},
		{">1\r\n+OK\r\n", alien, alien},
		{"#t\r\n", alien, alien},
		{"#f\r\n", alien, alien},
		{",1\r\n", alien, alien},
		{",nan\r\n", alien, alien},
		{"(1\r\n", alien, alien},
		{"-ERR no\r\n", alien, alien}, // package multiplex does not pass errors to a judge
		{"!6\r\nERR no\r\n", alien, alien},
	} {
		r := resp.NewReader(resp.Limits{})
		r.Commit(copy(r.Space(), c.reply))
		v, ok, err := r.Next()
		require.NoError(t, err, "%q", c.reply)
		require.True(t, ok, "%q", c.reply)
		require.Equal(t, c.set, wire.JudgeSet(v), "%q to SET", c.reply)
		require.Equal(t, c.script, wire.JudgeScript(v), "%q to a script", c.reply)
	}
	require.Equal(t, alien, wire.JudgeSet(resp.Value{}))
	require.Equal(t, alien, wire.JudgeScript(resp.Value{}))
}
