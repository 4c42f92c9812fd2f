package supervise

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
)

// The tests of this file are about the moment between two steps: between a
// renewal and the order that tells the guard, between the end of a command and the
// report of it.

// A guard that is not reading is told the new end of the validity at the next
// look.
func TestAGuardThatCouldNotBeToldIsToldAgain_R13(t *testing.T) {
	t.Parallel()
	hold := held(t, time.Hour)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	g := &Guard{orders: write}
	for g.order("1 1\n", tellTakes) { // until the pipe is full
	}
	s := &supervision{hold: hold, guard: g, limits: newLimits(0, time.Hour)}
	s.left()
	buffer := make([]byte, 1<<20)
	var all bytes.Buffer // on a busy machine an order may fail although the pipe has room
	for told := false; !told; {
		n, err := read.Read(buffer)
		require.NoError(t, err)
		all.Write(buffer[:n])
		s.left()
		told = s.told.Equal(hold.Until())
	}
	require.NoError(t, write.Close())
	_, err = all.ReadFrom(read)
	require.NoError(t, err)
	lines := bytes.Split(bytes.TrimSpace(all.Bytes()), []byte("\n"))
	until, err := parseUntil(string(lines[len(lines)-1]))
	require.NoError(t, err)
	require.Greater(t, until.Sub(clock.Now()), 50*time.Minute)
}

// A command that ended when the validity was over, or nearly, may have been
// killed by the guard, or have worked unlocked.
func TestACommandThatEndsWithTheValidityIsLost_R15(t *testing.T) {
	t.Parallel()
	hold := held(t, time.Minute)
	for _, margin := range []time.Duration{time.Second, time.Hour} {
		left := sleeps(t) // it leads a group, which stands for the command's
		var stderr output
		s := &supervision{
			stderr: &stderr, hold: hold, limits: limits{margin: margin},
			guard: guards(t), pid: left.cmd.Process.Pid, told: hold.Until(), hunt: killOrphans,
		}
		s.buryGroup()
		require.Equal(t, Ending{Lost: margin == time.Hour}, s.end)
		if !s.end.Lost {
			require.True(t, left.lives())
			continue
		}
		left.requireDead(t)
		eventually(t, "it does not say why", func() bool { return stderr.contains("the lock was over, or nearly") })
	}
}

// On a busy machine a hunt may end before it has found everything. Hunts go on,
// while the validity lasts and after it, so that no exit code is returned while
// strays live.
func TestHuntsGoOnWhileStraysLive_R13(t *testing.T) {
	t.Parallel()
	hold := held(t, time.Minute)
	for name, c := range map[string]struct {
		margin  time.Duration
		goneBy  int // the hunt that finds them all
		hunts   int
		warning bool
	}{
		"at once":                          {time.Second, 1, 1, false},
		"by the third":                     {time.Second, 3, 3, false},
		"never":                            {time.Second, mostHunts + 1, mostHunts, true},
		"by the third, after the validity": {time.Hour, 3, 3, false},
	} {
		var stderr output
		hunts := 0
		s := &supervision{
			stderr: &stderr, hold: hold, limits: limits{margin: c.margin}, termed: time.Now(),
			guard: guards(t), pid: 1 << 30, told: hold.Until(),
			hunt: func([]int) bool { hunts++; return hunts == c.goneBy },
		}
		s.buryGroup()
		require.Equal(t, c.hunts, hunts, name)
		if c.warning {
			eventually(t, name, func() bool { return stderr.contains("may go on") })
		} else {
			require.False(t, stderr.contains("may go on"), name)
		}
	}
}
