package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
)

// printedList is what --json prints, as far as the tests look at it.
type printedList struct {
	Quorum int
	Locks  []struct {
		Resource, Kind, State, Owner, Label string
		Since                               time.Time
		TTL                                 float64 `json:"ttl_ms"`
		Nodes                               []int
	}
	UnknownAge int `json:"unknown_age"`
	Others     int
	Cut        bool
	Nodes      []struct{ Addr, Error string }
	Error      string
}

// names returns the resources that are listed.
func (l printedList) names() string {
	var all []string
	for _, lock := range l.Locks {
		all = append(all, lock.Resource)
	}
	return strings.Join(all, " ")
}

// What is locked is listed, and the flags choose from it.
func TestList(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	require.Equal(t, result{exitOK, "0 held\n", ""}, within("list", nodes))
	require.Contains(t, within("list", "--json", nodes).stdout, `"locks": []`)

	require.Equal(t, exitOK, within("acquire", nodes, "--owner=web-1:7", "--label=nightly import", "job:1").code)
	require.Equal(t, exitOK, within("acquire", nodes, "--owner=web-2", "job:2").code)
	require.Equal(t, exitOK, within("acquire", nodes, "--no-owner", "job:3").code)
	token := []byte(strings.Repeat("x", pure.TokenText))
	pure.Stamp(token, time.Now().Add(-2*time.Hour))
	for i, s := range servers {
		_, err := s.Do("SET", "old", string(token)+":web-1:8", "PX", "60000")
		require.NoError(t, err)
		_, err = s.Do("SET", "of a program", "17", "PX", "60000")
		require.NoError(t, err)
		if i == 1 {
			_, err = s.Do("SET", "orphan", string(token)+":web-3", "PX", "60000")
			require.NoError(t, err)
		}
	}
	eventually(t, "keys on all nodes", func() bool {
		all := asJSON[printedList](t, exitOK, "list", nodes, "job:")
		return len(all.Locks) == 3 && len(all.Locks[0].Nodes)+len(all.Locks[1].Nodes)+len(all.Locks[2].Nodes) == 9
	})
	all := asJSON[printedList](t, exitOK, "list", nodes)
	require.Equal(t, "job:1 job:2 job:3 old orphan", all.names())
	require.Equal(t, 2, all.Quorum)
	require.Equal(t, 1, all.Others)
	require.Equal(t, "nightly import", all.Locks[0].Label)
	require.WithinDuration(t, time.Now(), all.Locks[0].Since, time.Minute)
	require.Zero(t, all.Locks[2].Since)
	require.Equal(t, "partial", all.Locks[4].State)
	require.Equal(t, []int{1}, all.Locks[4].Nodes)

	for want, args := range map[string][]string{
		"job:1 old":        {"--by=web-1:*"},
		"job:2":            {"--by=web-2"},
		"job:2 ":           {"--by=web-2*"},
		"":                 {"--by=web"},
		"old":              {"--older=1h", "--by=web-1*"},
		"old orphan":       {"--older=1h"},
		"job:3 old orphan": {"--older=1h", "--unknown"},
	} {
		got := asJSON[printedList](t, exitOK, append([]string{"list", nodes}, args...)...)
		require.Equal(t, strings.TrimSpace(want), got.names(), "%v", args)
	}
	require.Equal(t, 1, asJSON[printedList](t, exitOK, "list", nodes, "--older=1h").UnknownAge)

	text := within("list", nodes)
	require.Equal(t, exitOK, text.code)
	require.Regexp(t, `(?m)^"job:1"\s+lock\s+held\s+[0-9a-f]{16} \(web-1:7 "nightly import"\)\s+\d+s\s+[0-9.]+s\s+all nodes$`, text.stdout)
	require.Regexp(t, `(?m)^"job:3"\s+lock\s+held\s+[0-9a-f]{16}\s+\?\s`, text.stdout)
	require.Regexp(t, `(?m)^"orphan"\s+lock\s+partial\s+[0-9a-f]{16} \(web-3\)\s+2h0m\d+s\s+\S+\s+unix:\S+$`, text.stdout)
	require.Contains(t, text.stdout, "\n4 held, 1 partial; 1 key of other programs\n")
	require.NotContains(t, text.stdout, string(token))
	require.Contains(t, within("list", nodes, "--older=1h").stdout, "1 held, 1 partial; not shown: 1 of unknown age (--unknown); 1 key of other programs\n")

	r := within("list", nodes, "--limit=2")
	require.Equal(t, exitOK, r.code)
	require.Equal(t, "redlock: not complete: 2 keys were looked at (--limit)\n", r.stderr)
	require.True(t, asJSON[printedList](t, exitOK, "list", nodes, "--limit=2").Cut)
	t.Setenv("COLUMNS", "80")
	require.Contains(t, within("list", nodes).stdout, "\n\nRESOURCE  ", "what is too wide goes into a table below")
}

