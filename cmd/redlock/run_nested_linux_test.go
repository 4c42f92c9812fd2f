package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nested is a command for the shell of an outer run: an inner run of another
// resource, with the rest as its command.
func nested(t *testing.T, nodes, rest string) string {
	t.Helper()
	return binary(t) + ` run ` + nodes + ` inner -- ` + rest
}

// If the outer lock is lost, the inner wrapper, the inner command and the strays
// of both are killed.
func TestRunOfALostLockCatchesTheRunWithin(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, []string{"--ttl=6s", "--kill-after=100ms"},
		`trap '' TERM; `+nested(t, nodes, `sh -c 'ps -o ppid= $PPID >"$1/wrapper.new"; mv "$1/wrapper.new" "$1/wrapper"; sh "$1/deep" "$1"; true' sh "$1"`)+`; sh "$1/wait" "$1"`)
	j.left()
	wrapper := j.pid("wrapper")
	takeAway(t, servers)
	require.Equal(t, exitLost, await(t, cmd))
	j.requireDead()
	eventually(t, "the inner wrapper lives", func() bool { return !strings.Contains(processState(wrapper), "(redlock)") })
}

// What an inner run left when its command ended is killed with the outer run.
func TestRunOfALostLockCatchesWhatARunWithinItLeft(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, []string{"--ttl=6s", "--kill-after=100ms"},
		nested(t, nodes, `sh "$1/leave" "$1"`)+`; touch "$1/inner-ended"; sh "$1/wait" "$1"`)
	j.left()
	j.appears("inner-ended")
	takeAway(t, servers)
	require.Equal(t, exitLost, await(t, cmd))
	j.requireDead()
}
