package multiplex

import (
	"bytes"
	"slices"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// cure sends the scripts and then the round's command again, on the same connection, whether or not anybody waits for it
// (R24). The round's vote waits for that reply. It reports false when the lane is full, or the command must not come behind
// what followed it (Kind.Creates); then the vote is a failed one.
func (n *node) cure(r *round, why conn.Class) bool {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if !n.lane.loading() {
		for _, script := range g.config.Cure {
			if !n.lane.add(laneEntry{purpose: load}, script) {
				return false
			}
		}
	}
	if r.kind.Creates {
		g.promptLocked()
		return false
	}
	if !n.lane.add(laneEntry{purpose: again, round: r}, r.command) {
		return false
	}
	r.hold()
	n.counters.cured++
	n.counters.countError(why)
	g.promptLocked()
	return true
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
	g.agreeLocked()
}

// isSyntaxError tells a command that the server knows otherwise from one that did not like its key.
func isSyntaxError(v resp.Value) bool {
	text, _ := bytes.CutPrefix(v.Bytes(), []byte("ERR "))
	return bytes.HasPrefix(text, []byte("syntax error")) || bytes.HasPrefix(text, []byte("wrong number of arguments"))
}
