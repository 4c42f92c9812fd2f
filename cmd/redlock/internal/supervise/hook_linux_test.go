package supervise

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A hook that takes too long is killed with what it started. One that ends in
// time leaves alone what works in the background, and says how it ended.
func TestAHookIsKilledWithWhatItStarted(t *testing.T) {
	t.Parallel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	dir := t.TempDir()
	hook := func(line string, most time.Duration) (code int, err error) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			code, err = RunHook(line, append(os.Environ(), "DIR="+dir), null, null, most)
		}()
		select {
		case <-ended:
			return code, err
		case <-time.After(patience):
			require.FailNow(t, "the hook has no bound")
			return 0, nil
		}
	}
	lives := func(name string) bool {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		p, ok := look(pid)
		return ok && !p.dead
	}
	const start = `trap '' TERM; sleep 60 & echo $! >"$DIR/child"; `
	_, err = hook(start+"wait", time.Second)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	eventually(t, "its child lives", func() bool { return !lives("child") })

	code, err := hook(start+"exit 3", patience)
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.True(t, lives("child"))
	code, err = hook(`kill -9 "$(cat "$DIR/child")"; kill -9 $$`, patience)
	require.NoError(t, err)
	require.Equal(t, codeSignal+9, code)
}
