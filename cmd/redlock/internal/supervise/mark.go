package supervise

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A mark in the environment finds the strays. Each run has an id, and what a
// command starts inherits the ids of all runs that it is under.
//
// An id is no secret and grants nothing: a process that copies one asks to be
// killed with that run. The environment of a wrapper does not hold its own id,
// and that of a guard holds none, so that neither kills the other, and the guard
// of an inner run still works when the outer run kills the inner wrapper.

// MarkVariable is the variable of the environment that holds the ids, the
// innermost last, with commas between them.
const MarkVariable = "REDLOCK_RUN"

const (
	idBytes   = 16 // random, so no two runs share an id
	mostOuter = 64 // runs around a run; more are a mistake or an attack
)

// newID returns a random id for a run.
func newID() string {
	var id [idBytes]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// isID reports whether a text can be an id. Nothing else is ever looked for: an
// empty id would match every process.
func isID(text string) bool {
	return len(text) == hex.EncodedLen(idBytes) && strings.Trim(text, "0123456789abcdef") == ""
}

// markUnder returns the variable's value for what a run starts, given the value
// in the run's own environment. A value that no run can have made is dropped:
// it must not grow, and nothing is looked for by it.
func markUnder(outer, id string) string {
	if !isMark(outer) {
		return id
	}
	return outer + "," + id
}

func isMark(text string) bool {
	if len(text) > mostOuter*(hex.EncodedLen(idBytes)+1) {
		return false
	}
	for id := range strings.SplitSeq(text, ",") {
		if !isID(id) {
			return false
		}
	}
	return true
}

// carries reports whether an environment, in which each setting ends with a
// zero byte, has the id as a whole element of the variable. If the variable is
// set twice, both count, since programs differ in which they pass on.
func carries(environ []byte, id string) bool {
	if !isID(id) {
		return false
	}
	for setting := range bytes.SplitSeq(environ, []byte{0}) {
		value, ok := bytes.CutPrefix(setting, []byte(MarkVariable+"="))
		if !ok {
			continue
		}
		for element := range bytes.SplitSeq(value, []byte{','}) {
			if string(element) == id {
				return true
			}
		}
	}
	return false
}
