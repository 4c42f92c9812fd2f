package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// Masters that were just started do not count. A command that does not wait
// says so and ends, and another says so once, while it waits (R23, R29, R31).
func TestMastersThatWereJustStarted_R31(t *testing.T) {
	_, nodes := unopened(t, 3)
	r := within("acquire", nodes, "--max-ttl=0", "--timeout=1h", "-n", "r")
	require.Equal(t, exitNoQuorum, r.code, "by default")
	require.Regexp(t, `^redlock: no quorum of nodes answered: .*quarantined for another [123]\d\.\d+s: [^\n]+\n$`, r.stderr)

	// A busy machine may need longer to connect than it waits at first.
	for wait := time.Second; wait < 10*time.Second; wait *= 3 {
		r = within("acquire", nodes, "--max-ttl=0", "--timeout=1h", "-w", wait.String(), "r")
		require.Equal(t, exitNoQuorum, r.code)
		if strings.Contains(r.stderr, "waiting") {
			break
		}
	}
	require.Regexp(t, `^redlock: waiting, since too few nodes count: .*quarantined for another [^\n]+\nredlock: no quorum[^\n]+\n$`, r.stderr)

	for range 3 { // a busy machine may exceed the timeout
		_, nodes = unopened(t, 3)
		r = within("acquire", nodes, "--max-ttl=3s", "--timeout=1s", "--ttl=1s", "r")
		if !strings.Contains(r.stderr, "was connected within") {
			break
		}
	}
	require.Equal(t, exitOK, r.code, "the timeout is for connecting: %s", r.stderr)
	require.Contains(t, r.stderr, "redlock: waiting")

	r = within("acquire", nodes, "--forgetful", "--max-ttl=0", "-n", "other")
	require.Equal(t, exitOK, r.code, r.stderr)
}

// A TTL above MaxTTL is refused, and so are masters that have another one
// (R23).
func TestMaxTTL_R23(t *testing.T) {
	_, nodes := mastersWith(t, redlock.Config{}, 3)
	r := within("acquire", nodes, "--max-ttl=0", "-n", "--ttl=30s", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	r = within("acquire", nodes, "--max-ttl=0", "--ttl=31s", "other")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "at most --max-ttl, which is 30s")
	r = within("acquire", nodes, "--max-ttl=2m", "--timeout=10s", "r")
	require.Equal(t, exitNoQuorum, r.code, "another MaxTTL")
	require.Contains(t, r.stderr, "MaxTTL")
}

// A lock is released whatever its TTL, and by masters that do not count.
func TestReleaseNeedsNoMaxTTL(t *testing.T) {
	servers, nodes := masters(t, 3)
	r := within("acquire", nodes, "--ttl=1h", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	t.Setenv(tokenVariable, strings.TrimSpace(r.stdout))
	do(t, servers, "DEL", "redlock:seal") // as if it had been flushed
	r = within("release", nodes, "--max-ttl=0", "--timeout=1h", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
}

// Clients that name other masters are refused, with both sides (R30).
func TestAnotherDeployment_R30(t *testing.T) {
	_, nodes := masters(t, 3)
	r := within("acquire", nodes[:strings.LastIndex(nodes, ",")], "-n", "r")
	require.Equal(t, exitNoQuorum, r.code)
	require.Regexp(t, "of 3 nodes, .* and this client has 2", r.stderr)
}

// A password is taken from the environment, and never shown (R27).
func TestPassword_R27(t *testing.T) {
	const password = "pass/word"
	servers, _ := masters(t, 3, redistest.Password(password))
	var plain []string
	for _, s := range servers {
		u, err := url.Parse(s.URL())
		require.NoError(t, err)
		u.User = nil
		plain = append(plain, u.String())
	}
	nodes := "--nodes=" + strings.Join(plain, ",")
	r := within("acquire", nodes, "--timeout=1s", "r")
	require.Equal(t, exitNoQuorum, r.code)
	require.Contains(t, r.stderr, "NOAUTH")
	t.Setenv("SECRET", password)
	r = within("acquire", nodes, "--password-env=SECRET", "-v", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, password)
	r = within("acquire", nodes, "--user=default", "--password-env=SECRET", "-n", "r")
	require.Equal(t, exitHeld, r.code, r.stderr)
	t.Setenv("SECRET", "wrong/word")
	r = within("acquire", nodes, "--password-env=SECRET", "--timeout=1s", "-v", "r")
	require.Equal(t, exitNoQuorum, r.code)
	require.NotContains(t, r.stderr, "wrong/word")
}

func TestTLS(t *testing.T) {
	servers, nodes := unopened(t, 3, redistest.OverTLS)
	r := within("acquire", nodes, "--timeout=1s", "r")
	require.Equal(t, exitNoQuorum, r.code, "the certificate is verified")
	var known []string
	for _, s := range servers {
		known = append(known, s.URL()+"?tls_ca_file="+url.QueryEscape(s.CAFile()))
	}
	_, err := admin.Init(t.Context(), redlock.Config{Nodes: redlock.Nodes(known...), MaxTTL: longest})
	require.NoError(t, err)
	r = within("acquire", "--nodes="+strings.Join(known, ","), "r")
	require.Equal(t, exitOK, r.code, r.stderr)
}

// The prefix and the URLs may come from the environment, as in a crontab.
func TestEnvironment(t *testing.T) {
	servers, nodes := mastersWith(t, redlock.Config{MaxTTL: longest, Prefix: "lock:"}, 3)
	t.Setenv("REDLOCK_NODES", strings.TrimPrefix(nodes, "--nodes="))
	t.Setenv("REDLOCK_PREFIX", "lock:")
	r := within("acquire", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	n, err := servers[0].Do("EXISTS", "lock:r")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}
