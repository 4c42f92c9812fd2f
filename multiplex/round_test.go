package multiplex

import (
	"bytes"
	"context"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/redmux/redmux/conn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// loneRound returns a round of a group with n nodes and no goroutine.
func loneRound(n int, v *verb) *round {
	g := &Group{config: new(Config), size: n, quorum: Quorum(n)}
	for i := range n {
		g.nodes = append(g.nodes, &node{group: g, index: i, addr: "node"})
	}
	g.log.init()
	r := g.log.take(g)
	r.begin(v, 0, long, Receipt{}, 1)
	r.ctx = context.Background()
	return r
}

func TestVotesAreCountedOncePerNode(t *testing.T) {
	r := loneRound(5, claimKind.verb())
	require.True(t, r.vote(0, Granted, nil))
	require.False(t, r.vote(0, Granted, nil), "one node, one vote (R22)")
	require.False(t, r.vote(0, Failed, nil))
	require.True(t, r.vote(1, Failed, nil), "a timeout")
	require.False(t, r.vote(1, Granted, nil), "its vote was given up (R6)")
	require.True(t, r.vote(2, Granted, nil))
	require.Zero(t, r.word.Load()&decided)
	require.True(t, r.vote(3, Granted, nil))
	w := r.word.Load()
	require.NotZero(t, w&decided)
	require.Equal(t, Won, r.verdictOf(w))

	// R17: what comes after the decision is not a vote.
	require.False(t, r.vote(4, Refused, nil))
	require.False(t, r.conclude(cancelled))
	require.Equal(t, w, r.word.Load())
	require.NoError(t, r.outcome(w))

	r = loneRound(5, claimKind.verb())
	for i, v := range []Vote{Refused, Failed, Failed, Failed, Failed} {
		r.vote(i, v, nil)
	}
	require.Equal(t, ErrRefused, r.outcome(r.await()), "R12: judged at the moment of decision; and the sentinel itself")
}

// Timeouts that end at the same time are counted together, so that the outcome
// does not depend on their order (R12).
func TestTimeoutsAreJudgedTogether(t *testing.T) {
	r := loneRound(5, claimKind.verb())
	r.vote(4, Refused, nil)
	r.giveUp(All(4))
	err := r.outcome(r.await())
	assert.Equal(t, []int{0, 1, 2, 3}, undecided(t, err))
	require.False(t, r.vote(3, Granted, nil))

	r = loneRound(5, claimKind.verb())
	r.vote(4, Granted, nil)
	r.giveUp(setOf(4) | setOf(0))
	w := r.word.Load()
	require.Zero(t, w&decided)
	require.Equal(t, setOf(0), failedOf(w), "who has voted is not given up")
	r.vote(1, Granted, nil)
	r.vote(2, Granted, nil)
	require.NoError(t, r.outcome(r.await()))
	r.giveUp(All(5))
	require.Equal(t, setOf(0), failedOf(r.word.Load()), "the decision stands (R17)")
}

func TestUndecidedNamesEachCause(t *testing.T) {
	r := loneRound(5, claimKind.verb())
	broken := &fault{err: conn.ErrStalled}
	r.vote(1, Granted, nil)
	r.vote(0, Failed, broken)
	r.vote(2, Failed, nil)
	r.vote(4, Failed, &fault{err: &downError{ErrSilent}})
	err := r.outcome(r.await())
	assert.Equal(t, []int{0, 2, 4}, undecided(t, err))
	assert.ErrorIs(t, err, conn.ErrStalled)
	assert.ErrorIs(t, err, ErrTimeout)
	assert.ErrorIs(t, err, ErrDown)
	assert.ErrorIs(t, err, ErrSilent)
	assert.NotErrorIs(t, err, ErrConnecting)
	var node *NodeError
	require.ErrorAs(t, err, &node)
	assert.Equal(t, "multiplex: too few nodes answered: node 0 (node): node does not read: backlog is full; "+
		"node 2 (node): no answer in time; "+
		"node 4 (node): no answer for too long, connection given up", err.Error())
}

// race lets voters, a canceller and the caller go for one round at once. It
// returns the word that the caller was given and how many of the others believe
// that they counted.
func race(r *round, votes []Vote, cancel bool, pause func()) (word uint64, counted int32, concluded bool) {
	var (
		wg    sync.WaitGroup
		count atomic.Int32
		ended atomic.Bool
		start = make(chan struct{})
	)
	for i, v := range votes {
		wg.Go(func() {
			<-start
			pause()
			if r.vote(i, v, &fault{err: ErrSilent}) {
				count.Add(1)
			}
		})
	}
	if cancel {
		wg.Go(func() {
			<-start
			pause()
			ended.Store(r.conclude(cancelled))
		})
	}
	close(start)
	word = r.await()
	wg.Wait()
	return word, count.Load(), ended.Load()
}

func TestConcurrentVotesDecideOnce(t *testing.T) {
	rng := seeded(t, 5)
	votes := make([]Vote, 5)
	for range 4000 {
		r := loneRound(len(votes), claimKind.verb())
		for i := range votes {
			votes[i] = Vote(1 + rng.IntN(3))
		}
		cancel := rng.IntN(2) == 0
		word, counted, concluded := race(r, votes, cancel, func() {
			for range rand.IntN(3) {
				runtime.Gosched()
			}
		})
		final := r.word.Load()
		require.Equal(t, word|parked, final|parked, "the word does not change once it is decided (R17)")
		require.NotZero(t, word&decided)
		require.EqualValues(t, votedOf(final).Len(), counted)
		require.Equal(t, concluded, final&cancelled != 0)
		if !concluded {
			require.NotEqual(t, Open, r.verdictOf(final))
			// Only the votes up to the decision were counted: without one of
			// them the round would have been open, or that one came last.
			require.True(t, decidedByLast(r, final), "a vote was counted after the decision")
		}
		for i, v := range votes {
			if grantedOf(final).Has(i) {
				require.Equal(t, Granted, v)
			}
		}
	}
}

// decidedByLast reports whether one of the votes can have decided the word.
func decidedByLast(r *round, w uint64) bool {
	for i := range r.group.size {
		for _, v := range []Vote{Granted, Refused, Failed} {
			if b := bitOf(v, i); w&b != 0 && r.verdictOf(w&^b) == Open {
				return true
			}
		}
	}
	return false
}

// A round that is reused never keeps a wake-up for the next caller.
func TestRecycledRoundsStartClean(t *testing.T) {
	r := loneRound(3, claimKind.verb())
	g := r.group
	for range 2000 {
		r.command = append(r.command, "release"...)
		word, _, _ := race(r, []Vote{Failed, Granted, Failed}, true, runtime.Gosched)
		require.NotZero(t, word&decided)
		r.drop()
		g.log.collect()
		again := g.log.take(g)
		require.Same(t, r, again)
		require.Zero(t, again.word.Load())
		require.Nil(t, again.ctx)
		require.Zero(t, again.discounted)
		require.Nil(t, again.form)
		require.Empty(t, again.command)
		require.False(t, again.blamed.Load())
		for i := range again.causes {
			require.Nil(t, again.causes[i].Load())
		}
		again.begin(claimKind.verb(), 0, long, Receipt{}, 1)
		again.ctx, again.discounted, again.form = context.Background(), All(3), &forms[0]
	}
	require.Equal(t, 1, g.log.live)
}

// The last of several holders gives the round back, from any goroutine, exactly
// once (R20).
func TestLastHolderGivesBack(t *testing.T) {
	r := loneRound(3, claimKind.verb())
	g := r.group
	for range 2000 {
		r.holders.Store(4)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(r.drop)
		}
		wg.Wait()
		g.log.collect()
		require.Zero(t, g.log.live)
		require.Same(t, r, g.log.take(g))
		require.NotSame(t, r, g.log.free)
	}
}

