package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// takenBy has a client take a lock, and waits until all servers have its key.
func takenBy(t *testing.T, c *redlock.Client, servers []*redistest.Server, resource string) redlock.Lock {
	t.Helper()
	lock, err := c.TryAcquire(t.Context(), resource, 10*time.Minute)
	require.NoError(t, err)
	token := lock.Token()
	for _, s := range servers {
		eventually(t, "the key is on every node", func() bool { return valueOf(t, s, resource) == string(token[:]) })
	}
	return lock
}

// valueOf is the value of a key, nil if there is none.
func valueOf(t *testing.T, s *redistest.Server, key string) any {
	t.Helper()
	value, err := s.Do("GET", key)
	require.NoError(t, err)
	return value
}

func TestForceDeletesWhatItShows(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := opened(t, servers)
	defer shut(c)
	lock := takenBy(t, c, servers, "job")
	other := takenBy(t, c, servers, "other")

	got := within("release", nodes, "--force", "--yes", "job")
	assert.Equal(t, exitOK, got.code, got)
	assert.Equal(t, 3, strings.Count(got.stdout, lock.Token().Fingerprint()))
	assert.Equal(t, 3, strings.Count(got.stdout, "deleted"))
	token := lock.Token()
	assert.NotContains(t, got.stdout+got.stderr, string(token[:]), "R27")
	for _, s := range servers {
		assert.Nil(t, valueOf(t, s, "job"))
		assert.NotNil(t, valueOf(t, s, "other"))
	}
	require.ErrorIs(t, lock.Release(t.Context()), redlock.ErrNotHeld, "the holder finds out")
	require.NoError(t, other.Release(t.Context()))

	got = within("release", nodes, "--force", "--yes", "job")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.stdout, "Nothing to delete.")
}

func TestForceWithPrefixAndLittleRights(t *testing.T) {
	servers, nodes := masters(t, 3)
	do(t, servers, "ACL", "SETUSER", "locks", "on", ">pw", "resetchannels", "~lock:*", "+get", "+del", "+pttl", "+evalsha", "+script|load",
		"+hello", "+auth", "+client|setname")
	do(t, servers, "SET", "lock:job", "x", "PX", "600000")
	do(t, servers, "SET", "job", "not meant", "PX", "600000")
	t.Setenv("PW", "pw")
	got := within("release", nodes, "--user=locks", "--password-env=PW", "--prefix=lock:", "--force", "--yes", "job")
	assert.Equal(t, exitOK, got.code, got)
	for _, s := range servers {
		assert.Nil(t, valueOf(t, s, "lock:job"))
		assert.NotNil(t, valueOf(t, s, "job"))
	}
	do(t, servers, "SET", "lock:job", "x", "PX", "600000")
	do(t, servers, "ACL", "SETUSER", "locks", "-del")
	got = within("release", nodes, "--user=locks", "--password-env=PW", "--prefix=lock:", "--force", "--yes", "job")
	assert.Equal(t, exitNoQuorum, got.code)
	assert.Equal(t, 3, strings.Count(got.stdout, "refused: "))
}

// Without a terminal there is no way to ask, and nothing is deleted.
func TestForceWithoutATerminal(t *testing.T) {
	servers, nodes := masters(t, 1)
	do(t, servers, "SET", "job", "x", "PX", "600000")
	got := within("release", nodes, "--force", "job")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "--yes")
	assert.NotNil(t, valueOf(t, servers[0], "job"))
	for _, args := range [][]string{
		{"--yes", "job"}, {"--force", "--yes", "--token-file=x", "job"}, {"--force", "--yes", "redlock:seal"},
		{"--force", "--yes", strings.Repeat("x", 1025)}, {"--force", "--yes", ""},
	} {
		assert.Equal(t, exitUsage, within(append([]string{"release", nodes}, args...)...).code, args)
	}
}

func TestForceLeavesAloneWhatIsNoLockOrAway(t *testing.T) {
	servers, nodes := masters(t, 3)
	do(t, servers[:1], "LPUSH", "job", "x")
	do(t, servers[1:], "SET", "job", "x", "PX", "600000")
	require.NoError(t, servers[2].Kill())
	got := within("release", nodes, "--force", "--yes", "job")
	assert.Equal(t, exitHeld, got.code)
	assert.Contains(t, got.stdout, "a key that is not a lock: left alone")
	assert.Contains(t, got.stdout, "no answer")
	assert.Equal(t, 1, strings.Count(got.stdout, "deleted"))
	kind, err := servers[0].Do("TYPE", "job")
	require.NoError(t, err)
	assert.Equal(t, "list", kind)

	do(t, servers[1:2], "LPUSH", "job", "x")
	got = within("release", nodes, "--force", "--yes", "job")
	assert.Equal(t, exitHeld, got.code, "nothing is deleted, and no client can get the lock")
	assert.Contains(t, got.stdout, "Nothing to delete.")

	require.NoError(t, servers[1].Kill())
	assert.Equal(t, exitNoQuorum, within("release", nodes, "--force", "--yes", "nothing").code)
}

// What status calls a key of another kind is not taken for a lock either: the
// counter of another program would be lost.
func TestForceLeavesAloneWhatStatusCallsForeign(t *testing.T) {
	servers, nodes := masters(t, 3)
	for _, value := range []string{"42", strings.Repeat("x", longestToken+1)} {
		do(t, servers, "SET", "job", value)
		assert.Equal(t, verdictForeign, statusOf(t, nodes, "job", exitOK).Verdict)
		got := within("release", nodes, "--force", "--yes", "job")
		assert.Equal(t, exitHeld, got.code, got)
		assert.Equal(t, 3, strings.Count(got.stdout, "a key that is not a lock: left alone"), got.stdout)
		for _, s := range servers {
			assert.Equal(t, value, valueOf(t, s, "job"))
		}
	}
}

// An impossible TTL is shown as the longest that there is, and one that is not
// a number as none.
func TestForceBoundsWhatANodeClaims(t *testing.T) {
	for answer, shows := range map[string]string{":9223372036854775807\r\n": "876000h0m0s", ":-9223372036854775808\r\n": "0s", "+x\r\n": "0s", ":-1\r\n": "none"} {
		node, url := lying(t, func(_ int, args []string) ([]byte, bool) { return []byte(answer), strings.EqualFold(args[0], "PTTL") })
		node.DB().Set("job", "x", 0)
		node.Refuse("-ERR no scripts here", "EVAL", "EVALSHA")
		got := within("release", "--nodes="+url, "--force", "--yes", "job")
		assert.Regexp(t, fingerprint("x")+" +"+shows+"\n", got.stdout)
		// The result is unknown, and reported as such.
		assert.Equal(t, exitNoQuorum, got.code)
		assert.Contains(t, got.stdout, "refused")
	}
}
