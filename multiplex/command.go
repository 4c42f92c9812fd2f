package multiplex

import "time"

// An Encoded command is the bytes that go to the nodes.
type Encoded struct {
	Bytes []byte // one command, as package resp encodes it
	// Key is where the encoded key lies in Bytes, or the keys. It must be set if
	// the kind is merged or has a native form. The command's other arguments
	// follow it.
	Key Part
}

// A Part is a range of a command's bytes, from one offset up to another.
type Part struct {
	From, To int
	// Keys is how many keys lie there. If zero, there is one. No command with
	// several has a native form.
	Keys int
}

// count returns how many keys lie there.
func (p *Part) count() int { return max(1, p.Keys) }

// A Claim is a command that sets a key. It is only read during the call, and
// its bytes are copied, so they may lie in the caller's frame.
type Claim struct {
	Bytes []byte // the encoded command
	Key   Part   // as Encoded.Key, if the kind has a native form
	// TTL is the lifetime of the key. It bounds vote timeouts (R6) and debts
	// (R8).
	TTL time.Duration
	// Undo appends the release that goes to every node if the round gets no
	// quorum of grants (R7). Its kind is ClaimKind.Undo. It is called only
	// then, with an empty slice, and must not wait. If nil, nothing is
	// undone.
	Undo func(dst []byte) Encoded
	// Told, if not nil, is called right before Claim returns ErrRefused,
	// for each node that refused with a text, or an array with one
	// (ClaimKind.Telling). The text is valid until Told returns. Told must
	// not wait.
	Told func(node int, text []byte)
}

// A Command is an extension or a release: a command about a key that was
// claimed. Like a Claim, it is only read during the call.
type Command struct {
	Encoded
	// TTL is the longest lifetime that the key may have. It bounds vote
	// timeouts (R6) and debts (R8).
	TTL time.Duration
	// Receipt is what Group.Claim returned; see Receipt.Doubted.
	Receipt Receipt
}

// A Receipt says where a claim went. Its release learns from it which nodes may
// hold the key.
type Receipt struct {
	// Sent is the set of nodes that the claim was queued for.
	Sent Set
	// Doubted is the subset of Sent in quarantine at that time. A key set
	// there says nothing about what such a node forgot before, so an
	// extension of it does not count while the node is quarantined (R10,
	// R23). Until the caller clears the doubt in its receipt, this also
	// applies to a later quarantine, even of an older key.
	Doubted Set
	// Pos is the claim's position in the log.
	Pos uint64
}
