package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/admin"
)

// The owner is a part of what acquire hands over: another process extends and
// releases the lock, whatever its own --owner says.
func TestOwnerIsHandedOver(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	path := filepath.Join(t.TempDir(), "token")
	file := "--token-file=" + path
	require.Equal(t, result{}, within("acquire", nodes, "-n", "--ttl=20s", "--owner=web-1:17", file, "r"))
	token, err := os.ReadFile(path)
	require.NoError(t, err)

	eventually(t, "a key on all nodes", func() bool { return statusOf(t, nodes, "r", exitOK).Agree == 3 })
	r := statusOf(t, nodes, "r", exitOK)
	require.Equal(t, "web-1:17", r.Owner)
	require.Equal(t, "web-1:17", r.Nodes[1].Owner)
	h, err := parseHandover(string(token[:len(token)-1]))
	require.NoError(t, err)
	require.Equal(t, h.token.Fingerprint(), r.Holder)
	text := within("status", nodes, "r").stdout
	require.Contains(t, text, `"r": held by `+r.Holder+" (web-1:17) on 3 of 3 nodes, for ")
	require.NotContains(t, text, h.token.Reveal())
	refused := within("acquire", nodes, "-n", "--owner=web-2", "r")
	require.Equal(t, exitHeld, refused.code)
	require.Contains(t, refused.stderr, r.Holder+" (web-1:17) on ")
	require.Equal(t, "web-1:17", asJSON[outcome](t, exitHeld, "acquire", nodes, "-n", "--json", "r").HolderOwner)
	forced := within("release", nodes, "--force", "--yes", "none")
	require.NotContains(t, forced.stdout, h.token.Reveal())

	require.Equal(t, result{}, within("extend", nodes, "--ttl=25s", "--owner=web-2", file, "r"))
	require.Equal(t, result{}, within("release", nodes, file, "r"))
	require.Equal(t, admin.StateFree, state(t, c))

	require.Equal(t, result{}, within("acquire", nodes, "-n", "--owner=web-1", file, "r"))
	forced = within("release", nodes, "--force", "--yes", "r")
	require.Zero(t, forced.code)
	require.Contains(t, forced.stdout, " (web-1)")
	require.Equal(t, admin.StateFree, state(t, c))
}
