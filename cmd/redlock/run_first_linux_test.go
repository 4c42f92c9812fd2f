package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// As process 1, which the entry point of a container is, redlock takes in the
// ends of what its command has left, and of what others in the container have.
// The command's exit code stays its own.
func TestAsProcessOneNoZombiesStay(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("no namespace of processes: %v", err)
	}
	_, nodes := masters(t, 3)
	const leaves = `i=0; while [ $i -lt 50 ]; do (sleep 0.05 &); i=$((i+1)); done; n=0
while sleep 0.05; do z=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z "); n=$((n+1))
[ $z -eq 0 ] && ! pgrep -x sleep >/dev/null && break; [ $n -gt 200 ] && break; done; echo "$(cat /proc/1/comm) $z"; exit 7`
	for _, command := range []string{"run", "elect"} {
		cmd := exec.Command("unshare", "-pf", "--mount-proc", "sh", "-c", `(sleep 2 &); exec "$0" "$@"`, binary(t), command, nodes, "r"+command, "--", "sh", "-c", leaves)
		cmd.Env = os.Environ()
		r := finish(t, cmd)
		require.Equal(t, 7, r.code, r.stderr)
		require.Equal(t, "redlock 0", strings.TrimSpace(r.stdout))
	}
}
