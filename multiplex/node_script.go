package multiplex

import (
	"bytes"
	"slices"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// cure sends the scripts and then the round's command again, on the same
// connection, whether or not a caller still waits for it (R24). The round's
// vote waits for that reply. cure returns false if the lane is full, or if the
// command must not come behind what followed it (ExtendKind.Creates); then the
// vote has failed.
func (n *node) cure(r *round, why conn.Class) bool {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if !n.loadScriptsLocked() {
		return false
	}
	if r.extend != nil && r.extend.Creates {
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

// errorToNative handles an error reply to a native release if the script would
// have done otherwise. It returns false for an error that the script would have
// got as well: the release is then refused and owed.
//
// A key of another type is not our lock, as the script finds (R9). After any
// error about the command and not about the node's state, the script is sent on
// the same connection, whether or not a caller still waits (R24). If the node
// lacks the command, or denies it to us, the whole group drops the form at
// once, until this node shakes hands again.
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

// unlearn records that this connection's server no longer does what it did in
// the handshake.
func (n *node) unlearn(f *Form) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	n.server.Accepted = slices.DeleteFunc(slices.Clone(n.server.Accepted), func(step string) bool { return step == f.Name })
	g.agreeLocked()
}

// isSyntaxError tells a command that the server knows in another form from one
// that failed on its key.
func isSyntaxError(v resp.Value) bool {
	text, _ := bytes.CutPrefix(v.Bytes(), []byte("ERR "))
	return bytes.HasPrefix(text, []byte("syntax error")) || bytes.HasPrefix(text, []byte("wrong number of arguments"))
}
