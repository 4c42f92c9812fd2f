package multiplex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
)

// Causes of a node's missing vote. A NodeError unwraps to one of these, or to an error of package conn.
var (
	// ErrDown is a node without a connection; the NodeError also unwraps to the reason of the last failure.
	ErrDown = errors.New("multiplex: node is down")
	// ErrConnecting is a node whose first connection is not there yet.
	ErrConnecting = errors.New("multiplex: not connected yet")
	// ErrTimeout is a node that did not answer within its vote timeout (R6). Its answer may still come and is then
	// accounted for.
	ErrTimeout = errors.New("multiplex: no answer in time")
	// ErrSilent is the cause of death of a connection whose oldest command stayed unanswered too long (R26).
	ErrSilent = errors.New("multiplex: no answer for too long, connection given up")
	// ErrUnexpected is the cause of death of a connection that sent what cannot answer the command it owes (R16).
	ErrUnexpected = errors.New("multiplex: unexpected reply")
	// ErrNotMaster refuses a replica, a cluster node or a sentinel (R22).
	ErrNotMaster = errors.New("multiplex: not an independent master")
	// ErrSameNode refuses a server that already has a vote under another address (R22).
	ErrSameNode = errors.New("multiplex: two addresses lead to one server")
	// ErrIndebted is a node that owes too many releases to be given new locks (R8).
	ErrIndebted = errors.New("multiplex: too many releases owed")
)

// Outcomes of a round other than success.
var (
	// ErrRefused is a round that nodes refused. It is ordinary, and the sentinel itself is returned.
	ErrRefused = errors.New("multiplex: refused")
	// ErrUndecided is what every UndecidedError is.
	ErrUndecided = errors.New("multiplex: too few nodes answered")
	// ErrLate is a quorum of grants that came too late to be of use.
	ErrLate = errors.New("multiplex: quorum came too late")
	// ErrOverloaded is a command that was not sent, since too many wait for answers already (R26).
	ErrOverloaded = errors.New("multiplex: too many commands wait for answers")
	// ErrClosed is a command that came after Close, or that Close cut short (R28).
	ErrClosed = errors.New("multiplex: group is closed")
)

// A NodeError is why one node's vote is missing.
type NodeError struct {
	Node int    // index of the node in the configuration
	Addr string // its address, without credentials (R27)
	Err  error

	tried    time.Time // when the attempt to connect began that Err is of; see Lasting
	replicas bool      // Allow.Replica
}

// Error names the node by index and address.
func (e *NodeError) Error() string {
	return fmt.Sprintf("node %d (%s): %s", e.Node, e.Addr, causeText(e.Err))
}

// causeText is the text of a cause for where its node is named. That a node is
// down is left out where the reason for that says it.
func causeText(err error) string {
	switch e := err.(type) {
	case *downError:
		return causeText(e.reason)
	case *conn.Error:
		return e.Cause()
	}
	return errtext.Text(err)
}

// Unwrap gives the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// An UndecidedError is a round in which too few nodes answered for either outcome; it names each of them with its own
// cause (R12), in the order of the configuration.
type UndecidedError struct {
	Nodes []*NodeError
	Of    int // how many nodes there are; zero if that is not known
}

// Error says of every node why its vote is missing, on one line. A cause that
// several nodes share is said once.
func (e *UndecidedError) Error() string {
	var b strings.Builder
	b.WriteString(ErrUndecided.Error())
	said := make(map[string]bool)
	for _, n := range e.Nodes {
		cause := causeText(n.Err)
		if said[cause] {
			continue
		}
		if len(said) == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString("; ")
		}
		said[cause] = true
		e.name(&b, e.sharing(cause))
		b.WriteString(": " + cause)
	}
	return b.String()
}

// sharing returns the nodes that have a cause.
func (e *UndecidedError) sharing(cause string) (some []*NodeError) {
	for _, n := range e.Nodes {
		if causeText(n.Err) == cause {
			some = append(some, n)
		}
	}
	return some
}

