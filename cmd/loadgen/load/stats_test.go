package load

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	records "github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// talking reports its nodes, as redlock's client does.
type talking struct{ *fakeLocker }

func (talking) Nodes() []redlock.NodeStatus {
	return []redlock.NodeStatus{
		{Addr: "a:1", State: "up", Debts: 3, ReplyTime: time.Millisecond},
		{Addr: "b:1", State: "down", Debts: 4, ReplyTime: time.Second},
	}
}

func (l talking) opens(*flags, string, []string) (System, error) { return Drive[fakeLease](l), nil }

func readStats(t *testing.T, name string) (lines []statsLine) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, raw := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var keys map[string]any
		require.NoError(t, json.Unmarshal(raw, &keys))
		require.Equal(t, "debts fds goroutines heap_bytes in_flight nodes t", strings.Join(slices.Sorted(maps.Keys(keys)), " "))
		var l statsLine
		require.NoError(t, json.Unmarshal(raw, &l))
		lines = append(lines, l)
	}
	return lines
}

// A line a second, the warm-up included, and one at the end of each phase.
func TestStats(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stats")
	before := records.Monotonic()
	measure(t, talking{&fakeLocker{ttl: time.Hour}}.opens, exitGood, "--embedded", "--spawn=2", "-c2", "--hold=10ms", "--warmup=20ms", "-d2500ms", "--stats", name)
	lines := readStats(t, name)
	require.GreaterOrEqual(t, len(lines), 3)
	last := before
	for _, l := range lines {
		require.Greater(t, l.T, last)
		last = l.T
		require.Positive(t, l.Goroutines)
		require.Positive(t, l.HeapBytes)
		require.Equal(t, 7, l.Debts)
		require.Equal(t, []nodeState{{"a:1", "up"}, {"b:1", "down"}}, l.Nodes)
		if _, err := os.Stat("/proc/self/fd"); err == nil {
			require.Positive(t, l.FDs)
		}
	}
	require.LessOrEqual(t, last, records.Monotonic())
	require.Zero(t, lines[len(lines)-1].InFlight)
}

func TestStatsOfRealNodes(t *testing.T) {
	_, nodes := servers(t, 3)
	for impl, state := range map[string]string{"redlock": "up", "rueidis": ""} {
		name := filepath.Join(t.TempDir(), "stats")
		measure(t, openSystem, exitGood, nodes, "-c2", "--warmup=0s", "-n100", untilDone, patient, "--impl", impl, "--stats", name)
		lines := readStats(t, name)
		for _, n := range lines[len(lines)-1].Nodes {
			require.Equal(t, state, n.State)
			require.NotEmpty(t, n.Addr)
		}
	}
}

// A call is in flight while it runs, and not while its lock is held.
func TestInFlight(t *testing.T) {
	f, err := parse([]string{"-c3"}, os.Stdout)
	require.NoError(t, err)
	p := newPhase(f, newClock(), nil, []string{"a", "b", "c"}, make([]int64, 3))
	defer p.halt()
	locker := &fakeLocker{ttl: time.Hour}
	c := newCaller(locker, p, 1)
	locker.try = func() error {
		require.EqualValues(t, 1, p.inFlight())
		return redlock.ErrHeld
	}
	c.attempt(0)
	require.Zero(t, p.inFlight())
}

func TestStatsThatCannotBeWritten(t *testing.T) {
	args := []string{"-q", "--embedded", "--spawn=1", "-n1", "--warmup=0s"}
	require.Equal(t, exitFailed, Run(append(args, "--stats", t.TempDir()), io.Discard, io.Discard, nil))
	if _, err := os.Stat("/dev/full"); err == nil {
		require.Equal(t, exitFailed, Run(append(args, "--stats=/dev/full"), io.Discard, io.Discard, nil))
	}
}
