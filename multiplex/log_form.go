package multiplex

import "slices"

// Native forms (R25): newer servers have a command of their own that deletes a key if it holds the token. It costs them
// less than half of what the script costs.
//
// A round's command is the script's form all its life: debts, cures and repetitions are of that form, which every node
// understands. Only what goes into the log may be of a native form, and that is settled when the round gets its place, under
// the mutex, by what all nodes have in common that are live at that moment. No later join can make it wrong: a node that
// joins begins at the head of the log, behind every round and every byte that was queued before, so that whatever is
// queued after agree() has left a form is the first that it gets. What nobody can foresee, a node that forgets its command
// or a user who loses the right to it, is an error reply: see errorToNative.

// FormOf names the native form in which commands of a kind go to the nodes that are up now, "" for none. It may change with
// every node that comes or goes, and with every reply.
func (g *Group) FormOf(kind *Kind) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.formForLocked(kind); f != nil {
		return f.Name
	}
	return ""
}

// agree settles which steps of the handshake all live nodes accepted, and so which forms they have in common. Whoever
// changes live calls it before letting go of the mutex, so that a form is left before a node without it gets its first
// command (R25). The caller holds the mutex.
func (g *Group) agreeLocked() {
	g.accepted = nil
	for i, n := range g.nodes {
		switch {
		case !g.live.Has(i):
		case g.accepted == nil:
			g.accepted = append([]string{}, n.server.Accepted...)
		default:
			g.accepted = slices.DeleteFunc(g.accepted, func(step string) bool {
				return !slices.Contains(n.server.Accepted, step)
			})
		}
	}
}

// form is the best form of a kind that all live nodes have, nil if there is none. The caller holds the mutex.
func (g *Group) formForLocked(kind *Kind) *Form {
	for i := range kind.Native {
		if f := &kind.Native[i]; slices.Contains(g.accepted, f.Name) {
			return f
		}
	}
	return nil
}

// formOf is the form in which a round is to go into the log. One whose key is not known goes as it is.
func (g *Group) formOfLocked(r *round) *Form {
	if r.key.To == 0 {
		return nil
	}
	return g.formForLocked(r.kind)
}