func TestLongCommandsAreNotKept(t *testing.T) {
	r := loneRound(3, claimKind.verb())
	r.command = make([]byte, 10*keepCommand)
	r.clear()
	assert.LessOrEqual(t, cap(r.command), keepCommand, "R26")
	r.command = append(r.command, "short"...)
	assert.Same(t, &r.room[0], &r.command[0])
}

// A cause that several nodes share is printed once, with all of these nodes.
func TestUndecidedSaysEachCauseOnce(t *testing.T) {
	at := func(nodes string, err error) (all []*NodeError) {
		for _, n := range nodes {
			all = append(all, &NodeError{Node: int(n - '0'), Addr: string('a' + n - '0'), Err: err})
		}
		return all
	}
	refused := func(addr string) error {
		return &downError{&conn.Error{Op: "dial", Addr: addr, Err: &net.OpError{
			Op: "dial", Net: "tcp", Addr: &net.TCPAddr{Port: len(addr)}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
		}}}
	}
	for want, nodes := range map[string][]*NodeError{
		"all 3 nodes (a, b, c): no answer in time":                                          at("012", ErrTimeout),
		"nodes 0 and 2 (a, c): no answer in time":                                           at("02", ErrTimeout),
		"nodes 0, 1, 3 and 4 (a, b, d, e): no answer in time":                               at("0134", ErrTimeout),
		"node 1 (b): connection refused":                                                    at("1", refused("b")),
		"node 0 (a): connection lost: EOF":                                                  at("0", &conn.Error{Op: "read", Addr: "a", Err: io.EOF}),
		"nodes 0 and 1 (a, b): connection refused; node 2 (c): answered with the error OOM": append(at("0", refused("a")), append(at("1", refused("bb")), at("2", &RefusalError{conn.ClassOOM})...)...),
		"node 0 (a): two addresses lead to one server: the run id is that of the server at b (name each server once: N votes need N servers; Allow.SameServer overrides this)": at("0", &downError{sameServer("b")}),
	} {
		assert.Equal(t, "multiplex: too few nodes answered: "+want, (&UndecidedError{Nodes: nodes, Of: 3}).Error())
	}
}

