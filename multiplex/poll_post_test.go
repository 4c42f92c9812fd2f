//go:build linux && !redmux_portable

package multiplex

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

func realExtend(key, token string) []byte {
	return resp.AppendCommand(nil, "EVALSHA", redistest.SHA1(extendLua), "1", key, token, "10000")
}

// takeOn waits for n outcomes in real time.
func takeOn(t testing.TB, inbox *Outcomes, n int) []Outcome {
	t.Helper()
	all := make([]Outcome, 0, n)
	late := time.After(patience)
	for {
		if all = inbox.Take(all); len(all) == n {
			return all
		}
		select {
		case <-inbox.Ready():
		case <-late:
			t.Fatalf("%d outcomes of %d", len(all), n)
		}
	}
}

// No caller waits for a posted command and reads its answers. So the group's
// goroutine is woken at once, not by the watch some milliseconds later.
func TestPolledAnswersToPostedCommandsAreReadAtOnce(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), patient)
	require.NotNil(t, g.poller)
	inbox := NewOutcomes()
	const rounds = 50
	atBest(t, func() error {
		var spent []time.Duration
		for i := range rounds {
			require.NoError(t, pairOn(background, g, "k")) // a caller had the role, and left
			start := time.Now()
			_, err := g.PostExtension(extendKind, &Command{Encoded: raw(realExtend("k", "t")), TTL: long}, Posting{Inbox: inbox, Tag: i})
			require.NoError(t, err)
			g.Flush()
			o := takeOn(t, inbox, 1)[0]
			require.Equal(t, Outcome{Tag: i, Granted: o.Granted}, o)
			require.GreaterOrEqual(t, o.Granted.Len(), g.quorum)
			spent = append(spent, time.Since(start))
		}
		slices.Sort(spent)
		t.Logf("median %v", spent[rounds/2])
		if median := spent[rounds/2]; median > tickMost/2 {
			return fmt.Errorf("half of them took more than %v", median)
		}
		return nil
	})
	requireSettled(t, g)
}

// Callers come and go with the poller's role while others post. A posted
// outcome that is not read would hang the test.
func TestPolledPostedAmongCallers(t *testing.T) {
	g := onWire(t, startWireNodes(t, 3), patient)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 3 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := pairOn(background, g, fmt.Sprint("c", i)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	inbox := NewOutcomes()
	for i := range 2000 {
		n := 1 + i%7
		for range n {
			_, err := g.PostExtension(extendKind, &Command{Encoded: raw(realExtend("k", "t")), TTL: long}, Posting{Inbox: inbox})
			require.NoError(t, err)
		}
		g.Flush()
		for _, o := range takeOn(t, inbox, n) {
			require.NoError(t, o.Err)
		}
	}
	close(stop)
	callers.Wait()
	requireSettled(t, g)
}

// Posting allocates nothing once pools and buffers have reached their sizes.
func TestPolledPostingAllocatesNothing(t *testing.T) {
	if poisoning {
		t.Skip("the race detector allocates")
	}
	g := onServers(t, redistest.Servers(t, 3), patient)
	_, err := claimOn(background, g, "k", "t")
	require.NoError(t, err)
	inbox := NewOutcomes()
	command := Command{Encoded: raw(realExtend("k", "t")), TTL: long}
	room := make([]Outcome, 0, 64)
	run := func() {
		for range 64 {
			if _, err := g.PostExtension(extendKind, &command, Posting{Inbox: inbox, Tag: &command}); err != nil {
				t.Error(err)
			}
		}
		g.Flush()
		for left := 64; left > 0; left -= len(inbox.Take(room)) {
			<-inbox.Ready()
		}
	}
	for range 50 {
		run()
	}
	best := testing.AllocsPerRun(20, run)
	for try := 0; try < 10 && best > 0; try++ {
		best = min(best, testing.AllocsPerRun(20, run))
	}
	require.Zero(t, best, "allocations for 64 posted commands")
}
