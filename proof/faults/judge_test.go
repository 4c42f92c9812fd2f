package faults

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/history"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// event is one of a history. Times are far ahead of those at which the streams
// began.
func event(t int64, ev history.Kind, client int, token string, until int64) history.Event {
	const zero = 1 << 60
	e := history.Event{T: zero + t, Ev: ev, Client: client, Attempt: 1, Resource: "r", Token: token}
	if until != 0 {
		e.Until = zero + until
	}
	return e
}

func newJudge(names ...int) *judge {
	counts := new(counters)
	j := &judge{log: &faultLog{counts: counts}, counts: counts}
	for _, n := range names {
		j.join(n)
	}
	return j
}

// Events are judged in order of time over all processes, whichever came first:
// a release that is told late, because its process was stopped after it had
// noted it, still comes before the next one's grant.
func TestJudgeOrdersProcesses(t *testing.T) {
	j := newJudge(1, 2)
	j.event(2, event(50, history.Grant, 0, "b", 90))
	_, _, x := j.verdict()
	assert.Zero(t, x[Events], "process 1 may yet tell of an earlier time")
	j.event(1, event(10, history.Grant, 0, "a", 80))
	j.event(1, event(40, history.Release, 0, "a", 80))
	violations, _, x := j.verdict()
	assert.Empty(t, violations)
	assert.EqualValues(t, 2, x[Events], "the grant of process 2 waits for what process 1 tells next")
	j.beat(1, 1<<60+60)
	violations, _, x = j.verdict()
	assert.Empty(t, violations)
	assert.EqualValues(t, 3, x[Events])
	require.NoError(t, j.close())
	assert.Equal(t, 4, j.porcupine.Operations, "two holds, each with its end")
	require.NoError(t, j.porcupine.Err())
}

// Without that release there were two holders.
func TestJudgeFindsTwoHolders(t *testing.T) {
	j := newJudge(1, 2)
	j.event(2, event(50, history.Grant, 0, "b", 90))
	j.event(1, event(10, history.Grant, 0, "a", 80))
	j.leave(1) // killed: its lock stands until its validity ends
	j.leave(2)
	violations, _, _ := j.verdict()
	require.Len(t, violations, 1)
	assert.Contains(t, violations[0], string(history.TwoHolders))
}

// A lock that is granted after another was, with a lower number, is a finding,
// by whichever processes they were.
func TestJudgeComparesNumbers(t *testing.T) {
	j := newJudge(1, 2)
	number := func(e history.Event, n uint64) history.Event {
		e.Fence = n
		return e
	}
	j.event(1, event(10, history.Start, 0, "", 0))
	j.event(1, number(event(20, history.Grant, 0, "a", 30), 7))
	j.event(2, event(40, history.Start, 0, "", 0))
	j.event(2, number(event(50, history.Grant, 0, "b", 60), 6))
	j.leave(1)
	j.leave(2)
	violations, _, _ := j.verdict()
	require.Len(t, violations, 1)
	assert.Contains(t, violations[0], string(history.NumberNotHigher))
}

// The operator learns the highest number of which any process has told, and
// grants count as later than the first reset if they are above its floor.
func TestJudgeKnowsTheFence(t *testing.T) {
	j := newJudge(1, 2)
	grant := func(name int, number uint64) {
		e := event(int64(number), history.Grant, 0, "", int64(number)+1)
		e.Resource, e.Fence = fmt.Sprint(number), number
		j.event(name, e)
	}
	assert.Zero(t, j.highestNumber())
	grant(1, 30)
	grant(2, 20)
	assert.EqualValues(t, 30, j.highestNumber())
	j.reset(50)
	grant(1, 50)
	grant(2, 51)
	j.reset(90)
	grant(1, 52)
	assert.EqualValues(t, 52, j.highestNumber())
	assert.EqualValues(t, 2, j.counts.sum()[Resets])
	assert.EqualValues(t, 2, j.counts.sum()[AfterReset])
}

// A run in which something never happened says so.
func TestIdle(t *testing.T) {
	r := &Report{Tally: Tally{
		Grants: 4, Fenced: 3, Sets: 2, FencedSets: 1, Reads: 1, Writes: 1, Upgrades: 1, Downgrades: 1, Permits: 1, InOrder: 1,
		Queued: 1, Terms: 1, StepsDown: 1, Extensions: 1, Renewals: 1,
	}}
	assert.Empty(t, r.Idle())
	r.Faults = map[string]int{powerKind: 1}
	assert.Len(t, r.Idle(), 4, "the fence was lost, and it was not seen what came of it")
	r.Tally[NoFloor], r.Tally[Resets], r.Tally[AfterReset] = 1, 1, 1
	assert.Equal(t, []string{"second rounds with a higher number"}, r.Idle())
	r.Tally[Renumbered] = 1
	assert.Empty(t, r.Idle())
	assert.Len(t, (&Report{}).Idle(), 15)
}

// A process that has gone does not keep the others waiting, nor does one that
// tells nothing but the time.
func TestJudgeWaitsForTheLivingOnly(t *testing.T) {
	j := newJudge(1, 2, 3)
	j.event(1, event(10, history.Grant, 0, "a", 80))
	j.leave(2)
	_, _, x := j.verdict()
	assert.Zero(t, x[Events])
	j.beat(3, 1<<60+10)
	_, _, x = j.verdict()
	assert.EqualValues(t, 1, x[Events])
}

// What is written to the file names clients over all processes.
func TestJudgeWritesOneHistory(t *testing.T) {
	var file bytes.Buffer
	j := newJudge(3)
	j.history = history.NewWriter(&file)
	j.event(3, event(10, history.Start, 7, "", 0))
	j.leave(3)
	require.NoError(t, j.close())
	for e, err := range history.Read(&file) {
		require.NoError(t, err)
		assert.Equal(t, 3*clientsEach+7, e.Client)
	}
}