// What a vote needs is in one cache line and what a claim needs in two, and
// rounds that were made together do not share any.
func TestRoundsFitCacheLines(t *testing.T) {
	if bits.UintSize != 64 {
		t.Skip("NOT COVERED: the layout is for 64 bits")
	}
	const line = 64
	var r round
	assert.EqualValues(t, line, unsafe.Offsetof(r.ctx))
	assert.LessOrEqual(t, unsafe.Offsetof(r.kept), uintptr(2*line))
	assert.Zero(t, unsafe.Sizeof(r)%line)
}

func TestQuorum(t *testing.T) {
	// R1: ⌊N/2⌋+1, so that any two quorums share a node.
	want := map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4, 15: 8, 16: 9}
	for n, q := range want {
		assert.Equal(t, q, Quorum(n), "N=%d", n)
	}
	for n := 1; n <= MaxNodes; n++ {
		assert.Greater(t, 2*Quorum(n), n, "two quorums of %d nodes must meet", n)
		assert.LessOrEqual(t, Quorum(n), n)
	}
}

// possible lists every final Tally that the missing votes can lead to.
func possible(t Tally) []Tally {
	pending := t.Nodes - t.Granted - t.Refused - t.Failed
	var all []Tally
	for g := 0; g <= pending; g++ {
		for r := 0; g+r <= pending; r++ {
			all = append(all, Tally{t.Nodes, t.Granted + g, t.Refused + r, t.Failed + pending - g - r})
		}
	}
	return all
}

// bruteVerdict follows the words of the rules: it tries every way in which the
// round can end.
func bruteVerdict(t Tally, mode Mode) Verdict {
	majority := t.Nodes/2 + 1
	keepsMajorityAway := t.Nodes - majority + 1
	canWin, canLose, mustLose := false, false, true
	for _, end := range possible(t) {
		canWin = canWin || end.Granted >= majority
		canLose = canLose || end.Refused >= keepsMajorityAway
		mustLose = mustLose && end.Refused >= keepsMajorityAway
	}
	switch {
	case t.Granted >= majority:
		return Won
	case mode == Confirming && mustLose: // R9: a quorum refused
		return Lost
	case canWin, mode == Confirming && canLose:
		return Open
	case mode == Confirming, t.Failed >= keepsMajorityAway: // R12: failures alone make it impossible
		return Undecided
	case mode == Placing && t.Granted+t.Refused+t.Failed < majority: // a quorum is to say where the caller stands
		return Open
	}
	return Lost
}

// everyTally lists every combination of votes of up to six nodes.
func everyTally(f func(Tally)) {
	for n := 1; n <= 6; n++ {
		for g := 0; g <= n; g++ {
			for r := 0; g+r <= n; r++ {
				for x := 0; g+r+x <= n; x++ {
					f(Tally{n, g, r, x})
				}
			}
		}
	}
}

// R6: only an outcome that stays unknown without the missing votes hinges on
// them.
func TestHinges(t *testing.T) {
	for _, c := range []struct {
		votes  Tally
		mode   Mode
		hinges bool
	}{
		{Tally{5, 0, 0, 0}, Claiming, true},
		{Tally{5, 2, 0, 0}, Claiming, true},
		{Tally{5, 3, 0, 0}, Claiming, false}, // granted
		{Tally{5, 2, 2, 0}, Claiming, false}, // one is missing: refused
		{Tally{5, 2, 1, 0}, Claiming, false},
		{Tally{5, 1, 1, 0}, Claiming, true},
		{Tally{5, 2, 0, 2}, Claiming, true}, // two are down
		{Tally{5, 2, 2, 0}, Confirming, true},
		{Tally{5, 0, 3, 0}, Confirming, false}, // refused by a quorum
		{Tally{1, 0, 0, 0}, Claiming, true},
	} {
		assert.Equal(t, c.hinges, c.votes.Hinges(Quorum(c.votes.Nodes), c.mode), "%+v, mode %d", c.votes, c.mode)
	}
}

// No round whose nodes have all voted is open, so no caller waits forever.
func TestVerdictIsWhatTheRulesSay(t *testing.T) {
	everyTally(func(votes Tally) {
		for _, mode := range []Mode{Claiming, Confirming, Placing} {
			got := votes.Verdict(Quorum(votes.Nodes), mode)
			require.Equal(t, bruteVerdict(votes, mode), got, "%+v, mode %d", votes, mode)
			all := votes.Granted+votes.Refused+votes.Failed == votes.Nodes
			require.False(t, all && got == Open, "%+v, mode %d", votes, mode)
		}
	})
}

// R20: in race builds what is given back is overwritten, so that a use of it
// shows at once.
func TestRecycledRoundsArePoisoned(t *testing.T) {
	if !poisoning {
		t.Skip("only race builds poison")
	}
	r := loneRound(3, releaseKind.verb())
	r.command = append(r.command, "EVALSHA and a token"...)
	command := r.command
	r.drop()
	r.group.log.collect()
	require.Equal(t, bytes.Repeat([]byte{0xDB}, len(command)), command)
	require.Negative(t, r.at)
	require.Negative(t, r.ttl)
	require.Nil(t, r.verb)

	var l broadcast
	l.buf = append(l.buf, "SET"...)
	batch := l.swap()
	l.recycle(batch)
	require.Equal(t, []byte{0xDB, 0xDB, 0xDB}, batch)
}
