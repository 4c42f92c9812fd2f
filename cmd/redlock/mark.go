package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A mark in the environment finds what has left the command's process group, as timeout(1) and setsid(1) do within a script: each
// run has an id, and what a command starts inherits the ids of the run that it is under, and of those that this one is under.
//
// It is no secret and allows nothing: who takes an id that is not his asks to be killed with that run. An id never is in the
// environment of the wrapper that made it up, and none at all in that of a guard, so that neither finds the other: the guard of
// an inner run does its work where an outer run kills the inner wrapper.

// markVariable holds the ids, the innermost last, with commas between them.
const markVariable = "REDLOCK_RUN"

const (
	idBytes   = 16 // random, so that no two runs have one id
	mostOuter = 64 // runs around a run; more are a mistake, or somebody's trick
)

// newID makes up the id of a run.
func newID() string {
	var id [idBytes]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// isID tells whether a text can be an id. What is none is never looked for: everybody would have an empty one.
func isID(text string) bool {
	return len(text) == hex.EncodedLen(idBytes) && strings.Trim(text, "0123456789abcdef") == ""
}

// markUnder is the variable's value for what a run starts, where outer is the one that the run itself has. One that no run has
// made is dropped as a whole: it must not grow, and nobody looks for it.
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

// carries tells whether an environment, in which each setting ends with a zero byte, has the id as a whole element of the
// variable. Where that is set twice both count: which of them a program hands on is not known.
func carries(environ []byte, id string) bool {
	if !isID(id) {
		return false
	}
	for setting := range bytes.SplitSeq(environ, []byte{0}) {
		value, ok := bytes.CutPrefix(setting, []byte(markVariable+"="))
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
