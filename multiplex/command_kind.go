package multiplex

import "github.com/redmux/redmux/resp"

// A Kind says what the replies to a command mean. ClaimKind, ExtendKind and
// ReleaseKind begin with it.
//
// A kind must not change once it has been used. Most are made once, as package
// variables. If the replies say more than a vote, such as a number, a command
// can have a kind of its own, whose Judge keeps what it reads.
type Kind struct {
	// Judge returns the vote that a reply means. It is called with every reply
	// but errors, however late, and by several goroutines. It must not keep the
	// reply. It returns Alien for a type that cannot answer the command, which
	// ends the connection (R16).
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
	// Placing marks commands whose refusals are wanted from a quorum of nodes:
	// see the Mode of that name.
	Placing bool
}

// An ExtendKind describes commands about a key that is held, other than its
// release. Once no quorum can grant, a round still waits while refusals may
// prove that the key is not ours: "not yours" and "unknown" call for different
// actions (R9, R12).
type ExtendKind struct {
	Kind
	// Merger, if not nil, merges commands that wait for the same flush.
	Merger *Merger
	// Creates marks a script that may set a key that was not there. Like a
	// claim, it is never retried after NOSCRIPT.
	Creates bool
}

// A ReleaseKind describes commands that undo a claim. They are accepted when
// others are refused, and a node that does not confirm one owes it (R8). Their
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
	// Behind places the command behind those that wait to be merged, because it
	// may undo one of them and must not overtake it.
	Behind bool
}

// A Merger makes one command of several of the same kind.
type Merger struct {
	// Kind is the kind of the merged command. Its Judge is called for each
	// element of the reply, an array with one element for each key. The vote on
	// a command with several keys is Failed if one of them failed, and Granted
	// if all were granted.
	Kind
	// AppendHead appends the beginning of a command about n keys. The keys of
	// all merged commands follow, then the rest of all, in the same order; see
	// Encoded.Key. The rest of a command with several keys follows as often.
	AppendHead func(dst []byte, n int) []byte
}

// maxMerged bounds the keys of commands that travel as one.
const maxMerged = 64

// A Form is a native form of a command: Head, the encoded key, Middle, what
// follows the key, and Tail.
type Form struct {
	// Name names the form, and the optional steps of conn.Config.Prelude that a
	// node accepts if it supports the form.
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

// A verb is what a round does. It claims if neither extend nor release is set.
type verb struct {
	kind    *Kind
	claim   *ClaimKind // nil for a carrier, see placeMergedLocked
	extend  *ExtendKind
	release *ReleaseKind
	alone   bool // it is not merged, whatever its kind
}

func (k *ClaimKind) verb() verb { return verb{kind: &k.Kind, claim: k} }

func (k *ExtendKind) verb() verb { return verb{kind: &k.Kind, extend: k} }

func (k *ReleaseKind) verb() verb { return verb{kind: &k.Kind, release: k} }

func (v *verb) claims() bool { return v.extend == nil && v.release == nil }

// numbered reports whether the command gives keys fencing numbers.
func (v *verb) numbered() bool { return v.claim != nil && v.claim.Numbered }

// mode says when the round is decided.
func (v *verb) mode() Mode {
	switch {
	case v.claim != nil && v.claim.Placing:
		return Placing
	case v.claims():
		return Claiming
	}
	return Confirming
}

// native returns the native forms of the command.
func (v *verb) native() []Form {
	switch {
	case v.claim != nil:
		return v.claim.Native
	case v.release != nil:
		return v.release.Native
	}
	return nil
}

// telling reports whether a refusal of the command, sent in a form or as given,
// says more than no.
func (v *verb) telling(form *Form) bool {
	if form != nil {
		return form.Telling
	}
	return v.claim != nil && v.claim.Telling
}

// merger returns what merges the command with others; nil if it travels alone.
func (v *verb) merger() *Merger {
	switch {
	case v.alone:
		return nil
	case v.release != nil:
		return v.release.Merger
	case v.extend != nil:
		return v.extend.Merger
	}
	return nil
}
