package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/redmux/redmux/conn"
)

// Lasting reports whether the node's vote is missing for a cause that waiting
// cannot remove (R31): wrong credentials, a missing permission, a server that
// is no independent master or has a vote already, another MaxTTL, a certificate
// that does not verify, or a peer that speaks another protocol, or TLS where
// plaintext was expected, or the reverse. Only an attempt that began at the
// given time or later shows that. An earlier one proves nothing: the cause may
// have been removed since, and a node that refuses credentials is dialed only
// every 30 seconds.
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
		// Otherwise it may be a proxy that is just starting.
		return peer.Speaks != ""
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

// causeOf returns the class of an error that keeps a node from being up. barred
// reports that the server answers, but will not take part until something is
// changed.
func causeOf(err error) (class string, barred bool) {
	switch {
	case err == nil:
		return "", false
	case errors.Is(err, ErrNotMaster):
		return "not a master", true
	case errors.Is(err, ErrSameNode):
		return "same server", true
	case errors.Is(err, ErrMaxTTL):
		return "MaxTTL", true
	case errors.Is(err, ErrDeployment):
		return "deployment", true
	case errors.Is(err, ErrUnopened):
		return "not open", false
	case errors.Is(err, ErrNoFloor):
		return "no floor", errors.Is(err, errFloorLost) || errors.Is(err, errFloorWithoutRun)
	case errors.Is(err, ErrPermissions):
		return "permissions", true
	case errors.Is(err, conn.ErrProxy):
		return "proxy", true
	}
	switch c := conn.ErrorClass(err); c {
	case conn.ClassNone:
	case conn.ClassNoAuth, conn.ClassWrongPass, conn.ClassNoPerm:
		return c.String(), true
	default:
		return c.String(), false
	}
	var peer *conn.PeerError
	var certificate *tls.CertificateVerificationError
	var dial *conn.Error
	switch {
	case errors.As(err, &certificate):
		return "TLS", true
	case errors.As(err, &peer):
		return "not RESP", true
	case errors.As(err, &dial) && dial.Op == "dial":
		return "unreachable", false
	}
	return deathOf(err).String(), false
}

// A death is why a connection ended.
type death uint8

const (
	deathPeer death = iota
	deathSilent
	deathStalled
	deathIndebted
	deathProtocol
	deathUnexpected
	deathForgot
	deathClosed
	deathCauses
)

var deathNames = [deathCauses]string{
	"peer", "silent", "stalled", "indebted", "protocol", "unexpected", "forgot", "closed",
}

// String returns the name in NodeCounts.Deaths.
func (d death) String() string { return deathNames[d] }

// deathOf returns the cause of a connection's end. An end that is neither ours
// nor a fault of the protocol was caused by the peer or the network.
func deathOf(cause error) death {
	for _, known := range [...]struct {
		cause error
		death death
	}{
		{ErrSilent, deathSilent},
		{ErrIndebted, deathIndebted},
		{conn.ErrStalled, deathStalled},
		{ErrUnexpected, deathUnexpected},
		{errForgot, deathForgot},
		{conn.ErrProtocol, deathProtocol},
		{conn.ErrClosed, deathClosed},
		// The group was closed during an exchange.
		{context.Canceled, deathClosed},
	} {
		if errors.Is(cause, known.cause) {
			return known.death
		}
	}
	var died *conn.Error
	switch {
	case !errors.As(cause, &died):
		// Every other error is package conn's: this one is an inquiry's.
		return deathUnexpected
	case died.Op == "parse":
		return deathProtocol
	}
	return deathPeer
}
