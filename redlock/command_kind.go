package redlock

import (
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// The commands of the algorithm, and what their replies mean.
var (
	acquireKind = &multiplex.ClaimKind{Kind: multiplex.Kind{Judge: judgeSet}, Undo: releaseKind}
	extendKind  = &multiplex.ExtendKind{Kind: scripted, Merger: mergerOf(appendExtendMany)}
	releaseKind = &multiplex.ReleaseKind{Kind: scripted, Merger: mergerOf(appendReleaseMany), Native: releaseForms}
	scripted    = multiplex.Kind{Judge: judgeScript, Script: true}

	// releaseForms are the native commands that do what release.lua does (R25):
	// of Redis from 8.4 on, and of Valkey from 9.0 on. Extensions have none: at
	// maxmemory the script succeeds where SET … IFEQ is refused.
	releaseForms = []multiplex.Form{
		{Name: "DELEX", Head: []byte("*4\r\n$5\r\nDELEX\r\n"), Middle: []byte("$4\r\nIFEQ\r\n")},
		{Name: "DELIFEQ", Head: []byte("*3\r\n$7\r\nDELIFEQ\r\n")},
	}
)

// mergerOf returns what merges commands into the script call that the given
// function begins.
func mergerOf(appendHead func(dst []byte, n int) []byte) *multiplex.Merger {
	return &multiplex.Merger{Kind: multiplex.Kind{Judge: judgeOneOfMany, Script: true}, AppendHead: appendHead}
}

// judgeSet takes +OK as a grant and null as a refusal; no other reply answers
// SET (R16, R17).
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

// judgeScript takes 1 as a grant and 0 as a refusal; the scripts return nothing
// else (R16).
func judgeScript(v resp.Value) multiplex.Vote { return judgeInteger(v, 0, multiplex.Refused) }

// judgeInteger is judgeScript with a meaning of another integer.
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

// judgeOneOfMany is judgeScript for an element of a merged command's reply,
// where -1 is an error with this key.
func judgeOneOfMany(v resp.Value) multiplex.Vote {
	return judgeInteger(v, -1, multiplex.Failed)
}

// Commands of holds that the algorithm does not have.
var (
	// healKind is an extension that may set the key again. It is not merged:
	// every node that it went to must owe a release, and which nodes those are
	// is known at once only for a command that gets its place in the log at
	// once (R8).
	healKind = &multiplex.ExtendKind{Kind: multiplex.Kind{Judge: judgeHeal, Script: true}, Creates: true}
	// shortenKind is the release of a lock whose keys stay for a while. It
	// stands behind every renewal that was posted, since a renewal after it
	// would give the key its whole TTL again.
	shortenKind = &multiplex.ReleaseKind{Kind: scripted, Behind: true}
)

// judgeHeal is judgeScript, with 2 for a key that was set again (R10).
func judgeHeal(v resp.Value) multiplex.Vote {
	return judgeInteger(v, 2, multiplex.Restored)
}
