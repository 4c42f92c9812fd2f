package multiplex

import "github.com/redmux/redmux/internal/pure"

// MaxNodes is the largest number of nodes of a group (R1): the votes of a round
// fit in one machine word, sixteen bits for each kind of answer.
const MaxNodes = 16

// Quorum returns ⌊n/2⌋+1 for n configured nodes, whether or not they are up
// (R1).
func Quorum(n int) int { return n/2 + 1 }

// A Set is a set of nodes: bit i stands for node i. Has(i) and Len ask it;
// Add(i) and Without(set) return another one.
type Set = pure.Set

// All returns the set of all nodes of a group of n.
func All(n int) Set { return pure.All(n) }

func setOf(i int) Set { return pure.SetOf(i) }

// A Vote is what one node's reply means to the round that asked.
type Vote uint8

const (
	// Alien is a reply whose type cannot answer the command. It ends the
	// connection (R16).
	Alien Vote = iota
	// Granted means that the lock was set, extended or released on this node.
	Granted
	// Refused means that another client's key is there, or ours is not.
	Refused
	// Failed is neither: an error, a dead connection, or a timeout (R17).
	Failed
	// Restored means that our key was gone and was set again (R10, healing). It
	// is a grant, except from a quarantined node, where it is a refusal: the
	// node may have forgotten the lock of another client (R23).
	Restored
	// Floorless means that the key was set, but the node has no floor for
	// fencing numbers. It does not count (docs/fencing.md).
	Floorless
	// Beyond means a refusal for a reason that cannot be true. That is a
	// failure of the node, not an answer (R33).
	Beyond
)

// A Mode says when a round is decided.
type Mode uint8

const (
	// Claiming decides as soon as a quorum granted, or no quorum can grant any
	// more (R5). Which nodes refused does not matter then.
	Claiming Mode = iota
	// Confirming is for a command about a key that was ours. Without hope
	// of a quorum, it still waits for refusals that may prove that the key
	// is not ours. "Not yours" and "unknown" call for different actions
	// (R9, R12).
	Confirming
	// Placing is Claiming for a command that wants refusals, which say more
	// than no, from a quorum: they do not decide it before a quorum of
	// nodes has answered. With an odd number of nodes that makes no
	// difference.
	Placing
)

// A Verdict is the outcome of a round.
type Verdict uint8

const (
	// Open means that the round still waits for votes.
	Open Verdict = iota
	// Won means that a quorum granted.
	Won
	// Lost means refusals: a quorum is out of reach, and not for failures
	// alone.
	Lost
	// Undecided means that too few nodes answered to know (R12).
	Undecided
)

// A Tally counts the votes of one round.
type Tally struct {
	Nodes                    int // of the group, whether or not they have voted
	Granted, Refused, Failed int // votes so far
}

// Hinges reports whether the outcome depends on the missing votes. Without any
// of them, it stays unknown (R6).
func (t Tally) Hinges(quorum int, mode Mode) bool {
	t.Failed = t.Nodes - t.Granted - t.Refused
	return t.Verdict(quorum, mode) == Undecided
}

// Verdict returns the outcome of the votes counted so far, for a round that
// needs the given quorum. Once it is not Open, no further vote makes it Open or
// brings a quorum within reach, so the first goroutine to reach a verdict may
// wake the caller (R5). Failures after a refusal could still turn Lost into
// Undecided; the round's word keeps the verdict of the moment of decision
// (R12).
func (t Tally) Verdict(quorum int, mode Mode) Verdict {
	if t.Granted >= quorum {
		return Won
	}
	pending := t.Nodes - t.Granted - t.Refused - t.Failed
	// So many refusals or failures rule out any quorum.
	blocking := t.Nodes - quorum + 1
	if mode == Confirming && t.Refused >= blocking {
		return Lost
	}
	if t.Granted+pending >= quorum {
		return Open
	}
	if mode == Confirming {
		if t.Refused+pending >= blocking {
			return Open
		}
		return Undecided
	}
	if t.Failed >= blocking {
		return Undecided
	}
	if mode == Placing && t.Nodes-pending < quorum {
		return Open
	}
	return Lost
}
