package faults

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// A process that tells what cannot be read ends the run, at once and with the
// reason: what it told may have been the event that a second holder would be
// known by.
func TestWhatCannotBeReadFailsTheRun(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	const ready = `echo '{"Ready":true}'; `
	for _, c := range []struct{ name, tells, err string }{
		{"a line in the middle", ready + `echo '{"t":1,'; echo '{"Beat":1}'; exec sleep 600`, "unexpected end of JSON input"},
		{"the last line", ready + `echo nonsense`, "invalid character"},
		{"a line without end", ready + `exec head -c 9000000 /dev/zero`, "token too long"},
		{"nonsense before it is ready", `echo nonsense; echo nonsense; exec sleep 600`, "ended before it was ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			_, err := Run(context.Background(), Options{Processes: 1, Nodes: 1, For: 10 * time.Minute, Command: []string{shell, "-c", c.tells}})
			require.ErrorContains(t, err, c.err)
			assert.Less(t, time.Since(begun), 2*time.Minute)
		})
	}
}

// One that was killed on purpose may have been in the middle of a line.
func TestTheLastLineOfOneThatWasKilledMayBeCut(t *testing.T) {
	r := &run{results: newResults(), judge: newJudge(1)}
	c := &processes{run: r}
	cmd := exec.Command("sh", "-c", `echo '{"Beat":1}'; printf '{"t":1,'`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	p := &process{name: 1, cmd: cmd, ready: make(chan struct{}), gone: make(chan struct{})}
	c.expectDeath(p)
	c.read(p, out)
	require.NoError(t, r.failure)
}
