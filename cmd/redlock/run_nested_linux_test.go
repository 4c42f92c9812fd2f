package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
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
		`trap '' TERM; `+nested(t, nodes, `sh -c 'echo $PPID >"$1/wrapper.new"; mv "$1/wrapper.new" "$1/wrapper"; sh "$1/deep" "$1"; true' sh "$1"`)+`; sh "$1/wait" "$1"`)
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

// The guard of an inner run does not have the outer mark: it survives when the
// outer run kills the inner wrapper, and kills what is in the inner group and has
// no mark.
func TestTheGuardWithinOutlivesTheRunAround(t *testing.T) {
	t.Parallel()
	servers, nodes := masters(t, 3)
	j := newJob(t)
	cmd := j.run(nodes, []string{"--ttl=6s", "--kill-after=100ms"},
		nested(t, nodes, `sh -c 'trap "" TERM; env -u `+markVariable+` sh "$1/tick" "$1" unmarked; true' sh "$1"`)+`; sh "$1/wait" "$1"`)
	unmarked := j.pid("unmarked.pid")
	guard, err := syscall.Getpgid(unmarked)
	require.NoError(t, err)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", guard))
	require.NoError(t, err)
	require.False(t, strings.Contains(string(environ), markVariable)) // an environment is not shown
	takeAway(t, servers)
	require.Equal(t, exitLost, await(t, cmd))
	j.requireDead()
}

// The wrapper does not have the mark of its own run. The command has those of all
// runs that it is under.
func TestTheMarkIsInTheCommandsEnvironment(t *testing.T) {
	t.Parallel()
	_, nodes := masters(t, 3)
	outer := anotherRun
	for _, test := range []struct {
		outer string
		ids   int
	}{{"", 1}, {outer, 2}, {"made up", 1}} {
		cmd := runs(t, nodes, nil, shell(`echo "$REDLOCK_RUN"; tr '\0' '\n' </proc/$PPID/environ | grep ^REDLOCK_RUN=`)...)
		cmd.Env = append(os.Environ(), markVariable+"="+test.outer)
		r := finish(t, cmd)
		lines := strings.Split(r.stdout, "\n")
		require.Regexp(t, "^[0-9a-f]{32}(,[0-9a-f]{32})*$", lines[0])
		ids := strings.Split(lines[0], ",")
		require.Len(t, ids, test.ids)
		if test.ids == 2 {
			require.Equal(t, outer, ids[0])
		}
		require.Equal(t, markVariable+"="+test.outer, lines[1], "the wrapper's")
	}
}
