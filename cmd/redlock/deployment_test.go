package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// The first client of a deployment with MaxTTL declares that nothing was locked
// before, or waits. The next one reads its seal (R23).
func TestMaxTTL_R23(t *testing.T) {
	_, nodes := masters(t, 3)
	r := within("acquire", nodes, "--max-ttl=1m", "--timeout=1s", "r")
	require.Equal(t, exitNoQuorum, r.code)
	require.Contains(t, r.stderr, "quarantine")
	r = within("acquire", nodes, "--max-ttl=1m", "--new-deployment", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	r = within("acquire", nodes, "--max-ttl=1m", "other")
	require.Equal(t, exitOK, r.code, r.stderr)
	r = within("acquire", nodes, "--max-ttl=20s", "r")
	require.Equal(t, exitUsage, r.code, "a TTL that is longer")
	r = within("acquire", nodes, "--max-ttl=2m", "--timeout=1s", "r")
	require.Equal(t, exitNoQuorum, r.code, "another MaxTTL")
	require.Contains(t, r.stderr, "MaxTTL")
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
	servers, nodes := masters(t, 3, redistest.OverTLS)
	r := within("acquire", nodes, "--timeout=1s", "r")
	require.Equal(t, exitNoQuorum, r.code, "the certificate is verified")
	var known []string
	for _, s := range servers {
		known = append(known, s.URL()+"?tls_ca_file="+url.QueryEscape(s.CAFile()))
	}
	r = within("acquire", "--nodes="+strings.Join(known, ","), "r")
	require.Equal(t, exitOK, r.code, r.stderr)
}

// The prefix and the URLs may come from the environment, as in a crontab.
func TestEnvironment(t *testing.T) {
	servers, nodes := masters(t, 3)
	t.Setenv("REDLOCK_NODES", strings.TrimPrefix(nodes, "--nodes="))
	t.Setenv("REDLOCK_PREFIX", "lock:")
	r := within("acquire", "r")
	require.Equal(t, exitOK, r.code, r.stderr)
	n, err := servers[0].Do("EXISTS", "lock:r")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}
