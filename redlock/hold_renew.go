package redlock

import (
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// renewLocked posts a renewal, begun at the given instant. room is for the
// command. The caller must hold h.mu: no renewal may be queued behind the
// release.
func (h *Hold) renewLocked(begun instant, room []byte, inbox *multiplex.Outcomes) error {
	c := h.client
	h.asked = begun
	command := multiplex.Command{
		TTL:     h.lock.grant.TTL,
		Receipt: h.lock.grant.Receipt, // see multiplex.Receipt.Doubted (R23)
	}
	extend := h.lock.kind.Extend
	if h.options.Heal {
		extend = c.kinds.Heal
	}
	g := &h.lock.grant
	kind, encoded := extend(g, room, g.TTL, h.lock.promised(g.TTL))
	command.Encoded = encoded
	// No caller waits for it, so a vote may take until the end of the old
	// validity. Later it would not count (R6, R10).
	left := h.ends.remaining(c.keeper.begun, begun)
	posting := multiplex.Posting{Inbox: inbox, Tag: h, Patience: max(0, left)}
	receipt, err := c.group.PostExtension(kind, &command, posting)
	known := &h.lock.grant.Receipt
	known.Doubted, h.unsure = pure.DoubtRenewal(known.Doubted, receipt.Sent, receipt.Doubted, h.options.Heal)
	if h.options.Heal {
		// After any outcome, these nodes may hold the key now. Receipt.Pos
		// stays the SET's. So a release is still repeated where an older
		// connection may execute that (R8).
		known.Sent |= receipt.Sent
	}
	return err
}
