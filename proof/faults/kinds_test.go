package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// A fault that could not be made is not counted as one, and a kind of which
// none could be made is named. What was begun anew because of it is no fault
// either.
func TestFailedInjectionsAreNotCounted(t *testing.T) {
	stop, pause := &Kind{Name: "stop", Scope: OfNode}, &Kind{Name: "pause", Scope: OfNode}
	j := newJudge()
	r := &run{kinds: []*Kind{stop, pause, {Name: "sleep"}}, judge: j, log: j.log, results: newResults()}
	for _, k := range []*Kind{stop, stop, pause, repairKind} {
		r.log.begin(&fault{kind: k, slot: -1}, 3, 5)
	}
	r.results.failedInjection("stop", errors.New("refused"))
	r.results.failedInjection("pause", errors.New("refused"))
	report := r.report(time.Second)
	assert.Equal(t, map[string]int{"stop": 1, "pause": 0, "repair": 1}, report.Faults)
	assert.Equal(t, 1, report.Injected)
	assert.Equal(t, []string{"pause"}, report.NeverMade())
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	assert.Contains(t, text.String(), "faults: 1, of 1 of 3 kinds")
}

// A command that keeps a server busy and lost its connection may never have
// been executed: the fault was none. One that is refused in the end, as a
// script that is killed, has arrived.
func TestACommandThatDidNotArriveIsNoFault(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	site := &target{server: server, side: server.Side()}
	defer site.side.Close()
	waits := func() bool {
		clients, err := site.side.Do("CLIENT", "LIST")
		return err == nil && strings.Contains(clients.(string), "cmd=blpop")
	}
	for _, c := range []struct {
		end    []string
		failed bool
	}{
		{[]string{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}, true},
		{[]string{"REPLICAOF", "127.0.0.1", "1"}, false}, // -UNBLOCKED
	} {
		ended := site.running("BLPOP", "none", "0")
		require.Eventually(t, waits, 30*time.Second, time.Millisecond)
		_, err := site.side.Do(c.end...)
		require.NoError(t, err)
		assert.Equal(t, c.failed, ended() != nil, "%v", c.end)
	}
}
