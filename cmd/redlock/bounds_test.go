package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
)

// hanging returns the flag for n masters that accept connections and never
// answer.
func hanging(t *testing.T, n int) string {
	t.Helper()
	var urls []string
	for i := range n {
		path := filepath.Join(t.TempDir(), "s"+string(rune('0'+i)))
		listener, err := net.Listen("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { listener.Close() })
		urls = append(urls, "unix://"+path)
	}
	return "--nodes=" + strings.Join(urls, ",")
}

// soon runs the program inside of the test, and fails the test if it does not
// end.
func soon(t *testing.T, args ...string) result {
	t.Helper()
	got := make(chan result, 1)
	go func() { got <- within(args...) }()
	select {
	case r := <-got:
		return r
	case <-time.After(patience):
		require.FailNow(t, "it does not end", "%s", args)
		return result{}
	}
}

// Without masters no command takes longer than its flags allow. The other bound
// is an hour in each case, so that a busy machine does not fail the test.
func TestFlagsBoundEveryCommandWithoutMasters_R26(t *testing.T) {
	const refusing = "--nodes=unix:///nowhere/0,unix:///nowhere/1,unix:///nowhere/2"
	token := handover{ttl: time.Hour, until: clock.Now().Add(time.Hour)}
	for i := range token.token {
		token.token[i] = 'A'
	}
	token.boot, _ = clock.BootID()
	t.Setenv(tokenVariable, token.reveal())
	silent := hanging(t, 3)
	for _, test := range []struct {
		args  string
		nodes string
	}{
		{"run -n --timeout=1h r -- true", refusing},
		{"run -w0 --timeout=1h r -- true", refusing},
		{"run -w300ms --timeout=1h r -- true", refusing},
		{"run -w0.3 --timeout=1h r -- true", silent},
		{"run -w1h --timeout=300ms r -- true", refusing},
		{"run -n --timeout=300ms r -- true", silent},
		{"run --timeout=300ms r -- true", silent},
		{"acquire -n --timeout=1h r", refusing},
		{"acquire -w300ms --timeout=1h r", refusing},
		{"acquire -w300ms --timeout=1h r", silent},
		{"acquire --timeout=300ms r", silent},
		{"extend --timeout=300ms r", refusing},
		{"extend --timeout=300ms r", silent},
		{"release --timeout=300ms r", refusing},
		{"release --timeout=300ms r", silent},
		{"release --force --yes --timeout=300ms r", silent},
		{"status --timeout=300ms r", silent},
		{"nodes --timeout=300ms --observe=0", silent},
	} {
		words := strings.Fields(test.args)
		begun := time.Now()
		r := soon(t, append([]string{words[0], test.nodes}, words[1:]...)...)
		assert.Equal(t, exitNoQuorum, r.code, "%s: %s", test.args, r.stderr)
		assert.NotEmpty(t, r.stderr, test.args)
		t.Logf("%s: %v", test.args, time.Since(begun).Round(time.Millisecond))
	}
}

// Masters that hang do not hold up what a quorum can answer, nor a command that
// does not wait. --timeout is an hour, so that a busy machine does not fail the
// test.
func TestMastersThatHangHoldUpNoCommand_R26(t *testing.T) {
	_, nodes := masters(t, 2)
	one := nodes + "," + strings.TrimPrefix(hanging(t, 1), "--nodes=")
	two := nodes + "," + strings.TrimPrefix(hanging(t, 3), "--nodes=")
	for _, test := range []struct {
		args, nodes string
		code        int
		says        string
	}{
		{"nodes --timeout=1h --observe=0", one, 0, "waiting for masters that do not answer"},
		{"nodes --timeout=1h --observe=1ms", one, 0, "waiting for masters that do not answer"},
		{"status --timeout=1h r", one, 0, "waiting for masters that do not answer"},
		{"status --timeout=900ms r", two, exitNoQuorum, "waiting for masters that do not answer"},
		{"doctor --timeout=900ms --observe=0", one, exitUnsafe, "waiting for masters that do not answer"},
		{"init --timeout=900ms", one, exitInUse, "waiting for masters that do not answer"},
		{"fence reset --timeout=900ms", one, exitNoQuorum, "waiting for masters that do not answer"},
		{"release --force --yes --timeout=900ms r", one, 0, "waiting for masters that do not answer"},
		{"run -n --timeout=1h r -- true", two, exitNoQuorum, "without a wait, 2s is the most"},
		{"run -w0 --timeout=1h r -- true", two, exitNoQuorum, "without a wait, 2s is the most"},
		{"acquire -n --timeout=1h r", two, exitNoQuorum, "without a wait, 2s is the most"},
		{"run -n --timeout=300ms r -- true", two, exitNoQuorum, "--timeout is 300ms"},
		{"acquire --timeout=300ms r", two, exitNoQuorum, "--timeout is 300ms"},
		{"run -w400ms --timeout=1h r -- true", two, exitNoQuorum, "--wait is 400ms"},
		{"run -w1h --timeout=300ms r -- true", two, exitNoQuorum, "--timeout is 300ms"},
	} {
		words := strings.Fields(test.args)
		begun := time.Now()
		r := soon(t, append([]string{words[0], test.nodes}, words[1:]...)...)
		t.Logf("%s: %v", test.args, time.Since(begun).Round(time.Millisecond))
		require.Equal(t, test.code, r.code, "%s: %s", test.args, r.stderr)
		require.Contains(t, r.stderr, test.says, test.args)
		if words[0] == "nodes" {
			require.Contains(t, r.stdout, "not connected yet")
			require.NotContains(t, r.stdout, "multiplex:")
		}
	}
	// No command says that where all answer.
	_, nodes = masters(t, 3)
	for _, args := range []string{"nodes --observe=1s", "doctor --observe=1s", "status r", "init", "release --force --yes r"} {
		r := soon(t, append(strings.Fields(args), nodes)...)
		require.NotContains(t, r.stderr, "do not answer", args)
	}
}
