package redlock

import "github.com/redmux/redmux/multiplex"

// renew posts a renewal that began at the given instant. room is for the
// command. The caller must hold h.mu, so that nothing is queued behind the
// release.
func (h *Hold) renew(begun instant, room []byte, inbox *multiplex.Outcomes) error {
	c := h.client
	h.asked = begun
	command := multiplex.Command{
		TTL:     h.lock.ttl,
		Receipt: h.lock.receipt, // a node that forgot votes before it got the key does not count (R23)
	}
	kind := extendKind
	if h.options.Heal {
		kind = healKind
		command.Encoded = c.appendHeal(room, h.lock.resource, &h.lock.token, h.lock.ttl)
	} else {
		command.Encoded = c.appendExtend(room, h.lock.resource, &h.lock.token, h.lock.ttl)
	}
	// No caller waits for it, so a vote may take the longest time allowed (R6).
	posting := multiplex.Posting{Inbox: inbox, Tag: h, Patience: h.lock.ttl / 10}
	receipt, err := c.group.PostExtension(kind, &command, posting)
	known := &h.lock.receipt
	known.Doubted = known.Doubted.Without(receipt.Sent.Without(receipt.Doubted)) // their quarantine is over
	h.unsure = 0
	if h.options.Heal {
		// Whatever the outcome, these nodes may hold the key now. The place in the log
		// stays that of the SET, so that a release is still repeated for the sake of an
		// older connection (R8).
		known.Sent |= receipt.Sent
		// This command may be what sets the key there, unless they answer that they have it.
		h.unsure = receipt.Doubted.Without(known.Doubted)
		known.Doubted |= h.unsure
	}
	return err
}
