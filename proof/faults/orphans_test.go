package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// What a node keeps for itself is no lock.
func TestOfNode(t *testing.T) {
	for _, name := range []string{"redlock:seal", "redlock:seal:1", "redlock:fence", "c:1:fence"} {
		assert.True(t, ofNode(prefix+name), name)
	}
	for _, name := range []string{"c:1", "u:1:2:3", "redlock", "fence"} {
		assert.False(t, ofNode(prefix+name), name)
	}
}

// A key that was there and is gone was released, if its TTL cannot have ended
// it; one that stays is an orphan.
func TestJudgeSuspects_R7_R8(t *testing.T) {
	now := time.Now()
	standing, over := suspect{"standing", now.Add(time.Millisecond)}, suspect{"over", now}
	for _, c := range []struct {
		name         string
		first, again []suspect
		orphans      []string
		unknown      bool
	}{
		{name: "nothing was there", again: []suspect{standing}},
		{name: "released", first: []suspect{standing}},
		{name: "released or expired", first: []suspect{standing, over}, unknown: true},
		{name: "an orphan", first: []suspect{standing, over}, again: []suspect{over, standing}, orphans: []string{"standing", "over"}},
		{name: "one is, another may have been", first: []suspect{standing, over}, again: []suspect{standing}, orphans: []string{"standing"}, unknown: true},
	} {
		orphans, unknown := judgeSuspects(c.first, c.again, now)
		assert.Equal(t, c.orphans, orphans, c.name)
		assert.Equal(t, c.unknown, unknown, c.name)
	}
}

// A key of any kind of lock shows its holders, and one that no holder has must
// end by itself: what claims more is an orphan.
func TestClaimsOfKeys(t *testing.T) {
	side := redistest.Servers(t, 1)[0].Side()
	defer side.Close()
	do := func(args ...string) {
		t.Helper()
		_, err := side.Do(args...)
		require.NoError(t, err)
	}
	ends := func(in time.Duration) string { return fmt.Sprint(time.Now().Add(in).UnixMilli()) }
	for _, c := range []struct {
		name string
		set  []string
		key  string
		want []string
	}{
		{"nothing", []string{"DEL", "r"}, "r", nil},
		{"a plain lock", []string{"SET", "r", "token"}, "r", []string{digestOf("token")}},
		{"with an owner", []string{"SET", "r", "token:a"}, "r", []string{digestOf("token")}},
		{"a number", []string{"SET", "r:fence", "5"}, "r:fence", nil},
		{"readers", []string{"ZADD", "r:redlock:readers", ends(time.Minute), "a", ends(-time.Minute), "b", ends(time.Hour), "c"}, "r:redlock:readers",
			[]string{digestOf("a"), digestOf("c"), "lives too long"}},
		{"readers that are no set", []string{"SET", "r:redlock:readers", "a", "PX", "4000"}, "r:redlock:readers", []string{"cannot be read"}},
		{"no key of a lock", []string{"ZADD", "r", "1", "token"}, "r", []string{"cannot be read"}},
		{"the mark of a writer", []string{"SET", "r:redlock:mark", "token", "PX", "300"}, "r:redlock:mark", nil},
		{"the mark of a caller that wants a permit", []string{"SET", "m:redlock:wanted", "", "PX", "2000"}, "m:redlock:wanted", nil},
		{"a mark for long", []string{"SET", "r:redlock:mark", "token", "PX", "2000"}, "r:redlock:mark", []string{"lives too long"}},
		{"a mark for ever", []string{"SET", "r:redlock:mark", "token"}, "r:redlock:mark", []string{"lives too long"}},
		{"permits", []string{"HSET", "m:redlock:permits", "0", ends(time.Minute) + " a", "1", ends(-time.Minute) + " b", "of", "2=" + ends(time.Minute)},
			"m:redlock:permits", []string{digestOf("a"), "lives too long"}},
		{"permits that are no hash", []string{"SET", "m:redlock:permits", "", "PX", "4000"}, "m:redlock:permits", []string{"cannot be read"}},
		{"a ticket", []string{"SET", "f:redlock:ticket", "7", "PX", "60500"}, "f:redlock:ticket", nil},
		{"a queue for ever", []string{"ZADD", "f:redlock:queue", "7", "waiter"}, "f:redlock:queue", []string{"lives too long"}},
		{"a caller that waits", []string{"SET", "f:redlock:queue:waiter", "", "PX", "500"}, "f:redlock:queue:waiter", []string{"a caller waits"}},
		{"a turn without its lock", []string{"SET", "f:redlock:turn", "waiter"}, "f:redlock:turn", []string{"without the lock"}},
		{"a turn with its lock", []string{"MSET", "f:redlock:turn", "waiter", "f", "token"}, "f:redlock:turn", nil},
	} {
		do("FLUSHALL")
		do(prefixed(c.set)...)
		var got []string
		for _, one := range claims(side, prefix+c.key, 3*time.Second) {
			got = append(got, one.digest)
			assert.True(t, one.ends.Before(time.Now().Add(25*time.Hour)), c.name)
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

// prefixed puts the prefix before the keys of a command.
func prefixed(command []string) []string {
	command[1] = prefix + command[1]
	if command[0] == "MSET" {
		command[3] = prefix + command[3]
	}
	return command
}
