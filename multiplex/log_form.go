package multiplex

import "slices"

// Native forms (R25): newer servers have a command that deletes a key with a
// given token, at less than half of the script's cost, and a SET that returns
// the value in its way.
//
// A round's command always keeps the form as given, which every node
// understands: debts, cures and repetitions use it. Only the bytes in the log
// may have a native form, and only replies to these are read by the judge of
// that form. The form is chosen under the mutex, together with the round's
// place, by what all live nodes support at that moment. A later join cannot
// make it wrong. The node begins at the head of the log, behind every round and
// byte queued before, so its first command comes after agree has dropped a
// missing form. A later loss of the command, or of the right to it, shows in an
// error reply; see errorToNative.

// NativeForm returns the name of the native form of a kind's commands to the
// nodes now up, or "" for none. It may change with every node that joins or
// leaves, and with every reply.
func (g *Group) NativeForm(kind *ReleaseKind) string {
	g.made()
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.forms.first(kind.Native); f != nil {
		return f.Name
	}
	return ""
}

// agree computes which steps of the handshake all live nodes accepted, and so
// their common forms. It must be called after each change of live, before the
// mutex is released, so that a form is dropped before a node without it gets
// its first command (R25).
func (a *agreed) agree(nodes []*node, live Set) {
	a.accepted = nil
	for i, n := range nodes {
		switch {
		case !live.Has(i):
		case a.accepted == nil:
			a.accepted = append([]string{}, n.server.Accepted...)
		default:
			a.accepted = slices.DeleteFunc(a.accepted, func(step string) bool {
				return !slices.Contains(n.server.Accepted, step)
			})
		}
	}
}

// first returns the first of several forms that all live nodes support, or nil.
func (a *agreed) first(native []Form) *Form {
	for i := range native {
		if f := &native[i]; slices.Contains(a.accepted, f.Name) && !slices.Contains(a.banned, f.Name) {
			return f
		}
	}
	return nil
}

// of returns the form in which a round goes into the log. A round whose key is
// not known goes as it is.
func (a *agreed) of(r *round) *Form {
	if r.key.To == 0 {
		return nil
	}
	return a.first(r.verb.native)
}
