package faults

import (
	"sync"

	"github.com/redmux/redmux/redlock"
)

// healing waits for the first vote of each node that was healed: one that
// counted towards a decision, by the node's own counter. A vote counts only if
// it is among the first of a quorum, so that a busy load is needed to see it
// soon.
type healing struct {
	mu      sync.Mutex // guards the following
	pending []patient
}

type patient struct {
	healed
	granted uint64 // votes that counted when it was healed
}

// add begins to wait. Another fault of the same node ends the wait for the one
// before: nothing can be said about it any more.
func (h *healing) add(new healed, client *redlock.Client) {
	nodes := client.Nodes()
	if new.Node >= len(nodes) {
		return // a client that is wrong on purpose asks fewer
	}
	granted := nodes[new.Node].Counts.Granted
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(new.Node)
	h.pending = append(h.pending, patient{new, granted})
}

func (h *healing) drop(node int) {
	rest := h.pending[:0]
	for _, p := range h.pending {
		if p.Node != node {
			rest = append(rest, p)
		}
	}
	h.pending = rest
}

// look returns those whose votes count again.
func (h *healing) look(client *redlock.Client, now int64) (done []counted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) == 0 {
		return nil
	}
	nodes := client.Nodes()
	rest := h.pending[:0]
	for _, p := range h.pending {
		if nodes[p.Node].Counts.Granted > p.granted {
			done = append(done, counted{p.healed, now - p.T})
		} else {
			rest = append(rest, p)
		}
	}
	h.pending = rest
	return done
}