// name writes which nodes some are.
func (e *UndecidedError) name(b *strings.Builder, some []*NodeError) {
	if len(some) == 1 {
		fmt.Fprintf(b, "node %d (%s)", some[0].Node, some[0].Addr)
		return
	}
	if len(some) == e.Of {
		fmt.Fprintf(b, "all %d nodes", e.Of)
	} else {
		b.WriteString("nodes ")
		for i, n := range some {
			b.WriteString(separator(i, len(some)) + strconv.Itoa(n.Node))
		}
	}
	b.WriteString(" (")
	for i, n := range some {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(n.Addr)
	}
	b.WriteString(")")
}

// separator is what stands before item i of n in a list.
func separator(i, n int) string {
	switch i {
	case 0:
		return ""
	case n - 1:
		return " and "
	}
	return ", "
}

// Unwrap gives ErrUndecided and each node's error, so that errors.Is finds a cause on any node.
func (e *UndecidedError) Unwrap() []error {
	all := make([]error, 0, len(e.Nodes)+1)
	all = append(all, ErrUndecided)
	for _, n := range e.Nodes {
		all = append(all, n)
	}
	return all
}

// A fault is a cause that many rounds can share, so that nothing is built while a node is down or keeps refusing.
type fault struct {
	err   error
	tried time.Duration // when the attempt to connect began that failed for it, on the group's clock; zero for other causes
}

var (
	timedOut    = &fault{err: ErrTimeout}
	owesTooMuch = &fault{err: &downError{ErrIndebted}}
)

// A downError is ErrDown together with the reason.
type downError struct{ reason error }

// Error names both.
func (e *downError) Error() string { return ErrDown.Error() + ": " + errtext.Text(e.reason) }

// Unwrap has errors.Is find both.
func (e *downError) Unwrap() []error { return []error{ErrDown, e.reason} }

// A RefusalError is an error that a node answered a command with (R24). The node's own words are left out, since they may
// quote keys and tokens (R27).
type RefusalError struct {
	Class conn.Class
}

// Error names the class alone.
func (e *RefusalError) Error() string {
	return "multiplex: answered with the error " + e.Class.String()
}

// ErrQuarantined is a node whose grants do not count yet, since it may have forgotten locks that are still valid (R23).
var ErrQuarantined = errors.New("multiplex: quarantined")

// A QuarantineError is ErrQuarantined with its particulars.
type QuarantineError struct {
	// Left is how long the node's grants do not count from now on, if no seal ends that before. Errors share it, so it may be
	// too long by a hundredth, or ten milliseconds.
	Left time.Duration
	// Why is what began it: "first seen", "restarted", "seal vanished" …
	Why string
}

// Error has the time left, to the millisecond, and what began it.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("%v for another %v: %s", ErrQuarantined, e.Left.Round(time.Millisecond), e.Why)
}

// Unwrap gives ErrQuarantined.
func (e *QuarantineError) Unwrap() error { return ErrQuarantined }

// Causes of a node's missing vote that a PreflightError explains, besides ErrNotMaster and ErrSameNode.
var (
	// ErrMaxTTL refuses a node whose seal was written with another MaxTTL (R23).
	ErrMaxTTL = errors.New("multiplex: this deployment was used with another MaxTTL")
	// ErrPermissions refuses a node that does not let this user do what locks need (R22).
	ErrPermissions = errors.New("multiplex: what locks need is forbidden")
)

// A PreflightError is why a server that answers is given no vote: what was looked at, what was found, and what to change.
// It unwraps to ErrNotMaster, ErrSameNode, ErrMaxTTL or ErrPermissions. No key, token or password is in it (R27).
type PreflightError struct {
	Check  string // "role", "mode", "same server", "MaxTTL", "permissions"
	Found  string
	Advice string
	Err    error
}

// Error has the finding and what to change, for who starts the service and reads nothing else.
func (e *PreflightError) Error() string {
	return fmt.Sprintf("%v: %s (%s)", e.Err, e.Found, e.Advice)
}

// Unwrap gives the sentinel.
func (e *PreflightError) Unwrap() error { return e.Err }
