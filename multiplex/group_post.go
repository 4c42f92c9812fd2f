package multiplex

import "context"

// Posting sends commands whose outcome no goroutine waits for. A caller that
// keeps thousands of locks posts their renewals, has them written together, and
// reads the outcomes from one inbox. A posted round ends as any other does: by
// votes, by their timeouts, or by Close. The goroutine that decides it puts it
// into the inbox instead of waking a caller.

// Post queues a command as Ask does and returns at once. Nothing is written
// before Flush is called or another command is flushed. Post waits for the
// group's mutex only. If it returns no error, the outcome arrives in the inbox
// with the tag, exactly once. Otherwise nothing was sent: the error is an
// *UndecidedError if too few nodes are up, ErrOverloaded, or ErrClosed.
//
// cmd is only read during the call. Undo and Late are ignored. Post panics for
// a kind with an Undo, since a posted claim would never be undone. The receipt
// says which nodes a command that is not merged went to. One that is merged may
// also go to nodes that join before it is written.
func (g *Group) Post(kind *Kind, cmd *Command, inbox *Outcomes, tag any) (Receipt, error) {
	if kind.Undo != nil {
		panic("multiplex: a claim cannot be posted")
	}
	// It is nil, as for every round that no caller waits for.
	var nobody context.Context
	_, receipt, _, err := g.enter(nobody, kind, cmd, inbox, tag)
	return receipt, err
}

// Flush has the group's own goroutine write what was posted, and makes sure
// that the answers are read. It waits for the group's mutex only.
func (g *Group) Flush() {
	g.mu.Lock()
	if g.unwrittenLocked() && g.takeFlushLocked() {
		// The channel has room: only the goroutine with the role sends.
		g.flusher.handover <- struct{}{}
	}
	g.mu.Unlock()
	// Every posted round was counted as waiting before it was published. So a
	// goroutine that has the poll role sees it when it gives the role up, and
	// calls the server; if the role is free, this call does (compare
	// Group.await).
	if p := g.poller; p != nil && p.role.Load() == roleFree && p.waiting.Load() > 0 {
		p.callServer()
	}
}
