package redlock

import "github.com/redmux/redmux/multiplex"

// renew posts the renewal that the state asks for, begun at the given instant. room is for the command. The caller holds
// the hold's mutex, so that nothing is queued behind its release.
func (h *Hold) renew(begun instant, room []byte, inbox *multiplex.Outcomes) error {
	c := h.client
	h.asked = begun
	// Nobody waits for it, so a vote has all the time that it may have at most (R6).
	command := multiplex.Command{
		Key: c.keyPart(h.lock.resource), TTL: h.lock.ttl, Patience: h.lock.ttl / 10,
		Receipt: h.lock.receipt, // a node that forgot votes before it got the key does not count yet (R23)
	}
	kind := extendKind
	if h.options.Heal {
		kind = healKind
		command.Bytes = c.appendHeal(room, h.lock.resource, &h.lock.token, h.lock.ttl)
	} else {
		command.Bytes = c.appendExtend(room, h.lock.resource, &h.lock.token, h.lock.ttl)
	}
	receipt, err := c.group.Post(kind, &command, inbox, h)
	known := &h.lock.receipt
	known.Doubted &^= receipt.Sent &^ receipt.Doubted // their quarantine is over, and with it all that they may have forgotten
	h.unsure = 0
	if h.options.Heal {
		// Whatever comes of it: these nodes may hold the key now. The place in the log stays that of the SET, so that what is
		// repeated for an older connection's sake is repeated still (R8).
		known.Sent |= receipt.Sent
		h.unsure = receipt.Doubted &^ known.Doubted // it may be this command that sets the key there, unless they say that they have it
		known.Doubted |= h.unsure
	}
	return err
}
