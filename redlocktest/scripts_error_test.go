package redlocktest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

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
	key, reader := []string{"SET", "w", "x"}, rwCall(lua.Read, "x", "100000")
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
		"permit":       {key, call(lua.ExtendPermit, "2", "w", "permits", "x", "1000", "1000", "2")},
		"ask":          {nil, call(lua.AskFair, "5", "w", "queue", "ticket", "turn", "queue:a", "x", "1000", "a", "1", "new", "1000", "queue:")},
		"release fair": {key, call(lua.ReleaseFair, "4", "w", "queue", "turn", "queue:a", "x", "a", "1")},
		"look readers": {reader, call(lua.LookReaders, "2", "w:readers", "w:mark", "0")},
		"look permits": {[]string{"ZADD", "permits", "+inf", "2"}, call(lua.LookPermits, "1", "permits", "s#", "0")},
		"look queue":   {[]string{"ZADD", "queue", "1", "a"}, call(lua.LookQueue, "3", "queue", "w", "turn", "queue:", "0")},
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