// A lock that vanished is a finding, unless a node forgot its keys since; a
// mix-up is one in any case.
func TestJudgeExcusesWhatNodesForgot(t *testing.T) {
	j := newJudge()
	before := history.Monotonic()
	f := &fault{kind: &Kind{Name: "kill", Scope: OfNode, forgets: true}, slot: -1}
	j.log.begin(f, 3, 5)
	during := history.Monotonic()
	j.odd(oddity{What: "vanished, and the node is still dead", Excusable: true, From: before, To: during})
	j.log.end(f)
	after := history.Monotonic()
	j.odd(oddity{What: "vanished", Excusable: true, From: during, To: after})
	_, findings, _ := j.verdict()
	assert.Empty(t, findings)
	assert.EqualValues(t, 2, j.counts.sum()[Excused])
	j.odd(oddity{What: "vanished before", Excusable: true, From: before - 20, To: before - 10})
	j.odd(oddity{What: "vanished after", Excusable: true, From: after + 10, To: after + 20})
	j.odd(oddity{What: "mix-up", From: during, To: after})
	_, findings, _ = j.verdict()
	assert.Len(t, findings, 3)
}

// The first deck has each kind once, later ones each as often as it weighs.
func TestDeck(t *testing.T) {
	kinds := []*Kind{{Name: "a", Scope: OfNode, weight: 3}, {Name: "b", Scope: OfNode, weight: 1}, {Name: "c", Scope: OfLink, weight: 9}}
	b := newDeck(kinds, OfNode, 1)
	any := func(*Kind) bool { return true }
	counts := map[string]int{}
	for range 2 + 4 + 4 {
		counts[b.draw(any).Name]++
	}
	assert.Equal(t, map[string]int{"a": 7, "b": 3}, counts)
	assert.Nil(t, b.draw(func(*Kind) bool { return false }))
	assert.Equal(t, "b", b.draw(func(k *Kind) bool { return k.Name == "b" }).Name)
}

// No more nodes are faulty at once than leave a quorum, but in a storm; and
// none while the load rests.
func TestLimiter(t *testing.T) {
	ctx := t.Context()
	ofNode := &Kind{Scope: OfNode}
	g := newLimiter(5, time.Second)
	entered := make(chan int, 10)
	for i := range 5 {
		go func() {
			g.enter(ctx, ofNode)
			entered <- i
		}()
	}
	count := func(want int) {
		t.Helper()
		for range want {
			select {
			case <-entered:
			case <-time.After(30 * time.Second):
				t.Fatal("a fault that may begin does not")
			}
		}
		time.Sleep(20 * time.Millisecond)
		require.Empty(t, entered, "too many faults at once")
	}
	count(2)
	g.leave(ofNode)
	count(1)
	g.setStorm(true)
	count(2)
	g.setStorm(false)
	shut := make(chan struct{})
	go func() {
		g.close()
		close(shut)
	}()
	for range 4 {
		g.leave(ofNode)
	}
	<-shut
	go func() {
		g.enter(ctx, &Kind{Scope: OfLink})
		entered <- 0
	}()
	count(0)
	g.open()
	count(1)
}

// A node that forgot is missing for long: only one at a time, but for storms.
func TestLimiterForgetting_R23(t *testing.T) {
	g := newLimiter(5, time.Second)
	forgets := &Kind{Scope: OfNode, forgets: true}
	assert.True(t, g.allowed(forgets))
	require.True(t, g.enter(t.Context(), forgets))
	g.leave(forgets)
	assert.False(t, g.allowed(forgets))
	assert.True(t, g.allowed(&Kind{Scope: OfNode}))
	g.setStorm(true)
	assert.True(t, g.allowed(forgets))
}

// A fault of all servers waits until the others are over, and no other begins
// while it waits or lasts.
func TestLimiterAlone(t *testing.T) {
	g := newLimiter(5, time.Second)
	ofNode, ofFleet := &Kind{Scope: OfNode}, &Kind{Scope: OfFleet}
	entered := make(chan Scope, 2)
	enter := func(k *Kind) {
		g.enter(t.Context(), k)
		entered <- k.Scope
	}
	waits := func(alone int) {
		t.Helper()
		require.Eventually(t, func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.alone == alone
		}, 30*time.Second, time.Millisecond)
		time.Sleep(20 * time.Millisecond)
		require.Empty(t, entered)
	}
	require.True(t, g.enter(t.Context(), ofNode))
	go enter(ofFleet)
	waits(1)
	go enter(ofNode)
	waits(1)
	g.leave(ofNode)
	require.Equal(t, OfFleet, <-entered)
	waits(1)
	go enter(ofFleet)
	waits(2)
	g.leave(ofFleet)
	require.Equal(t, OfFleet, <-entered, "before those of nodes")
	waits(1)
	g.leave(ofFleet)
	require.Equal(t, OfNode, <-entered)
}

// Every kind has what the table needs, and a name of its own.
func TestKinds(t *testing.T) {
	seen := map[string]bool{repairKind.Name: true}
	for _, k := range Kinds() {
		assert.False(t, seen[k.Name], k.Name)
		seen[k.Name] = true
		assert.NotEmpty(t, k.About, k.Name)
		assert.Positive(t, k.weight, k.Name)
		assert.NotNil(t, k.inject, k.Name)
		assert.NotZero(t, rates[k.Scope], fmt.Sprint(k.Scope))
	}
	assert.GreaterOrEqual(t, len(seen), 20, "issue 5 wants at least so many kinds")
}

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
