package multiplex

import (
	"time"

	"github.com/redmux/redmux/resp"
)

// A Kind describes a sort of command: what its replies mean and how its rounds are decided. Kinds are made once, as
// package variables, so that a round carries a pointer only.
type Kind struct {
	// Mode says when a round is decided.
	Mode Mode
	// Judge gives the vote that a reply is. It is called with any reply but an error, keeps nothing of it, and answers
	// Alien for a type that cannot answer the command, which ends the connection (R16).
	Judge func(resp.Value) Vote
	// Script marks commands that name a script by its digest: a node that lost it gets it again, and then the same
	// command again, on the same connection (R24).
	Script bool
	// Release marks commands that undo a claim: they are let in when others are refused, and a node that does not
	// confirm one owes it (R8).
	Release bool
	// Undo is the kind of a command's Undo.
	Undo *Kind
	// Merger, for releases and extensions, merges those that are awaited and wait for the same flush. If nil, none are.
	Merger *Merger
	// Native, for releases, are other forms of the same command, the best first: the first that every node has which is up
	// is what goes into the log, and merges nothing (R25). If nil, or where nodes have none in common, the command as given.
	Native []Form
	// Behind gives the command its place behind all that wait to be merged, which it would overtake otherwise: it may undo one
	// of those.
	Behind bool
	// Creates marks a script that may set a key which was not there. It is not sent again after a node has lost it, or it would
	// come behind the release that stood behind it, which may be native or know its script already, and leave a key that
	// nobody undoes (R8): its vote has failed, and the node gets the script for the next time.
	Creates bool
}

// A Command is what Ask and Tell send. It is read during the call only; its bytes are copied, so they may stand in the
// caller's frame.
type Command struct {
	Bytes []byte
	// Key says where in Bytes, or for a claim in Undo, the encoded key lies, for a kind that is merged or has a native form;
	// what follows it are the command's other arguments.
	Key Part
	// TTL is the life of the key that the command is about; it bounds vote timeouts (R6) and debts (R8).
	TTL time.Duration
	// Receipt is, for a release, what Ask returned for the claim that it undoes, and for an extension, for the claim that it
	// lengthens: see Receipt.Doubted.
	Receipt Receipt
	// Undo, for a claim, is the release that goes to every node if the round ends without a quorum of grants, or Late (R7).
	Undo []byte
	// Late, if not nil, is asked once a quorum granted: whether that was too late to be of use. It must not wait.
	Late func() bool
	// Queued, if not nil, is called by Ask once the command has its place in the log, for a kind without a Merger: whatever
	// is asked from then on stands behind it on every connection. It must not wait.
	Queued func()

	// Patience is how long votes on a posted command are waited for at least, where Config.VoteTimeout says nothing: who posts
	// may have time, and an answer that comes is better than the same question again. If zero, no longer than on others.
	Patience time.Duration
}

// A Part is a part of a command's bytes, from one offset to another.
type Part struct{ From, To int }

// A Receipt says where a claim went, so that its release knows who may hold the key.
type Receipt struct {
	// Sent are the nodes that the claim was queued for.
	Sent Set
	// Doubted are those of them that were quarantined then. A key that was set there proves nothing about what such a node
	// forgot before, so an extension of it does not count while the node is quarantined (R10, R23). Nor does it in another
	// quarantine later, though the key is older than that, unless whoever keeps the receipt ends the doubt.
	Doubted Set
	// Pos is its place in the log.
	Pos uint64
}

// A Merger makes one command of several of a kind.
type Merger struct {
	// Kind is the merged command's. Its Judge is asked for each element of the reply, an array of as many as were merged.
	Kind *Kind
	// AppendHead appends the beginning of the command that does the work of n. The keys of all follow, then the rest of
	// all, in the same order; see Command.Key.
	AppendHead func(dst []byte, n int) []byte
}

// mergeMost bounds the commands that travel as one.
const mergeMost = 64

// A Form is a native form of a release: the encoded key stands between Head and Middle, and what followed it in
// Command.Bytes stands behind them. Its replies are those of the command as it was given, as Kind.Judge takes them.
type Form struct {
	// Name names the form, and the optional step of conn.Config.Prelude that a node
	// accepts if it has the form.
	Name         string
	Head, Middle []byte
}

// Append appends the native form of a command whose encoded key lies in the given part of it. It keeps nothing.
func (f *Form) Append(dst, command []byte, key Part) []byte {
	dst = append(dst, f.Head...)
	dst = append(dst, command[key.From:key.To]...)
	dst = append(dst, f.Middle...)
	return append(dst, command[key.To:]...)
}
