package multiplex

import (
	"bytes"
	"slices"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// cure sends the scripts and then the round's command again, on the same
// connection, whether or not a caller still waits for it (R24). The round's
// vote comes with that reply. cure returns false for a full lane, and for a
// command that must not be executed after later ones (ClaimKind,
// ExtendKind.Creates). Then the vote has failed.
func (n *node) cure(r *round, why conn.Class) bool {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if !n.loadScriptsLocked() {
		return false
	}
	if r.verb.creates {
		g.promptLocked()
		return false
	}
	if !n.lane.add(laneEntry{purpose: again, round: r}, r.appendCommand(nil)) {
		return false
	}
	r.hold()
	n.counters.cured++
	n.counters.countError(why)
	g.promptLocked()
	return true
}

// loadScriptsLocked queues the scripts in the lane, unless they are there
// already. It returns false if the lane is full.
func (n *node) loadScriptsLocked() bool {
	if n.lane.loading() {
		return true
	}
	for _, script := range n.group.config.Cure {
		if !n.lane.add(laneEntry{purpose: load}, script) {
			return false
		}
	}
	return true
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
