package multiplex

import (
	"sync"
	"time"

	"github.com/redmux/redmux/resp"
)

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
	// Ends is when the votes of Receipt.Voted end. Only extensions on nodes
	// that fail over need it. If zero, they have ended.
	Ends time.Time
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
	// Voted is the set of nodes whose grants had made the lock at the
	// decision. After a later extension the caller sets it to the nodes that
	// granted that one. On a node that fails over, an extension may count
	// early because the node's own vote still runs, whichever server gave it.
	Voted Set
	// Pos is the claim's position in the log.
	Pos uint64
}

// A Kind says what the replies to a command mean. ClaimKind, ExtendKind and
// ReleaseKind begin with it.
//
// A kind must not change once it has been used. Most are made once, as package
// variables. A command can have a kind of its own, for replies with more than a
// vote, such as a number: its Judge keeps what it reads.
type Kind struct {
	// Judge returns the vote that a reply means. It is called with every
	// reply but errors, however late, and by several goroutines. It must
	// not keep the reply. It returns Alien for a type of reply that cannot
	// answer the command. That ends the connection (R16).
	Judge func(resp.Value) Vote
	// Script marks commands that name a script by its digest. If a node has
	// lost the script, it gets the script and the same command again, on the
	// same connection (R24). A command that may set a key is not sent again:
	// its release may have run, and then none would undo it (R8). Its vote
	// fails, and the node has the script for the next time.
	Script bool
}

// A ClaimKind describes commands that set a key. A round is decided as soon as
// a quorum granted, or no quorum can grant any more (R5).
//
// A claim is never sent to a node a second time, neither after NOSCRIPT nor
// after an error to a native form: the queued release may already have run, and
// the second claim would leave a key that is never released (R8). The vote has
// failed, and the node gets the scripts, or the group leaves the form, for the
// next time.
type ClaimKind struct {
	Kind
	Undo *ReleaseKind // of Claim.Undo
	// Native lists other forms, as ReleaseKind.Native does.
	Native []Form
	// Telling marks commands whose refusals say more than no; see Claim.Told.
	// It does not apply to native forms.
	Telling bool
	// Numbered marks commands that give keys fencing numbers. They count only on
	// nodes that have a floor (Config.Floors).
	Numbered bool
	// Placing marks commands that want refusals from a quorum of nodes: see
	// the Mode of that name.
	Placing bool

	lazy lazyVerb
}

// An ExtendKind describes commands about a key that is held, other than its
// release. Without hope of a quorum, a round still waits for refusals that may
// prove that the key is not ours. "Not yours" and "unknown" call for different
// actions (R9, R12).
type ExtendKind struct {
	Kind
	// Merger, if not nil, merges commands that wait for the same flush.
	Merger *Merger
	// Creates marks a script that may set a missing key. Like a claim, it
	// is never retried after NOSCRIPT.
	Creates bool

	lazy lazyVerb
}

// A ReleaseKind describes commands that undo a claim. They are accepted even in
// a group that refuses others. A node owes one until it confirms it (R8). Their
// rounds are decided as those of an ExtendKind.
type ReleaseKind struct {
	Kind
	// Merger, if not nil, merges awaited and posted commands that wait for the
	// same flush.
	Merger *Merger
	// Native lists other forms, the best first. The first that all live nodes
	// support goes into the log, unmerged (R25). If nil, or if the nodes share
	// none, the command goes as given.
	Native []Form
	// Behind places the command behind those that wait to be merged. It may
	// undo one of them, and must not overtake it.
	Behind bool

	lazy, alone lazyVerb
}

// A Merger makes one command of several of the same kind.
type Merger struct {
	// Kind is the kind of the merged command. Its Judge is called for each
	// element of the reply, an array with one element for each key. The
	// vote on a command with several keys is Failed with one failed key,
	// and Granted if all were granted.
	Kind
	// AppendHead appends the beginning of a command about n keys. The keys of
	// all merged commands follow, then the rest of all, in the same order; see
	// Encoded.Key. The rest of a command with several keys follows as often.
	AppendHead func(dst []byte, n int) []byte

	lazy lazyVerb
}

// maxMerged bounds the keys of commands that travel as one.
const maxMerged = 64

// A Form is a native form of a command: Head, the encoded key, Middle, what
// follows the key, and Tail.
type Form struct {
	// Name names the form, and the optional steps of conn.Config.Prelude. A
	// node that supports the form accepts them.
	Name string
	// Head, Middle and Tail are encoded bytes.
	Head, Middle, Tail []byte
	// Judge reads the replies to this form, as Kind.Judge does those to the
	// command as given, which then must not be repeated in place of the form.
	// If nil, Kind.Judge reads both.
	Judge func(resp.Value) Vote
	// Telling marks a form of claims whose refusals say more than no; see
	// Claim.Told.
	Telling bool
}

// Append appends the native form of a command. It does not keep its arguments.
func (f *Form) Append(dst []byte, command Encoded) []byte {
	dst = append(dst, f.Head...)
	dst = append(dst, command.Bytes[command.Key.From:command.Key.To]...)
	dst = append(dst, f.Middle...)
	dst = append(dst, command.Bytes[command.Key.To:]...)
	return append(dst, f.Tail...)
}

// A verb is what the engine asks of a kind: the same questions of all kinds,
// answered once for each. It does not change.
type verb struct {
	judge    func(resp.Value) Vote
	script   bool // see Kind.Script
	claims   bool // it is a ClaimKind's
	releases bool // it is a ReleaseKind's
	creates  bool // the command may set a key that was not there
	numbered bool // see ClaimKind.Numbered
	tells    bool // see ClaimKind.Telling
	behind   bool // see ReleaseKind.Behind
	kept     bool // the command may be sent again, or in another form
	mode     Mode
	native   []Form
	merger   *Merger // nil for a command that travels alone
}

// telling reports whether a refusal of the command, sent in a form or as given,
// says more than no.
func (v *verb) telling(form *Form) bool {
	if form != nil {
		return form.Telling
	}
	return v.tells
}

// A lazyVerb is made at its first use.
type lazyVerb struct {
	once sync.Once
	made verb
}

func (l *lazyVerb) get(of func() verb) *verb {
	l.once.Do(func() { l.made = of() })
	return &l.made
}

func (k *ClaimKind) verb() *verb {
	return k.lazy.get(func() verb {
		v := verb{
			judge: k.Judge, script: k.Script, claims: true, creates: true, numbered: k.Numbered, tells: k.Telling,
			kept: k.Script || len(k.Native) > 0, native: k.Native, mode: Claiming,
		}
		if k.Placing {
			v.mode = Placing
		}
		return v
	})
}

func (k *ExtendKind) verb() *verb {
	return k.lazy.get(func() verb {
		return verb{judge: k.Judge, script: k.Script, creates: k.Creates, kept: k.Script, mode: Confirming, merger: k.Merger}
	})
}

func (k *ReleaseKind) verb() *verb {
	return k.lazy.get(func() verb {
		v := *k.unmerged()
		v.merger = k.Merger
		return v
	})
}

// unmerged returns the verb of a release that is not merged, whatever its kind.
func (k *ReleaseKind) unmerged() *verb {
	return k.alone.get(func() verb {
		return verb{judge: k.Judge, script: k.Script, releases: true, behind: k.Behind, kept: true, native: k.Native, mode: Confirming}
	})
}

func (m *Merger) verb() *verb {
	return m.lazy.get(func() verb { return verb{judge: m.Judge, script: m.Script, mode: Confirming} })
}
