package multiplex

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/multiplex/internal/member"
)

// failoverTakes is how long a failover, a restart or a replacement of files may
// take. A cause of one is lasting after that time.
const failoverTakes = 30 * time.Second

// Lasting reports whether the node's vote is missing for a cause beyond waiting
// (R31). A list names what may pass by itself, in package conn for what a node
// says or does, and here for what this group knows of it; every other cause is
// lasting.
//
// Only an attempt begun at the given time or later shows that. An earlier one
// proves nothing: the cause may have been removed since, and a node that
// refuses credentials is dialed only every 30 seconds. waited is for how long
// the caller has found no quorum: a node that this group has known as a master
// may be a replica during a failover.
func (e *NodeError) Lasting(since time.Time, waited time.Duration) bool {
	must(e != nil, noError)
	var refusal *RefusalError
	if errors.As(e.Err, &refusal) { // the answer to this very round
		if refusal.Class == conn.ClassReadOnly && e.replicas {
			return false
		}
		return isLasting(refusal.Class.Outlook(), waited)
	}
	if e.tried.Before(since) {
		return false
	}
	outlook := outlookOf(e.Err)
	if demoted(e.Err) && !e.known {
		outlook = conn.Lasting // no failover: it was named by mistake
	}
	if e.renews && refusesCredentials(e.Err) {
		outlook = conn.Brief // the next answer of the function may be right
	}
	return isLasting(outlook, waited)
}

func isLasting(outlook conn.Outlook, waited time.Duration) bool {
	return outlook == conn.Lasting || outlook == conn.Brief && waited >= failoverTakes
}

// refusesCredentials reports whether the server refused an attempt to connect
// for its credentials alone.
func refusesCredentials(err error) bool {
	switch conn.ErrorClass(err) {
	case conn.ClassNoAuth, conn.ClassWrongPass:
		return true
	}
	return false
}

// Lasting counts the nodes whose causes are lasting; see NodeError.Lasting.
func (e *UndecidedError) Lasting(since time.Time, waited time.Duration) int {
	must(e != nil, noError)
	count := 0
	for _, n := range e.Nodes {
		if n.Lasting(since, waited) {
			count++
		}
	}
	return count
}

// demoted reports whether the server is a replica.
func demoted(err error) bool {
	var check *PreflightError
	if errors.As(err, &check) && check.Check == checkRole {
		return true
	}
	return conn.ErrorClass(err) == conn.ClassReadOnly
}

// outlookOf returns whether what keeps a node from being up may pass by itself
// (R31).
func outlookOf(err error) conn.Outlook {
	switch {
	case isOneOf(err, errFloorLost, errFloorWithoutRun, errFloorBeyond):
		return conn.Lasting
	case err == ErrDown, isOneOf(err,
		ErrConnecting, ErrTimeout, ErrSilent, ErrIndebted, ErrQuarantined, ErrUnopened, ErrUnbelieved, ErrNoFloor,
		errForgot, errDisproved, errRewritten, member.ErrSilence, member.ErrNoPrimary):
		return conn.Passing
	case demoted(err):
		return conn.Brief
	case isOneOf(err, ErrNotMaster, ErrSameNode, ErrMaxTTL, ErrDeployment, ErrPermissions, ErrUnexpected):
		return conn.Lasting
	}
	return conn.OutlookOf(err)
}

// isOneOf reports whether an error wraps one of several.
func isOneOf(err error, causes ...error) bool {
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

// causeOf returns the class of an error that keeps a node from being up. barred
// reports that the server answers, but takes no part before something is
// changed.
func causeOf(err error) (class string, barred bool) {
	if err == nil {
		return "", false
	}
	return classOf(err), outlookOf(err) == conn.Lasting || errors.Is(err, ErrNotMaster)
}

func classOf(err error) string {
	for _, known := range [...]struct {
		cause error
		class string
	}{
		{ErrNotMaster, "not a master"},
		{ErrSameNode, "same server"},
		{ErrMaxTTL, "MaxTTL"},
		{ErrDeployment, "deployment"},
		{ErrUnopened, "not open"},
		{ErrQuarantined, "quarantined"},
		{ErrNoFloor, "no floor"},
		{ErrUnbelieved, "not believed"},
		{ErrPermissions, "permissions"},
		{conn.ErrProxy, "proxy"},
		{conn.ErrCredentials, "credentials"},
	} {
		if errors.Is(err, known.cause) {
			return known.class
		}
	}
	if c := conn.ErrorClass(err); c != conn.ClassNone {
		return c.String()
	}
	var peer *conn.PeerError
	var dial *conn.Error
	isDial := errors.As(err, &dial) && dial.Op == "dial"
	switch {
	case errors.As(err, &peer):
		return "not RESP"
	case conn.IsTLS(err):
		return "TLS"
	case isDial:
		return "unreachable"
	}
	return deathOf(err)
}

// deathOf returns the cause of a connection's end, by its name in
// NodeCounts.Deaths. An end that is neither ours nor a fault of the protocol
// was caused by the peer or the network.
func deathOf(cause error) string {
	for _, known := range [...]struct {
		cause error
		death string
	}{
		{ErrSilent, "silent"},
		{member.ErrSilence, "silent"},
		{conn.ErrMoved, "moved"},
		{ErrIndebted, "indebted"},
		{conn.ErrStalled, "stalled"},
		{ErrUnexpected, "unexpected"},
		{errForgot, "forgot"},
		{ErrNotMaster, "demoted"},
		{errRewritten, "demoted"},
		{member.ErrNoPrimary, "demoted"},
		{errLoggedOut, "credentials"},
		{conn.ErrProtocol, "protocol"},
		{conn.ErrClosed, "closed"},
		// The group was closed during an exchange.
		{context.Canceled, "closed"},
	} {
		if errors.Is(cause, known.cause) {
			return known.death
		}
	}
	var died *conn.Error
	switch {
	case !errors.As(cause, &died):
		// Every other error is package conn's: this one is an inquiry's.
		return "unexpected"
	case died.Op == "parse":
		return "protocol"
	}
	return "peer"
}
