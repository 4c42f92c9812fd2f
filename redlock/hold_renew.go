package redlock

import (
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// What holds ask of the nodes beyond the three commands of the algorithm.
var (
	// healKind is an extension that may set the key again. It is not merged: a release must be owed by every node that it went
	// to, and which those are is known at once only for a command that gets its place in the log at once (R8).
	healKind = &multiplex.Kind{Mode: multiplex.Confirm, Judge: judgeHeal, Script: true, Creates: true}
	// shortenKind is the release of a lock that is to stand for a while. It stands behind every renewal that was posted, since
	// one that came after it would give the key its whole TTL again.
	shortenKind = &multiplex.Kind{Mode: multiplex.Confirm, Judge: judgeScript, Script: true, Release: true, Behind: true}
)

// judgeHeal is judgeScript, with 2 for a key that was set again (R10).
func judgeHeal(v resp.Value) multiplex.Vote {
	if n, ok := v.Int64(); ok && n == 2 {
		return multiplex.Restored
	}
	return judgeScript(v)
}

func (c *Client) appendHeal(dst []byte, resource string, token *Token, ttl time.Duration) []byte {
	dst = c.appendScript(dst, &healScript, resource, 6)
	dst = resp.AppendBulkString(dst, token[:])
	return appendMilliseconds(dst, ttl)
}

// appendShorten appends the command that leaves a lock's key no more than the given time.
func (c *Client) appendShorten(dst []byte, resource string, token *Token, rest time.Duration) []byte {
	dst = c.appendScript(dst, &shortenScript, resource, 6)
	dst = resp.AppendBulkString(dst, token[:])
	return appendMilliseconds(dst, rest)
}

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
