package multiplex

import (
	"time"

	"github.com/redmux/redmux/resp"
)

// A Kind describes a sort of command: what its replies mean and how its rounds
// are decided. Kinds are made once, as package variables, so that a round only
// carries a pointer.
type Kind struct {
	// Mode says when a round is decided.
	Mode Mode
	// Judge returns the vote that a reply means. It is called with every reply
	// but errors, must not keep it, and returns Alien for a type that cannot
	// answer the command, which ends the connection (R16).
	Judge func(resp.Value) Vote
	// Script marks commands that name a script by its digest. A node that lost
	// the script gets it again, and then the same command again, on the same
	// connection (R24).
	Script bool
	// Release marks commands that undo a claim. They are accepted when others
	// are refused, and a node that does not confirm one owes it (R8).
	Release bool
	// Undo is the kind of Command.Undo.
	Undo *Kind
	// Merger, for releases and extensions, merges awaited commands that wait
	// for the same flush. If nil, they are not merged.
	Merger *Merger
	// Native lists other forms of a release, the best first. The first that all
	// live nodes support goes into the log, unmerged (R25). If nil, or if they
	// share none, the command goes as given.
	Native []Form
	// Behind places the command behind all that wait to be merged, because it
	// may undo one of them and must not overtake it.
	Behind bool
	// Creates marks a script that may set a key which was not there. It is
	// never retried after NOSCRIPT: the queued release may already have run,
	// and the retry would leave a key that is never released (R8). The vote has
	// failed, and the node gets the script for the next time.
	Creates bool
}

// A Command is what Ask, Tell and Post send. It is only read during the call,
// and its bytes are copied, so they may lie in the caller's frame.
type Command struct {
	Bytes []byte
	// Key is where the encoded key lies in Bytes, or for a claim in Undo. It
	// must be set if the kind is merged or has a native form. The command's
	// other arguments follow it.
	Key Part
	// TTL is the lifetime of the key. It bounds vote timeouts (R6) and debts
	// (R8).
	TTL time.Duration
	// Receipt is what Ask returned for the claim that this release undoes, or
	// that this extension lengthens; see Receipt.Doubted.
	Receipt Receipt
	// Undo, for a claim, is the release that goes to every node if the round
	// ends without a quorum of grants, or Late reports true (R7).
	Undo []byte
	// Late, if not nil, is called when a quorum granted, and reports whether
	// that was too late to be useful. It must not wait.
	Late func() bool
	// Queued, if not nil, is called by Ask once the command has its place in
	// the log, for a kind without a Merger. Commands asked from then on stand
	// behind it on every connection. It must not wait.
	Queued func()

	// Patience is the least time to wait for votes on a posted command if
	// Config.VoteTimeout is zero. Posted commands can wait longer: a late
	// answer is cheaper than a retry. If zero, no longer than for others.
	Patience time.Duration
}

// A Part is a range of a command's bytes, as two offsets.
type Part struct{ From, To int }

// A Receipt says where a claim went, so that its release knows which nodes may
// hold the key.
type Receipt struct {
	// Sent is the set of nodes that the claim was queued for.
	Sent Set
	// Doubted is the subset of Sent that was quarantined at that time. A key
	// set there says nothing about what such a node forgot before, so an
	// extension of it does not count while the node is quarantined (R10, R23).
	// That also holds for a later quarantine, although the key is older than
	// that one, until the caller clears the doubt in its receipt.
	Doubted Set
	// Pos is the claim's position in the log.
	Pos uint64
}

// A Merger makes one command of several of a kind.
type Merger struct {
	// Kind is the kind of the merged command. Its Judge is called for each
	// element of the reply, an array with one element for each merged command.
	Kind *Kind
	// AppendHead appends the beginning of a command that does the work of n.
	// The keys of all follow, then the rest of all, in the same order; see
	// Command.Key.
	AppendHead func(dst []byte, n int) []byte
}

// mergeMost bounds the commands that travel as one.
const mergeMost = 64

// A Form is a native form of a release: Head, the encoded key, Middle, and what
// follows the key in Command.Bytes. Kind.Judge reads its replies as it reads
// those of the command as given.
type Form struct {
	// Name names the form, and the optional step of conn.Config.Prelude that a
	// node accepts if it supports the form.
	Name         string
	Head, Middle []byte
}

// Append appends the native form of a command whose encoded key is at the given
// part of it. It does not keep its arguments.
func (f *Form) Append(dst, command []byte, key Part) []byte {
	dst = append(dst, f.Head...)
	dst = append(dst, command[key.From:key.To]...)
	dst = append(dst, f.Middle...)
	return append(dst, command[key.To:]...)
}
