package multiplex

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"unicode"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

// A refusal is the last error that a node replied. It is kept for nodes that
// refuse many times, in the same words: no refusal should allocate (R12).
type refusal struct {
	said  []byte // the beginning of the reply
	fault *fault
}

// longestSaid is how much of an error reply is compared.
const longestSaid = 200

// refusalOf returns the cause for an error reply to a round: a RefusalError,
// and what the node said (R31).
func (n *reader) refusalOf(v resp.Value) *fault {
	f := &n.refusal
	said := v.Bytes()[:min(len(v.Bytes()), longestSaid)]
	if f.fault == nil || !bytes.Equal(f.said, said) {
		f.said = append(f.said[:0], said...)
		f.fault = &fault{err: n.worded(v)}
	}
	return f.fault
}

// worded returns a RefusalError with the node's words.
func (n *reader) worded(v resp.Value) error {
	refusal := &RefusalError{Class: conn.ClassOf(v)}
	if n.conn == nil {
		return refusal
	}
	words := harmless(errtext.Text(n.conn.ServerError(v)))
	text := refusal.Error() + ": " + words
	if first, _, _ := strings.Cut(words, " "); first == refusal.Class.String() {
		text = strings.Replace(refusal.Error(), first, words, 1)
	}
	return errtext.Wrap(text, refusal, &resp.Error{Message: words})
}

// errorToNative handles an error reply to a native form if the command as given
// would have got another answer. It returns false for an error that stands: a
// release is then refused and owed, and any other vote has failed.
//
// A key of another type is not our lock, which is what the script would find
// (R9), and is in the way of a claim. After any error about the command and not
// about the node's state, the command as given is sent on the same connection
// (R24), awaited or not. A claim is not (R8). A node without the command, or
// the right to it, makes the whole group drop the form at once, up to this
// node's next handshake.
func (n *reader) errorToNative(r *round, v resp.Value) bool {
	class := conn.ClassOf(v)
	switch class {
	case conn.ClassWrongType:
		n.counters.countError(class)
		n.acceptVote(r, Refused)
		return true
	case conn.ClassUnknownCommand, conn.ClassNoPerm, conn.ClassOther:
		if class != conn.ClassOther || isSyntaxError(v) {
			n.dropForm(r.form)
		}
		return !r.verb.creates && n.cure(r, class)
	}
	return false
}

// dropForm records that the server no longer supports a form of its handshake.
func (n *node) dropForm(f *Form) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	n.server.Accepted = slices.DeleteFunc(slices.Clone(n.server.Accepted), func(step string) bool { return step == f.Name })
	g.forms.agree(g.nodes, g.live)
}

// banForm makes the group leave a form of claims for good if its reply could
// not be read. Any program may have written that text, and one above the bound
// of a reply ends the connection (R32). Another claim of the same key must not
// end the next one.
func (n *reader) banForm() {
	if n.laneNext.Load() == n.pos || n.pos >= n.sent.Load() {
		return // the reply was another's, or nothing was asked
	}
	g := n.group
	f := g.log.ring.Load().at(n.pos).form
	if f == nil || !f.Telling {
		return // only a form can be left
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forms.banned = append(g.forms.banned, f.Name)
}

// isSyntaxError reports whether the server knows the command only in another
// form, rather than failed on its key.
func isSyntaxError(v resp.Value) bool {
	text, _ := bytes.CutPrefix(v.Bytes(), []byte("ERR "))
	return bytes.HasPrefix(text, []byte("syntax error")) || bytes.HasPrefix(text, []byte("wrong number of arguments"))
}

// hasMoved reports whether a node of a cluster (Allow.Cluster) has given the
// key away with its slot. It does not hold the key any more, so releases of it
// end.
func hasMoved(v resp.Value) bool {
	switch conn.ClassOf(v) {
	case conn.ClassMoved, conn.ClassAsk:
		return true
	}
	return false
}

// warnOfMove adds to the node's warnings that a slot moved away, once for each
// connection, and reports it. With the other nodes still a quorum, nothing else
// would tell.
func (n *reader) warnOfMove(why *fault) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	warned := slices.ContainsFunc(n.reporter.remarks.of, func(w string) bool { return strings.HasPrefix(w, warnMoved) })
	if warned || !g.live.Has(n.index) {
		return
	}
	n.reporter.remarks.add(warnMoved + errtext.Text(why.err))
	n.reporter.told.cause = warnMoved // so that it is reported
	n.reporter.tellLocked()
}

// warnMoved begins the warning about a slot that moved away.
const warnMoved = "a slot has moved away from this node of a cluster, and keys with it: name masters that are on their own; it "

// harmless replaces the words of an error that may be a token quoted by the
// server (R27): those with letters and digits, and long ones. What follows
// MOVED and ASK is a slot and an address.
func harmless(message string) string {
	words := strings.Split(message, " ")
	moved := len(words) == 3 && slices.Contains([]string{"MOVED", "ASK"}, words[0])
	for i, word := range words {
		if moved && isAddress(word) {
			continue
		}
		if mixed(word) || len(word) > longestWord {
			words[i] = "***"
		}
	}
	return strings.Join(words, " ")
}

const digits = "0123456789"

// mixed reports whether a word has letters and digits.
func mixed(word string) bool {
	return strings.ContainsAny(word, digits) && strings.IndexFunc(word, unicode.IsLetter) >= 0
}

func isAddress(word string) bool {
	_, port, err := net.SplitHostPort(word)
	if err != nil || len(port) > len("65535") {
		return false
	}
	return strings.Trim(port, digits) == ""
}

// longestWord is shorter than a token.
const longestWord = 24
