package conn

import (
	"bytes"
	"errors"
	"unicode"

	"github.com/redmux/redmux/resp"
)

// Class is the kind of a server's error (R24): why the node refused the
// command. It never means that the connection is unsound.
type Class uint8

// The classes.
const (
	ClassNone           Class = iota // no error at all
	ClassOther                       // an error of no class below
	ClassNoScript                    // the script is not loaded
	ClassLoading                     // the node is loading its data set
	ClassReadOnly                    // the node is a replica
	ClassOOM                         // maxmemory is reached
	ClassMisconf                     // the node cannot persist
	ClassNoReplicas                  // min-replicas-to-write is not met
	ClassNoAuth                      // not authenticated
	ClassWrongPass                   // wrong user or password
	ClassNoPerm                      // the ACL forbids it, in a script too
	ClassMoved                       // the slot is another cluster node's
	ClassClusterDown                 // the cluster has no quorum or lacks slots
	ClassBusy                        // a script runs too long
	ClassMasterDown                  // a replica without its master
	ClassAsk                         // the key has moved with its slot, or will
	ClassTryAgain                    // some of the keys have moved
	ClassWrongType                   // the key is of another type
	ClassNoProto                     // HELLO with an unsupported version
	ClassMaxClients                  // maxclients is reached; sent on connecting
	ClassUnavailable                 // a proxy has no server at the moment
	ClassUnknownCommand              // the node has no such command
)

// classNames are the prefixes of the errors. The first two and the last three
// classes have no prefix of their own, only a name.
var classNames = [...]string{
	ClassNone:           "",
	ClassOther:          "ERR",
	ClassNoScript:       "NOSCRIPT",
	ClassLoading:        "LOADING",
	ClassReadOnly:       "READONLY",
	ClassOOM:            "OOM",
	ClassMisconf:        "MISCONF",
	ClassNoReplicas:     "NOREPLICAS",
	ClassNoAuth:         "NOAUTH",
	ClassWrongPass:      "WRONGPASS",
	ClassNoPerm:         "NOPERM",
	ClassMoved:          "MOVED",
	ClassClusterDown:    "CLUSTERDOWN",
	ClassBusy:           "BUSY",
	ClassMasterDown:     "MASTERDOWN",
	ClassAsk:            "ASK",
	ClassTryAgain:       "TRYAGAIN",
	ClassWrongType:      "WRONGTYPE",
	ClassNoProto:        "NOPROTO",
	ClassMaxClients:     "max clients",
	ClassUnavailable:    "unavailable",
	ClassUnknownCommand: "unknown command",
}

// String returns the prefix that servers use, or a name where there is none.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "ERR"
}

// Passing reports whether the class is BUSY, LOADING or MASTERDOWN, or that of
// a proxy without a server: the node cannot answer at the moment. That says
// nothing about its knowledge of the command, or the user's right to it.
// Outlook knows more classes that may pass.
func (c Class) Passing() bool {
	return c == ClassBusy || c == ClassLoading || c == ClassMasterDown || c == ClassUnavailable
}

// ClassOf returns the class of a reply, or ClassNone if it is no error. It does
// not allocate.
func ClassOf(v resp.Value) Class {
	if !v.IsError() {
		return ClassNone
	}
	return classify(v.Bytes())
}

// ErrorClass returns the class of the node's error in err's chain, or ClassNone
// if there is none.
func ErrorClass(err error) Class {
	if errors.Is(err, ErrCredentials) {
		return ClassNone // they may come from another server, with its error
	}
	var step *StepError
	if errors.As(err, &step) && step.Class != ClassNone {
		return step.Class
	}
	var refusal *resp.Error
	if errors.As(err, &refusal) {
		return classify([]byte(refusal.Message))
	}
	return ClassNone
}

func classify(message []byte) Class {
	prefix, text, _ := bytes.Cut(message, []byte(" "))
	for c := ClassNoScript; c <= ClassNoProto; c++ {
		if string(prefix) == classNames[c] {
			return c
		}
	}
	switch {
	case string(prefix) != "ERR":
		text = message // of some proxies, which put no prefix before it
		if prefixed(prefix) {
			return ClassOther
		}
	case bytes.HasPrefix(text, []byte("max number of clients")):
		// In cluster mode "+ cluster connections" follows.
		return ClassMaxClients
	case bytes.HasPrefix(text, []byte("unknown command")):
		return ClassUnknownCommand
	case bytes.HasPrefix(text, []byte("invalid password")):
		return ClassWrongPass // before 6.0
	case bytes.HasPrefix(text, []byte("ACL failure in script")), bytes.Contains(text, []byte("The user executing the script can't")):
		// A command within a script: from 7.2 on, and in older versions.
		return ClassNoPerm
	}
	for _, words := range unavailable {
		if bytes.Contains(text, words) {
			return ClassUnavailable
		}
	}
	return ClassOther
}

// unavailable are parts of what proxies without a server say: envoy ("no
// upstream host", "upstream failure"), predixy ("no server avaliable", "server
// connection close"), codis ("backend conn failure"), and twemproxy, in the
// words of the C library.
var unavailable = [][]byte{
	[]byte("upstream"), []byte("backend"), []byte("no server"), []byte("server connection"), []byte("deliver request fail"),
	[]byte("onnection refused"), []byte("onnection reset"), []byte("timed out"), []byte("timeout"), []byte("unreachable"), []byte("Host is down"),
	[]byte("temporar"), []byte("unavailable"), []byte("ot ready"),
}

// prefixed reports whether the first word of an error is a prefix, as NOPERM
// is.
func prefixed(word []byte) bool {
	return len(word) > 0 && word[0] >= 'A' && word[0] <= 'Z' && !bytes.ContainsFunc(word, unicode.IsLower)
}
