package wire

import (
	"bytes"
	"strconv"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// JudgeSet returns Granted for +OK and Refused for null. No other reply can
// answer SET (R16, R17).
func JudgeSet(v resp.Value) multiplex.Vote {
	switch {
	case v.IsOK():
		return multiplex.Granted
	case v.IsNull() && v.Type() != resp.Array:
		return multiplex.Refused
	default:
		return multiplex.Alien
	}
}

// JudgeSetGet reads the reply to SET … NX GET. Here null means the opposite:
// there was no value, so the key was set. A value is a refusal. +OK, from a
// server that ignores GET, and anything else answers nothing (R16, R17).
func JudgeSetGet(v resp.Value) multiplex.Vote {
	switch {
	case v.IsNull() && v.Type() != resp.Array:
		return multiplex.Granted
	case v.Type() == resp.BulkString:
		return multiplex.Refused
	default:
		return multiplex.Alien
	}
}

// JudgeScript returns Granted for 1 and Refused for 0. The scripts return
// nothing else (R16).
func JudgeScript(v resp.Value) multiplex.Vote { return judgeInteger(v, 0, multiplex.Refused) }

// JudgeHeal is JudgeScript, with 2 for a key set again (R10).
func JudgeHeal(v resp.Value) multiplex.Vote {
	return judgeInteger(v, 2, multiplex.Restored)
}

// judgeOneOfMany is JudgeScript for an element of a merged command's reply,
// where -1 is an error with this key.
func judgeOneOfMany(v resp.Value) multiplex.Vote {
	return judgeInteger(v, -1, multiplex.Failed)
}

// judgeInteger is JudgeScript for a script with another integer to return.
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

// JudgeTelling is JudgeScript for claims refused with a text: it says what is
// in the way.
func JudgeTelling(v resp.Value) multiplex.Vote {
	if Refuses(v) {
		return multiplex.Refused
	}
	if vote := JudgeScript(v); vote == multiplex.Granted {
		return vote
	}
	return multiplex.Alien
}

// Refuses reports whether a value is a refusal's text, from a script for a
// lock's keys.
func Refuses(v resp.Value) bool {
	if v.Type() != resp.BulkString || v.IsNull() {
		return false
	}
	i, _ := ReadRefusal(v.Bytes())
	return i > 0
}

// ReadRefusal reads the text of a script's refusal. It begins with a number
// from 1 on: the place of the key in the way among those of several resources
// or of a read/write lock, the code of ask_fair.lua for a fair lock, and
// otherwise 1. The rest is the value of the key, "" if hidden, or what the
// script says instead. The number is 0 for a text of another form.
func ReadRefusal(text []byte) (i int, value []byte) {
	place, value, found := bytes.Cut(text, Blank)
	n, err := strconv.ParseUint(string(place), 10, 8)
	if !found || err != nil || n > MaxResources {
		return 0, nil
	}
	return int(n), value
}

// MaxResources is the most resources of one lock, and so the highest number in
// the text of a refusal.
const MaxResources = 64

// Blank separates the parts of a refusal's text.
var Blank = []byte(" ")
