package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command of a later term ignores no more signals than that of the first.
func TestElectStartsEachTermAlike(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	path := filepath.Join(t.TempDir(), "ignored")
	// A run within this process ignores it from then on, and it is inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	elect := spawned(t, elects(t, nodes, []string{"--ttl=3s"}, shell(
		`trap 'exit 5' TERM; sed -n 's/^SigIgn:[^0-9a-f]*//p' /proc/$$/status >> $1; while :; do sleep 0.01; done`, path)...))
	eventually(t, "no leader", func() bool { return len(lines(t, path)) == 1 })
	for _, s := range servers {
		_, err := s.Do("DEL", "r")
		require.NoError(t, err)
	}
	eventually(t, "no second term", func() bool { return len(lines(t, path)) == 2 })
	require.NoError(t, elect.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 5, await(t, elect))
	var ignored [2]uint64
	for i, mask := range lines(t, path) {
		var err error
		ignored[i], err = strconv.ParseUint(mask, 16, 64)
		require.NoError(t, err)
	}
	require.Zero(t, ignored[1]&^ignored[0], "%x", ignored)
}

// What redlock was started to ignore, the command ignores, and nothing else.
func TestRunPassesIgnoredSignalsOn(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	const show = `sed -n 's/^SigIgn:[^0-9a-f]*//p' /proc/self/status`
	for _, ignored := range []string{"HUP TSTP TTOU", "INT"} {
		const script = `trap '' $1; ` + show + `; exec "$2" run "$3" r -- sh -c "$4"`
		cmd := exec.Command("sh", "-c", script, "sh", ignored, binary(t), nodes, show)
		r := finish(t, cmd)
		masks := strings.Fields(r.stdout)
		require.Len(t, masks, 2, r.stderr)
		require.Equal(t, masks[0], masks[1], ignored)
	}
}
