package multiplex

import (
	"bytes"
	"slices"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// Native forms (R25): newer servers have a command of their own that deletes a key if it holds the token. It costs them
// less than half of what the script costs.
//
// A round's command is the script's form all its life: debts, cures and repetitions are of that form, which every node
// understands. Only what goes into the log may be of a native form, and that is settled when the round gets its place, under
// the mutex, by what all nodes have in common that are live at that moment. No later join can make it wrong: a node that
// joins begins at the head of the log, behind every round and every byte that was queued before, so that whatever is
// queued after agree() has left a form is the first that it gets. What nobody can foresee, a node that forgets its command
// or a user who loses the right to it, is an error reply: see errorToNative.

// A Form is a native form of a release: the encoded key stands between Head and Middle, and what followed it in
// Command.Bytes stands behind them. Its replies are those of the command as it was given, as Kind.Judge takes them.
type Form struct {
	// Name names the form, and the optional step of conn.Config.Prelude that a node
	// accepts if it has the form.
	Name         string
	Head, Middle []byte
}

// Append appends the native form of a command whose encoded key lies in the given part of it. It keeps nothing.
func (f *Form) Append(dst, command []byte, key Part) []byte {
	dst = append(dst, f.Head...)
	dst = append(dst, command[key.From:key.To]...)
	dst = append(dst, f.Middle...)
	return append(dst, command[key.To:]...)
}

// FormOf names the native form in which commands of a kind go to the nodes that are up now, "" for none. It may change with
// every node that comes or goes, and with every reply.
func (g *Group) FormOf(kind *Kind) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.form(kind); f != nil {
		return f.Name
	}
	return ""
}

// agree settles which steps of the handshake all live nodes accepted, and so which forms they have in common. Whoever
// changes live calls it before letting go of the mutex, so that a form is left before a node without it gets its first
// command (R25). The caller holds the mutex.
func (g *Group) agree() {
	g.accepted = nil
	for i, n := range g.nodes {
		switch {
		case !g.live.Has(i):
		case g.accepted == nil:
			g.accepted = append([]string{}, n.server.Accepted...)
		default:
			g.accepted = slices.DeleteFunc(g.accepted, func(step string) bool { return !n.accepts(step) })
		}
	}
}

// form is the best form of a kind that all live nodes have, nil if there is none. The caller holds the mutex.
func (g *Group) form(kind *Kind) *Form {
	for i := range kind.Native {
		if f := &kind.Native[i]; slices.Contains(g.accepted, f.Name) {
			return f
		}
	}
	return nil
}

// formOf is the form in which a round is to go into the log. One whose key is not known goes as it is.
func (g *Group) formOf(r *round) *Form {
	if r.key.To == 0 {
		return nil
	}
	return g.form(r.kind)
}

// errorToNative deals with an error that a node answers a native release with, where the script would have done otherwise.
// It reports false for one that the script would have got as well: then the release is refused and owed.
//
// A key of another type is not our lock, as the script finds (R9). To any error that is about the command, not about the
// node's state, the script is sent on the same connection, whoever waits for it or nobody (R24); and where the node has no
// such command, or not for us, the whole group leaves the form at once, until this node shakes hands anew.
func (n *node) errorToNative(r *round, v resp.Value) bool {
	class := conn.ClassOf(v)
	switch class {
	case conn.ClassWrongType:
		n.counters.countError(class)
		n.confirm(r, Refused)
		return true
	case conn.ClassUnknownCommand, conn.ClassNoPerm, conn.ClassOther:
		if class != conn.ClassOther || isSyntaxError(v) {
			n.unlearn(r.form)
		}
		return n.cure(r, class)
	}
	return false
}

// unlearn notes that this connection's server does not do what it did in the handshake.
func (n *node) unlearn(f *Form) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	n.server.Accepted = slices.DeleteFunc(slices.Clone(n.server.Accepted), func(step string) bool { return step == f.Name })
	g.agree()
}

// accepts reports whether the node accepted an optional step of its handshake. The caller must hold the group's mutex.
func (n *node) accepts(step string) bool { return slices.Contains(n.server.Accepted, step) }

// isSyntaxError tells a command that the server knows otherwise from one that did not like its key.
func isSyntaxError(v resp.Value) bool {
	text, _ := bytes.CutPrefix(v.Bytes(), []byte("ERR "))
	return bytes.HasPrefix(text, []byte("syntax error")) || bytes.HasPrefix(text, []byte("wrong number of arguments"))
}
