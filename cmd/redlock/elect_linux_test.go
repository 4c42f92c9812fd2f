package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command of a later term ignores no more signals than that of the first.
func TestElectStartsEachTermAlike(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	path := filepath.Join(t.TempDir(), "ignored")
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
	ignored := lines(t, path)
	require.Equal(t, ignored[0], ignored[1])
}
