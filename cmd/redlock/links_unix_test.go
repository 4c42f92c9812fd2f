//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock/admin"
)

// In a folder such as /tmp any user may have put a link where a token or an
// outcome is written: it would replace or empty a file of ours.
func TestFilesAreNotOpenedThroughAnotherUsersLink_R27(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another user")
	}
	const other = 65534
	servers, nodes := masters(t, 3)
	dir := t.TempDir()
	precious, link, folder, chain := filepath.Join(dir, "precious"), filepath.Join(dir, "link"), filepath.Join(dir, "folder"), filepath.Join(dir, "chain")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	require.NoError(t, os.Symlink(precious, link))
	require.NoError(t, os.Symlink("real", folder))
	require.NoError(t, os.Symlink("real/../link", chain)) // our own
	for _, path := range []string{link, folder} {
		require.NoError(t, os.Lchown(path, other, other))
	}
	for _, path := range []string{link, chain, filepath.Join(folder, "token"), folder + "/../precious"} {
		for _, args := range [][]string{
			{"acquire", nodes, "-n", "--token-file=" + path, "r"},
			{"extend", nodes, "--token-file=" + path, "r"},
			{"release", nodes, "--token-file=" + path, "r"},
			{"run", nodes, "-n", "--outcome=" + path, "r", "--", "true"},
		} {
			r := within(args...)
			require.Equal(t, exitUsage, r.code, "%q: %s", args, r.stderr)
			require.Contains(t, r.stderr, "a link that belongs to another user", "%q", args)
		}
	}
	text, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
	require.Equal(t, admin.StateFree, state(t, client(t, servers)))
	for _, path := range []string{precious, "/dev/stdin", "/dev/fd/0", filepath.Join(dir, "missing"), "missing/too", ".", ".."} {
		_, err := ownPath(path)
		require.NoError(t, err, path)
	}
}

// A link that is put there after the path was looked at is not followed either.
func TestALinkThatIsPutThereMeanwhileIsNotFollowed_R27(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another user")
	}
	dir := t.TempDir()
	precious, path := filepath.Join(dir, "precious"), filepath.Join(dir, "path")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(file, nil, 0o600)
			_ = os.Rename(file, path)
			_ = os.Symlink(precious, link)
			_ = os.Lchown(link, 65534, 65534)
			_ = os.Rename(link, path)
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	foreign := 0
	for begun := time.Now(); time.Since(begun) < time.Second; {
		file, err := openOwn(path, os.O_RDONLY, 0)
		if err != nil {
			foreign++
			continue
		}
		text, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Empty(t, string(text))
	}
	require.NotZero(t, foreign)
}

func TestALinkThatLeadsToItselfEnds(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	require.NoError(t, os.Symlink("loop", loop))
	_, err := ownPath(loop)
	require.NoError(t, err)
}
