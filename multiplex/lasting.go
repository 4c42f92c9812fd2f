package multiplex

import (
	"errors"
	"time"

	"github.com/redmux/redmux/conn"
)

// Lasting reports whether waiting cannot fix what keeps the node's vote away,
// as far as an attempt shows that began at the given time or later (R31): wrong
// credentials, a missing permission, a server that is no independent master or
// has a vote already, another MaxTTL, a certificate that does not verify, or a
// peer that speaks TLS where plaintext was expected, the reverse, or another
// protocol. An earlier attempt proves nothing: the cause may have been removed
// since, and a node that refuses credentials is dialed only every 30 seconds.
func (e *NodeError) Lasting(since time.Time) bool {
	var refusal *RefusalError
	if errors.As(e.Err, &refusal) { // the answer to this very round
		switch refusal.Class {
		case conn.ClassNoAuth, conn.ClassWrongPass, conn.ClassNoPerm:
			return true
		case conn.ClassReadOnly:
			return !e.replicas
		}
		return false
	}
	if e.tried.Before(since) {
		return false
	}
	var peer *conn.PeerError
	if errors.As(e.Err, &peer) {
		return peer.Speaks != "" // else it may be a proxy that is just starting
	}
	_, barred := causeOf(e.Err)
	return barred
}

// Lasting counts the nodes whose causes are lasting; see NodeError.Lasting.
func (e *UndecidedError) Lasting(since time.Time) int {
	count := 0
	for _, n := range e.Nodes {
		if n.Lasting(since) {
			count++
		}
	}
	return count
}
