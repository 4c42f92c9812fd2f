package multiplex

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every tally of up to seven nodes, with every way to continue. Open means that
// both a quorum of grants and its absence, or for Confirming a certain answer,
// are still possible. What is decided stays decided, and once all have voted,
// nothing is open (R5, R12).
func TestVerdictsOfAllTallies(t *testing.T) {
	for nodes := 1; nodes <= 7; nodes++ {
		for granted := range nodes + 1 {
			for refused := range nodes + 1 - granted {
				for failed := range nodes + 1 - granted - refused {
					for _, mode := range []Mode{Claiming, Confirming} {
						checkTally(t, Tally{nodes, granted, refused, failed}, mode)
					}
				}
			}
		}
	}
}

func checkTally(t *testing.T, now Tally, mode Mode) {
	quorum := Quorum(now.Nodes)
	verdict := now.Verdict(quorum, mode)
	reachable := make(map[Verdict]bool)
	pending := now.Nodes - now.Granted - now.Refused - now.Failed
	for granted := range pending + 1 {
		for refused := range pending + 1 - granted {
			end := Tally{now.Nodes, now.Granted + granted, now.Refused + refused, now.Failed + pending - granted - refused}
			reachable[naiveVerdict(end, mode)] = true
		}
	}
	switch verdict {
	case Open:
		require.Positive(t, pending, "%+v", now)
		require.Greater(t, len(reachable), 1, "%+v: nothing can change any more", now)
	case Won:
		require.GreaterOrEqual(t, now.Granted, quorum, "%+v", now)
	default:
		require.False(t, reachable[Won], "%+v: a quorum may still come", now)
		require.True(t, reachable[verdict], "%+v: %v", now, verdict)
	}
	if mode == Confirming && verdict == Undecided {
		require.False(t, reachable[Lost], "%+v: a certain no may still come", now)
	}
	if pending == 0 {
		require.Equal(t, naiveVerdict(now, mode), verdict, "%+v %v", now, mode)
	}
}

// naiveVerdict decides when all have voted, by counting.
func naiveVerdict(t Tally, mode Mode) Verdict {
	blocked := t.Nodes - Quorum(t.Nodes) + 1
	switch {
	case t.Granted >= Quorum(t.Nodes):
		return Won
	case mode == Confirming && t.Refused >= blocked, mode == Claiming && t.Failed < blocked:
		return Lost
	}
	return Undecided
}
