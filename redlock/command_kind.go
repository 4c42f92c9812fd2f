package redlock

import (
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// The commands of the algorithm, and what their replies mean.
var (
	acquireKind = &multiplex.ClaimKind{Kind: multiplex.Kind{Judge: judgeSet}, Undo: releaseKind}
	ownedKind   = &multiplex.ClaimKind{Kind: acquireKind.Kind, Undo: releaseKind, Native: claimForms}
	extendKind  = &multiplex.ExtendKind{Kind: scripted, Merger: mergerOf(appendExtendMany)}
	releaseKind = &multiplex.ReleaseKind{Kind: scripted, Merger: mergerOf(appendReleaseMany), Native: releaseForms}
	scripted    = multiplex.Kind{Judge: judgeScript, Script: true}

	// The commands of the locks of a Locker: readers, writers, permits and fair
	// locks. Writers and fair locks are extended as plain locks are.
	lockerKind        = &multiplex.ClaimKind{Kind: acquireAllKind.Kind, Undo: releaseLockerKind, Telling: true}
	fairKind          = &multiplex.ClaimKind{Kind: multiplex.Kind{Judge: judgeFair, Script: true}, Undo: releaseLockerKind, Telling: true, Placing: true}
	downgradeKind     = &multiplex.ClaimKind{Kind: scripted, Undo: releaseLockerKind}
	extendLockerKind  = &multiplex.ExtendKind{Kind: scripted}
	releaseLockerKind = &multiplex.ReleaseKind{Kind: scripted}

	// releaseForms are the native commands that do what release.lua does (R25):
	// of Redis from 8.4 and Valkey from 9.2 on, and of Valkey from 9.0 on.
	// Extensions have none: at maxmemory the script succeeds where SET … IFEQ
	// is refused.
	releaseForms = []multiplex.Form{
		{Name: "DELEX", Head: []byte("*4\r\n$5\r\nDELEX\r\n"), Middle: []byte("$4\r\nIFEQ\r\n")},
		{Name: "DELIFEQ", Head: []byte("*3\r\n$7\r\nDELIFEQ\r\n")},
	}
	// claimForms are the forms of SET for clients with Config.Owner: SET … NX
	// PX … GET, of Redis from 7.0 on, replies with the value that is in the
	// way.
	claimForms = []multiplex.Form{
		{Name: "SET NX GET", Head: []byte("*7\r\n$3\r\nSET\r\n"), Tail: []byte("$3\r\nGET\r\n"), Judge: judgeSetGet, Telling: true},
	}
)

// mergerOf returns a Merger that merges commands into the script call that the
// given function begins.
func mergerOf(appendHead func(dst []byte, n int) []byte) *multiplex.Merger {
	return &multiplex.Merger{Kind: multiplex.Kind{Judge: judgeOneOfMany, Script: true}, AppendHead: appendHead}
}

// judgeSet returns Granted for +OK and Refused for null. No other reply can
// answer SET (R16, R17).
func judgeSet(v resp.Value) multiplex.Vote {
	switch {
	case v.IsOK():
		return multiplex.Granted
	case v.IsNull() && v.Type() != resp.Array:
		return multiplex.Refused
	default:
		return multiplex.Alien
	}
}

// judgeSetGet reads the reply to SET … NX GET, where null means the opposite:
// there was no value, so the key was set. A value is a refusal. +OK, which a
// server replies that ignores GET, and anything else answers nothing (R16,
// R17).
func judgeSetGet(v resp.Value) multiplex.Vote {
	switch {
	case v.IsNull() && v.Type() != resp.Array:
		return multiplex.Granted
	case v.Type() == resp.BulkString:
		return multiplex.Refused
	default:
		return multiplex.Alien
	}
}

// judgeScript returns Granted for 1 and Refused for 0. The scripts return
// nothing else (R16).
func judgeScript(v resp.Value) multiplex.Vote { return judgeInteger(v, 0, multiplex.Refused) }

// judgeInteger is judgeScript for a script that may also return another
// integer.
func judgeInteger(v resp.Value, other int64, meaning multiplex.Vote) multiplex.Vote {
	n, ok := v.Int64()
	switch {
	case ok && n == 1:
		return multiplex.Granted
	case ok && n == 0:
		return multiplex.Refused
	case ok && n == other:
		return meaning
	default:
		return multiplex.Alien
	}
}

// judgeAll is judgeScript for claims that are refused with a text, which says
// what is in the way.
func judgeAll(v resp.Value) multiplex.Vote {
	if blocks(v) {
		return multiplex.Refused
	}
	if vote := judgeScript(v); vote == multiplex.Granted {
		return vote
	}
	return multiplex.Alien
}

// blocks reports whether a value is a text with which the scripts that set a
// lock's keys refuse.
func blocks(v resp.Value) bool {
	if v.Type() != resp.BulkString || v.IsNull() {
		return false
	}
	i, _ := readBlocker(v.Bytes())
	return i > 0
}

// judgeOneOfMany is judgeScript for an element of a merged command's reply,
// where -1 is an error with this key.
func judgeOneOfMany(v resp.Value) multiplex.Vote {
	return judgeInteger(v, -1, multiplex.Failed)
}

// Commands of holds that are no part of the algorithm.
var (
	// healKind is an extension that may set the key again. It is not merged:
	// every node that it goes to must owe a release, and only for a command
	// that gets its place in the log at once are these nodes known at once
	// (R8).
	healKind = &multiplex.ExtendKind{Kind: multiplex.Kind{Judge: judgeHeal, Script: true}, Creates: true}
	// shortenKind is the release of a lock whose keys stay for a while. It
	// stands behind every renewal that was posted, since a renewal behind it
	// would give the key its whole TTL again.
	shortenKind = &multiplex.ReleaseKind{Kind: scripted, Behind: true}
)

// judgeHeal is judgeScript, with 2 for a key that was set again (R10).
func judgeHeal(v resp.Value) multiplex.Vote {
	return judgeInteger(v, 2, multiplex.Restored)
}
