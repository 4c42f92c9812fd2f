package multiplex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex/internal/member"
)

// Causes of a node's missing vote. A NodeError unwraps to one of these, or to
// an error of package conn.
var (
	// ErrDown is the cause if the node has no connection. The NodeError also
	// unwraps to the reason of the last failure.
	ErrDown = errors.New("multiplex: node is down")
	// ErrConnecting is the cause until the first attempt to connect has ended.
	ErrConnecting = errors.New("multiplex: not connected yet")
	// ErrTimeout is the cause if the node did not answer within its vote
	// timeout (R6). A late answer is still accounted for.
	ErrTimeout = errors.New("multiplex: no answer in time")
	// ErrSilent ends a connection whose oldest command stayed unanswered too
	// long (R26).
	ErrSilent = errors.New("multiplex: no answer for too long, connection given up")
	// ErrUnexpected ends a connection that sent something other than a possible
	// answer to the oldest unanswered command (R16).
	ErrUnexpected = member.ErrUnexpected
	// ErrNotMaster is the cause if the server is a replica, a cluster node or a
	// sentinel (R22).
	ErrNotMaster = errors.New("multiplex: not an independent master")
	// ErrSameNode is the cause if the server already has a vote under another
	// address (R22).
	ErrSameNode = errors.New("multiplex: two addresses lead to one server")
	// ErrIndebted is the cause if the node owes too many releases to be given
	// new claims (R8).
	ErrIndebted = errors.New("multiplex: too many releases owed")
)

// Outcomes of a round other than success.
var (
	// ErrRefused is returned when nodes refused a command. It is ordinary, and
	// is returned as it is, without wrapping.
	ErrRefused = errors.New("multiplex: refused")
	// ErrUndecided is what every UndecidedError unwraps to.
	ErrUndecided = errors.New("multiplex: too few nodes answered")
	// ErrOverloaded is returned for a command that was not sent. Either too
	// many wait for answers already, or too few nodes for a quorum take
	// what is written to them (R26).
	ErrOverloaded = errors.New("multiplex: too many commands wait for answers")
	// ErrUnwatched is returned for a claim or an extension of a group without
	// MaxTTL, if a node fails over. Such a group only looks and releases.
	ErrUnwatched = errors.New("multiplex: a node fails over, and without MaxTTL its new primary would count at once")
	// ErrClosed is returned for a command after Close, or cut short by it
	// (R28).
	ErrClosed = errors.New("multiplex: group is closed")
)

// A NodeError says why one node's vote is missing.
type NodeError struct {
	Node int    // index of the node in the configuration
	Addr string // its address, without credentials (R27)
	Err  error  // the cause

	// For a failed attempt to connect, tried is its beginning. See Lasting.
	tried    time.Time
	known    bool // the node was up once
	replicas bool // Allow.Replica
	renews   bool // others may be asked for: conn.Config.Credentials
}

// Error names the node by index and address.
func (e *NodeError) Error() string {
	must(e != nil, noError)
	return fmt.Sprintf("node %d (%s): %s", e.Node, e.Addr, causeText(e.Err))
}

