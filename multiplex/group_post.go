package multiplex

// Posting sends commands whose outcome no goroutine waits for. A caller that
// keeps thousands of locks posts their renewals, has them written together, and
// reads the outcomes from one inbox. A posted round ends as any other does: by
// votes, by their timeouts, or by Close. The goroutine that decides it puts it
// into the inbox instead of waking a caller.

// PostExtension queues an extension as Extend does and returns at once. It
// waits for the group's mutex only. Nothing is written before Flush is called
// or another command is flushed. If it returns no error, the outcome arrives in
// the inbox, exactly once. Otherwise nothing was sent: the error is an
// *UndecidedError if too few nodes are up, ErrOverloaded, or ErrClosed.
//
// The receipt says which nodes the command goes to. A merged one may also go to
// nodes that join before the write.
func (g *Group) PostExtension(kind *ExtendKind, cmd *Command, posting Posting) (Receipt, error) {
	g.made()
	p, err := g.enter(noCaller, kind.verb(), cmd, posting)
	return p.receipt, err
}

// PostRelease posts a release as PostExtension posts an extension. The only
// error is ErrClosed.
func (g *Group) PostRelease(kind *ReleaseKind, cmd *Command, posting Posting) error {
	g.made()
	_, err := g.enter(noCaller, kind.verb(), cmd, posting)
	return err
}

// Flush has the group's own goroutine write what was posted, and makes sure
// that the answers are read. It waits for the group's mutex only.
func (g *Group) Flush() {
	g.made()
	g.mu.Lock()
	if g.unwrittenLocked() && g.takeFlushLocked() {
		// The channel has room: only the goroutine with the role sends.
		g.flusher.handover <- struct{}{}
	}
	g.mu.Unlock()
	// Every posted round was counted as waiting before it was published. A
	// goroutine with the poll role sees it on giving the role up, and calls
	// the poller's goroutine. With the role free, this call does (compare
	// Group.await).
	if p := g.poller; p != nil && p.role.Load() == roleFree && p.waiting.Load() > 0 {
		p.callServer()
	}
}