// A listing that ends in time shows what a quorum had said by then. If that is
// nothing, it is an error.
func TestListWithin_R12(t *testing.T) {
	servers, nodes := masters(t, 3)
	do(t, servers, "EVAL", "for i = 1, 3000 do redis.call('SET', 'x' .. i, i) end", "0")
	require.Equal(t, exitOK, within("acquire", nodes, "job").code)
	r := growing(time.Second, saying("not complete"), func(most string) result {
		return within("list", nodes, "--pause=1h", "--within="+most, "job")
	})
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^redlock: not complete: --within \d+s is over\n$`, r.stderr)
	require.Contains(t, r.stdout, " held")

	r = within("list", nodes, "--within=1ns")
	require.Equal(t, exitNoQuorum, r.code)
	require.Regexp(t, `^redlock: .*no quorum[^\n]*; --within is 1ns\n$`, r.stderr)
	all := asJSON[printedList](t, exitNoQuorum, "list", nodes, "--within=1ns")
	require.True(t, all.Cut)
	require.Contains(t, all.Error, "no quorum")
}

// Permits and waiters have numbers, and names are shown so that a terminal only
// prints them.
func TestListOfOddNames(t *testing.T) {
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	_, err := c.Semaphore("s", 1).TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
	_, err = c.TryAcquire(t.Context(), "\x1b[31m\nred\xff", time.Minute)
	require.NoError(t, err)
	text := within("list", nodes).stdout
	require.Regexp(t, `(?m)^"s"\s+permit 0\s+held`, text)
	require.NotContains(t, text, "\x1b")
	require.Len(t, strings.Split(text, "\n"), 6)
	require.Equal(t, "\x1b[31m\nred\\xff", asJSON[printedList](t, exitOK, "list", nodes, "\x1b").names())
}

// Too few masters are an error, with what is known. Of one that is missing it
// is unclear what it would complete.
func TestListWithoutMasters(t *testing.T) {
	servers, nodes := masters(t, 3)
	require.Equal(t, exitOK, within("acquire", nodes, "--owner=a", "job").code)
	_, err := servers[1].Do("SET", "half", strings.Repeat("x", pure.TokenText), "PX", "60000")
	require.NoError(t, err)
	require.NoError(t, servers[0].Kill())
	all := asJSON[printedList](t, exitOK, "list", nodes)
	require.Equal(t, "half job", all.names())
	require.Equal(t, []string{"unclear", "held"}, []string{all.Locks[0].State, all.Locks[1].State})
	require.NotEmpty(t, all.Nodes[0].Error)
	require.Contains(t, within("list", nodes).stdout, "1 held, 1 unclear; no answer of 1 of 3 nodes\n")
	require.NoError(t, servers[2].Kill())
	all = asJSON[printedList](t, exitNoQuorum, "list", nodes)
	require.NotEmpty(t, all.Error)
	require.True(t, all.Cut)
	require.Regexp(t, "^redlock: no quorum", within("list", nodes).stderr)
}

// A user without the right is told which one.
func TestListNeedsARight(t *testing.T) {
	servers, nodes := masters(t, 3)
	for _, s := range servers {
		_, err := s.Do("ACL", "SETUSER", "default", "-scan")
		require.NoError(t, err)
	}
	r := within("list", nodes)
	require.Equal(t, exitNoQuorum, r.code)
	require.Contains(t, r.stderr, "may not run SCAN")
	require.Contains(t, r.stderr, "+scan")
}

// Locks of run and acquire name their process, unless a flag says otherwise; an
// election always does.
func TestOwnerByDefault(t *testing.T) {
	servers, nodes := masters(t, 3)
	d := deployment{}
	d.nameProcess()
	own := d.Owner
	require.True(t, pure.Owner(own), own)
	owner := func(args ...string) string {
		t.Helper()
		r := within(append([]string{"acquire", nodes}, append(args, "job")...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		value, held := valueOf(t, servers[0], "job").(string)
		if !held { // it is on the other two
			value = valueOf(t, servers[1], "job").(string)
		}
		do(t, servers, "DEL", "job")
		v, ok := pure.ParseValue(value)
		require.True(t, ok)
		require.Equal(t, v.Labels == pure.Labels{}, len(value) == pure.TokenText)
		return v.Labels.String()
	}
	require.Equal(t, own, owner())
	require.Equal(t, "web-1", owner("--owner=web-1"))
	require.Equal(t, "", owner("--no-owner"))
	require.Equal(t, own+" a label", owner("--label=a label"))
	require.Equal(t, " a label", owner("--no-owner", "--label=a label"))
	candidate := result{code: exitUsage, stderr: "redlock: a candidate has a name: redlock elect excludes --no-owner, and REDLOCK_NO_OWNER\n"}
	require.Equal(t, candidate, within("elect", nodes, "--no-owner", "job", "--", "true"))
	t.Setenv("REDLOCK_NO_OWNER", "true")
	require.Equal(t, "", owner())
	require.Equal(t, candidate, within("elect", nodes, "job", "--", "true"))
	for _, args := range [][]string{{"--owner=a", "--no-owner"}, {"--label= a"}, {"--label=" + strings.Repeat("x", 65)}, {"--label=a\nb"}} {
		require.Equal(t, exitUsage, within(append([]string{"acquire", nodes}, append(args, "job")...)...).code, "%v", args)
	}
	require.Equal(t, exitUsage, within("run", nodes, "--label= a", "job", "--", "true").code)
	require.Equal(t, exitUsage, within("elect", nodes, "--label= a", "job", "--", "true").code)
}

// A label of acquire is handed over with the token, and one of run is shown.
func TestLabelOfCommands(t *testing.T) {
	servers, nodes := masters(t, 3)
	r := within("acquire", nodes, "--label=a label: 1", "job")
	require.Equal(t, exitOK, r.code, r.stderr)
	t.Setenv(tokenVariable, strings.TrimSpace(r.stdout))
	require.Contains(t, within("status", nodes, "job").stdout, `"a label: 1")`)
	require.Equal(t, "a label: 1", statusOf(t, nodes, "job", exitOK).Label)
	refused := asJSON[outcome](t, exitHeld, "acquire", nodes, "-n", "job")
	require.Equal(t, "a label: 1", refused.HolderLabel)
	require.Equal(t, exitOK, within("extend", nodes, "job").code)
	require.Equal(t, exitOK, within("release", nodes, "job").code)
	_, err := client(t, servers).TryAcquire(t.Context(), "job", time.Minute)
	require.NoError(t, err)
}