// causeText returns the text of a cause to put behind the name of its node. It
// omits "node is down" before a reason that implies it.
func causeText(err error) string {
	switch e := err.(type) {
	case *downError:
		return causeText(e.reason)
	case *conn.Error:
		return e.Cause()
	}
	return errtext.Text(err)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error {
	must(e != nil, noError)
	return e.Err
}

// An UndecidedError is returned when too few nodes answered for either outcome.
// It names each of them with its own cause (R12), in the order of the
// configuration.
type UndecidedError struct {
	Nodes []*NodeError // the nodes without a vote, each with its cause
	Of    int          // number of nodes; zero if not known
}

// Error lists the causes on one line.
func (e *UndecidedError) Error() string {
	must(e != nil, noError)
	text := ErrUndecided.Error()
	if len(e.Nodes) > 0 {
		text += ": " + strings.Join(e.Causes(), "; ")
	}
	return text
}

// Causes lists, for every node, why its vote is missing. A cause that several
// nodes share is listed once, behind the nodes.
func (e *UndecidedError) Causes() (all []string) {
	must(e != nil, noError)
	said := make(map[string]bool)
	for _, n := range e.Nodes {
		if cause := causeText(n.Err); !said[cause] {
			said[cause] = true
			all = append(all, e.name(e.sharing(cause))+": "+cause)
		}
	}
	return all
}

// sharing returns the nodes that have this cause.
func (e *UndecidedError) sharing(cause string) (some []*NodeError) {
	for _, n := range e.Nodes {
		if causeText(n.Err) == cause {
			some = append(some, n)
		}
	}
	return some
}

// name returns the text that names some of the nodes.
func (e *UndecidedError) name(some []*NodeError) string {
	var which, addrs strings.Builder
	for i, n := range some {
		which.WriteString(separator(i, len(some)) + strconv.Itoa(n.Node))
		if i > 0 {
			addrs.WriteString(", ")
		}
		addrs.WriteString(n.Addr)
	}
	switch len(some) {
	case 1:
		return "node " + which.String() + " (" + addrs.String() + ")"
	case e.Of:
		return "all " + strconv.Itoa(e.Of) + " nodes (" + addrs.String() + ")"
	}
	return "nodes " + which.String() + " (" + addrs.String() + ")"
}

// separator returns what precedes item i of n in a list.
func separator(i, n int) string {
	switch i {
	case 0:
		return ""
	case n - 1:
		return " and "
	}
	return ", "
}

// Unwrap returns ErrUndecided and each node's error, so that errors.Is finds a
// cause on any node.
func (e *UndecidedError) Unwrap() []error {
	must(e != nil, noError)
	all := make([]error, 0, len(e.Nodes)+1)
	all = append(all, ErrUndecided)
	for _, n := range e.Nodes {
		all = append(all, n)
	}
	return all
}

// A fault is a cause shared by many rounds. So nothing is allocated for a node
// that is down or keeps refusing.
type fault struct {
	err error
	// For a failed attempt to connect, tried is its beginning, on the
	// group's clock.
	tried time.Duration
}

// ended returns the fault of a connection that had joined, and then ended. The
// next attempt may show something else.
func ended(cause error) *fault { return &fault{err: cause, tried: -1} }

var (
	timedOut    = &fault{err: ErrTimeout}
	owesTooMuch = &fault{err: &downError{ErrIndebted}}
)

// A downError is ErrDown with the reason.
type downError struct{ reason error }

// Error returns both texts.
func (e *downError) Error() string { return ErrDown.Error() + ": " + errtext.Text(e.reason) }

// Unwrap returns ErrDown and the reason.
func (e *downError) Unwrap() []error { return []error{ErrDown, e.reason} }

// A RefusalError is an error that a node replied to a command (R24). It omits
// the node's own words, which may quote keys and tokens (R27).
type RefusalError struct {
	Class conn.Class // of the node's error
}

// Error names the class only.
func (e *RefusalError) Error() string {
	must(e != nil, noError)
	return "multiplex: answered with the error " + e.Class.String()
}

// ErrQuarantined is the cause of a node whose grants do not count yet: it may
// have forgotten valid locks (R23).
var ErrQuarantined = errors.New("multiplex: quarantined")

// A QuarantineError is ErrQuarantined with its particulars.
type QuarantineError struct {
	// Left is how much longer the node's grants do not count, unless a seal
	// ends the quarantine earlier. Rounds share the error, so Left may be too
	// long by a hundredth or by ten milliseconds.
	Left time.Duration
	// Why is what began the quarantine: "first seen", "restarted", "seal
	// vanished" …
	Why string
}

// Error has the time left, to the millisecond, and what began the quarantine.
func (e *QuarantineError) Error() string {
	must(e != nil, noError)
	return fmt.Sprintf("%v for another %v: %s", ErrQuarantined, e.Left.Round(time.Millisecond), e.Why)
}

// Unwrap returns ErrQuarantined.
func (e *QuarantineError) Unwrap() error { return ErrQuarantined }

// Causes of a node's missing vote that a PreflightError explains, besides
// ErrNotMaster and ErrSameNode.
var (
	// ErrMaxTTL is the cause if the node's seal was written with another MaxTTL
	// (R23).
	ErrMaxTTL = errors.New("multiplex: this deployment was used with another MaxTTL")
	// ErrPermissions is the cause if this user lacks a permission for locks
	// (R22).
	ErrPermissions = errors.New("multiplex: what locks need is forbidden")
)

// Causes of a node's missing vote that concern the deployment (R30).
var (
	// ErrDeployment is the cause if the nodes of the group belong to
	// different deployments, or to one of another size, or this node not to
	// that of the others.
	ErrDeployment = errors.New("multiplex: another deployment")
	// ErrUnopened is the cause while the nodes belong to no deployment yet.
	// Opening one needs all of them at one time.
	ErrUnopened = errors.New("multiplex: the deployment is not open")
)

// ErrNoFloor is the cause of a node that lost its memory of granted fencing
// numbers. Its grants of claims with a number do not count (docs/fencing.md).
var ErrNoFloor = errors.New("multiplex: the node has no floor for fencing numbers")

// ErrUnbelieved is the cause of a refusal whose reason cannot be true: a number
// or a ticket beyond all that an honest node can have granted (R33).
var ErrUnbelieved = errors.New("multiplex: the node is not believed")

// A PreflightError says why a server that answers gets no vote: what was
// checked, what was found, and what to change. It unwraps to ErrNotMaster,
// ErrSameNode, ErrMaxTTL, ErrDeployment or ErrPermissions. It has no key, token
// or password (R27).
type PreflightError struct {
	// Check is "role", "mode", "same server", "MaxTTL", "deployment" or
	// "permissions".
	Check  string
	Found  string // what is wrong, in a sentence
	Advice string // what to change
	Err    error  // the sentinel
}

// Error has the finding and what to change.
func (e *PreflightError) Error() string {
	must(e != nil, noError)
	return fmt.Sprintf("%v: %s (%s)", e.Err, e.Found, e.Advice)
}

// Unwrap returns the sentinel.
func (e *PreflightError) Unwrap() error {
	must(e != nil, noError)
	return e.Err
}
