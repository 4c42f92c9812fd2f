package load

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
)

// told returns what progress reports about a run.
func told(t *testing.T, p *progress) string {
	t.Helper()
	var b bytes.Buffer
	p.w = &b
	f, err := parse([]string{"-c2", "-d2s", "--hold=1ms"}, io.Discard)
	require.NoError(t, err)
	s := &session{flags: f, clock: newClock(), progress: p, resources: numbered("r", 2), attempts: make([]int64, 2)}
	n := 0
	sys := Drive[fakeLease](&fakeLocker{ttl: time.Hour, try: func() error {
		if n++; n%2 == 0 {
			return redlock.ErrHeld
		}
		return nil
	}})
	f.Clients = 1 // n is per caller
	_, err = s.observe(t.Context(), sys, &target{}, s.newPhase(), "the title")
	require.NoError(t, err)
	return b.String()
}

// Without a terminal, lines follow each other and have no escapes.
func TestProgressInALog(t *testing.T) {
	out := told(t, &progress{interval: 50 * time.Millisecond})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Equal(t, "loadgen: the title", lines[0])
	require.Greater(t, len(lines), 2)
	require.Regexp(t, `^loadgen:  +\d+\.\ds  [\d,]+ pairs/s  p99 [\d.]+µ?m?s  granted [\d,]+ held [\d,]+$`, lines[len(lines)-1])
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\r")
}

// On a terminal one line is overwritten. It is dim, never wider than the
// terminal, and gone at the end.
func TestProgressOnATerminal(t *testing.T) {
	out := told(t, &progress{interval: 50 * time.Millisecond, live: true, dim: true, width: func() int { return 12 }})
	title, rest, ok := strings.Cut(out, "\n")
	require.True(t, ok)
	require.Equal(t, clearLine+"loadgen: the title", title)
	lines := strings.Split(rest, clearLine)
	require.Greater(t, len(lines), 3)
	require.Empty(t, lines[0])
	require.Empty(t, lines[len(lines)-1])
	for _, l := range lines[1 : len(lines)-1] {
		text, ok := strings.CutPrefix(l, "\x1b[2m")
		require.True(t, ok, "%q", l)
		text, ok = strings.CutSuffix(text, "\x1b[0m")
		require.True(t, ok, "%q", l)
		require.Len(t, []rune(text), 11, "also the shortest, of a machine that has done nothing yet, is wider")
	}
}

func TestProgressIsLiveOnTerminalsOnly(t *testing.T) {
	for _, w := range []io.Writer{&bytes.Buffer{}, os.Stdin, io.Discard} {
		if f, ok := w.(*os.File); ok && terminalWidth(f) > 0 {
			continue // the test itself runs on a terminal
		}
		p := newProgress(w, false)
		require.False(t, p.live)
		require.Equal(t, plainInterval, p.interval)
	}
}

// --quiet prints only errors.
func TestQuiet(t *testing.T) {
	args := []string{"--embedded", "--spawn=1", "--warmup=0s", "-n1", "-ojson"}
	var stderr bytes.Buffer
	require.Equal(t, exitGood, Run(args, io.Discard, &stderr, nil))
	require.NotEmpty(t, stderr.String())
	stderr.Reset()
	require.Equal(t, exitGood, Run(append(args, "-q"), io.Discard, &stderr, nil))
	require.Empty(t, stderr.String())
}
