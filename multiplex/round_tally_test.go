package multiplex

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// everyTally lists every combination of votes of up to five nodes.
func everyTally(f func(Tally)) {
	for n := 1; n <= 5; n++ {
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

func TestVerdictIsWhatTheRulesSay(t *testing.T) {
	cases := 0
	everyTally(func(votes Tally) {
		for _, mode := range []Mode{Claiming, Confirming, Placing} {
			cases++
			got := votes.Verdict(Quorum(votes.Nodes), mode)
			require.Equal(t, bruteVerdict(votes, mode), got, "%+v, mode %d", votes, mode)
		}
	})
	require.Equal(t, 3*125, cases)
}

// A verdict is never revised (R5): the round ends with the first one. One
// change remains, which the round's word prevents: a claim that was refused,
// and whose other nodes then fail as well, would become lost if counting
// continued.
func TestVerdictIsMonotonic(t *testing.T) {
	everyTally(func(votes Tally) {
		for _, mode := range []Mode{Claiming, Confirming, Placing} {
			q := Quorum(votes.Nodes)
			before := votes.Verdict(q, mode)
			if before == Open || votes.Granted+votes.Refused+votes.Failed == votes.Nodes {
				continue
			}
			for _, next := range []Tally{
				{votes.Nodes, votes.Granted + 1, votes.Refused, votes.Failed},
				{votes.Nodes, votes.Granted, votes.Refused + 1, votes.Failed},
				{votes.Nodes, votes.Granted, votes.Refused, votes.Failed + 1},
			} {
				after := next.Verdict(q, mode)
				if mode != Confirming && before == Lost && after == Undecided {
					require.Greater(t, next.Failed, votes.Failed)
					continue
				}
				require.Equal(t, before, after, "%+v then %+v, mode %d", votes, next, mode)
			}
		}
	})
}

// A round whose nodes have all voted is decided, so no caller waits forever.
// That holds for even N too (R1).
func TestEveryRoundTerminates(t *testing.T) {
	for n := 1; n <= MaxNodes; n++ {
		for g := 0; g <= n; g++ {
			for r := 0; g+r <= n; r++ {
				for _, mode := range []Mode{Claiming, Confirming, Placing} {
					full := Tally{n, g, r, n - g - r}
					require.NotEqual(t, Open, full.Verdict(Quorum(n), mode), "%+v", full)
				}
			}
		}
	}
}

func TestVerdictTable(t *testing.T) {
	table := []struct {
		name    string
		votes   Tally
		mode    Mode
		verdict Verdict
	}{
		{"third grant of five decides", Tally{5, 3, 0, 0}, Claiming, Won},
		{"two are not enough", Tally{5, 2, 0, 0}, Claiming, Open},
		{"a split vote is lost", Tally{5, 2, 3, 0}, Claiming, Lost},
		{"2/2/1 is lost, not undecided", Tally{5, 0, 2, 1}, Claiming, Lost},
		{"three failures alone", Tally{5, 2, 0, 3}, Claiming, Undecided},
		{"three failures beside a refusal", Tally{5, 0, 1, 3}, Claiming, Undecided},
		{"half of four is no quorum", Tally{4, 2, 0, 0}, Claiming, Open},
		{"half of four refused", Tally{4, 2, 2, 0}, Claiming, Lost},
		{"one of one", Tally{1, 1, 0, 0}, Claiming, Won},
		{"a release may still be refused", Tally{3, 0, 1, 1}, Confirming, Open},
		{"a release that a quorum refused", Tally{3, 0, 2, 0}, Confirming, Lost},
		{"a release without a certain answer", Tally{3, 1, 1, 1}, Confirming, Undecided},
		{"a release that one of one lost", Tally{1, 0, 0, 1}, Confirming, Undecided},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.verdict, c.votes.Verdict(Quorum(c.votes.Nodes), c.mode))
		})
	}
}

func TestSet(t *testing.T) {
	assert.Equal(t, Set(0b11111), All(5))
	assert.Equal(t, Set(0xFFFF), All(MaxNodes))
	s := setOf(0) | setOf(15)
	assert.True(t, s.Has(0) && s.Has(15) && !s.Has(1))
	assert.Equal(t, 2, s.Len())
}
