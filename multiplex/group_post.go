package multiplex

import "context"

// Posting: commands whose outcome no goroutine waits for. Whoever keeps thousands of locks posts their renewals, has them
// written all at once, and reads what came of them from one inbox. A posted round ends as any other does: by votes, by their
// timeouts, by Close; whoever decides it puts it into the inbox instead of waking somebody.

// Post queues a command as Ask does, and returns at once: nothing is written before Flush is called or somebody else writes,
// and it waits for nothing but the group's mutex. What came of the command arrives in the inbox, together with the tag, once
// and in any case, if Post returns no error. The errors are those for which Ask sends nothing: an *UndecidedError when too
// few nodes are up, ErrOverloaded, ErrClosed.
//
// cmd is read during the call only. Undo and Late are not looked at, and a kind with an Undo cannot be posted, since nobody
// would undo it: that panics. The receipt says which nodes a command that is not merged went to; one that is merged may go
// to others, that join before it is written.
func (g *Group) Post(kind *Kind, cmd *Command, inbox *Outcomes, tag any) (Receipt, error) {
	if kind.Undo != nil {
		panic("multiplex: a claim cannot be posted")
	}
	var nobody context.Context // nil, as for every round that no caller waits for
	_, receipt, _, err := g.enter(nobody, kind, cmd, inbox, tag)
	return receipt, err
}

// Flush has what was posted written, by the group's own goroutine, and sees to it that somebody reads the answers. It waits
// for nothing but the group's mutex.
func (g *Group) Flush() {
	g.mu.Lock()
	if g.unwrittenLocked() && g.takeFlushLocked() {
		g.flusher.handover <- struct{}{} // one has the role, so there is room
	}
	g.mu.Unlock()
	// Every posted round was counted as waiting before it was published. So whoever has the role now sees that when giving it
	// up, and calls; and if nobody has it, we do (compare Group.await).
	if p := g.poller; p != nil && p.role.Load() == roleFree && p.waiting.Load() > 0 {
		p.callServer()
	}
}
