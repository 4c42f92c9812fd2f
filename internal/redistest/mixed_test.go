package redistest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// wrapper writes a script that becomes the server, like those of
// testdata/fetch.sh, and adds an option by which it can be recognized.
func wrapper(t *testing.T, server, name, maxclients string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	script := "#!/bin/sh\nexec '" + server + "' \"$@\" --maxclients " + maxclients + "\n"
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

func TestGroupsMixServersInTurn(t *testing.T) {
	redistest.NoLeaks(t)
	redistest.Require(t)
	server, _ := redistest.Find()
	server, err := exec.LookPath(server)
	require.NoError(t, err)
	a, b := wrapper(t, server, "a", "101"), wrapper(t, server, "b", "102")
	t.Setenv("REDMUX_SERVERS", a+string(filepath.ListSeparator)+string(filepath.ListSeparator)+b)
	t.Setenv("REDMUX_SERVER", "")

	limit := func(s *redistest.Server) any {
		all, err := s.Do("CONFIG", "GET", "maxclients")
		require.NoError(t, err)
		return all.([]any)[1]
	}
	var limits []any
	for _, s := range redistest.Servers(t, 5) {
		limits = append(limits, limit(s))
	}
	require.Equal(t, []any{"101", "102", "101", "102", "101"}, limits)

	// A single server runs the first program, unless REDMUX_SERVER names
	// another. A group ignores REDMUX_SERVER.
	path, ok := redistest.Find()
	require.True(t, ok)
	require.Equal(t, a, path)
	t.Setenv("REDMUX_SERVER", b)
	path, ok = redistest.Find()
	require.True(t, ok)
	require.Equal(t, b, path)
	require.Equal(t, "101", limit(redistest.Servers(t, 1)[0]))
	// The servers of a group of one kind are what a single one is without a group.
	for _, s := range redistest.Servers(t, 2, redistest.OfOneKind) {
		require.Equal(t, "102", limit(s))
	}
	// A Path has precedence over both.
	require.Equal(t, "102", limit(redistest.Servers(t, 1, func(o *redistest.Options) { o.Path = b })[0]))

	t.Setenv("REDMUX_SERVERS", a+string(filepath.ListSeparator)+filepath.Join(t.TempDir(), "gone"))
	_, err = redistest.StartN(1, redistest.Options{})
	require.ErrorContains(t, err, "REDMUX_SERVERS", "not even one that is there")
	require.ErrorContains(t, err, "gone")
}

func TestServerIntroducesItself(t *testing.T) {
	redistest.NoLeaks(t)
	redistest.Require(t)
	path, _ := redistest.Find()
	s := redistest.Servers(t, 1, redistest.Password("pw"), func(o *redistest.Options) { o.Path = path })[0]
	product, version, err := s.Introduction()
	require.NoError(t, err)
	said, err := exec.Command(path, "--version").Output() // "Redis server v=7.0.15 sha=…"
	require.NoError(t, err)
	require.Contains(t, string(said), " v="+version+" ")
	require.True(t, strings.HasPrefix(strings.ToLower(string(said)), product+" "), string(said))
	s.Authenticate("", "")
	_, _, err = s.Introduction()
	require.ErrorContains(t, err, "NOAUTH")
}
