package multiplex

import "math/bits"

// MaxNodes is how many nodes a group can have (R1): the votes of a round stand in one machine word, sixteen bits for each
// kind of answer.
const MaxNodes = 16

// Quorum is ⌊n/2⌋+1 of the n nodes that are configured, whether or not they are up (R1).
func Quorum(n int) int { return n/2 + 1 }

// A Set is a set of nodes: bit i stands for node i.
type Set uint16

// Has reports whether node i is in the set.
func (s Set) Has(i int) bool { return s>>uint(i)&1 != 0 }

// Len is the number of nodes in the set.
func (s Set) Len() int { return bits.OnesCount16(uint16(s)) }

func setOf(i int) Set { return 1 << uint(i) }

// everyone is the set of all n nodes.
func everyone(n int) Set { return Set(1<<uint(n) - 1) }

// A Vote is what one node's reply means to the round that asked.
type Vote uint8

const (
	// Alien is no answer to this command at all: a reply whose type cannot answer it. It ends the connection (R16).
	Alien Vote = iota
	// Granted is a yes: the lock was set, extended or released here.
	Granted
	// Refused is a no: somebody else's key is there, or ours is not.
	Refused
	// Failed is neither: an error, a dead connection, a timeout (R17).
	Failed
	// Restored is a key that was ours, was gone, and was set again (R10, healing): a grant, except from a node that is
	// quarantined, where it is a refusal, since somebody else may have been given what this node has forgotten (R23).
	Restored
)

// A Mode says when a round is decided.
type Mode uint8

const (
	// Claim decides as soon as a quorum granted, or cannot any more (R5). Which nodes refused does not matter then.
	Claim Mode = iota
	// Confirm asks about something that was ours. It also waits for the refusals that make a no certain, since
	// "it is not yours" and "nobody knows" call for different acts (R9, R12).
	Confirm
)

// A Verdict is what a round came to.
type Verdict uint8

const (
	// Open rounds still wait for votes.
	Open Verdict = iota
	// Won rounds have the grants of a quorum.
	Won
	// Lost rounds were refused: a quorum is out of reach, and not by failures alone.
	Lost
	// Undecided rounds failed: too few nodes answered to know (R12).
	Undecided
)

// A Tally counts the votes of one round. It is pure: a table tests it, and a simulation drives it.
type Tally struct {
	Nodes, Granted, Refused, Failed int
}

// Verdict judges the votes counted so far, for a round that needs the given quorum. No further vote opens it again or
// makes a quorum of one that was out of reach, which is why the first to reach a verdict may wake the caller (R5). Failures
// that come after a refusal could still turn Lost into Undecided; the round's word keeps the verdict of the moment of
// decision (R12).
func (t Tally) Verdict(quorum int, mode Mode) Verdict {
	if t.Granted >= quorum {
		return Won
	}
	pending := t.Nodes - t.Granted - t.Refused - t.Failed
	// So many nodes are enough to keep any quorum from forming.
	blocking := t.Nodes - quorum + 1
	if mode == Confirm && t.Refused >= blocking {
		return Lost
	}
	if t.Granted+pending >= quorum {
		return Open
	}
	if mode == Confirm {
		if t.Refused+pending >= blocking {
			return Open
		}
		return Undecided
	}
	if t.Failed >= blocking {
		return Undecided
	}
	return Lost
}
