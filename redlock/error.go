package redlock

import (
	"errors"
	"strconv"
	"strings"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
)

// What can come of an attempt, an extension or a release besides success (R12). Use errors.Is.
var (
	// ErrHeld is a lock that somebody else holds, or that several clients asked for at once so that nobody got a quorum.
	// It is ordinary: the sentinel itself is returned, without the resource's name, and nothing is allocated.
	ErrHeld = errors.New("redlock: resource is held")
	// ErrNoQuorum means that too few nodes answered to know. The error unwraps to *UndecidedError, which names
	// each of them with its own cause.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes answered")
	// ErrExpired is a quorum that came too late for the lock to be of use.
	ErrExpired = errors.New("redlock: quorum came too late")
	// ErrNotHeld is a lock that was released, extended or asked after, and is not, or no longer, ours.
	ErrNotHeld = errors.New("redlock: lock is not held")
	// ErrOverloaded means that nothing was sent, since too many commands wait for answers already (R26).
	ErrOverloaded = errors.New("redlock: too many commands wait for answers")
	// ErrMaxWait is the cause of the CancelledError that ends a wait for a lock when Config.MaxWait or HoldOptions.MaxWait is
	// over. The context of the call goes on, though the error is also context.DeadlineExceeded, and what the last attempt came
	// to: test for ErrMaxWait first.
	ErrMaxWait = errors.New("redlock: MaxWait is over")
	// ErrClosed is a call after Close, or one that Close cut short, or that asks for a new lock after Drain.
	ErrClosed = errors.New("redlock: client is closed")
)

// What a caller can get wrong. Nothing was sent.
var (
	// ErrResource is a resource name of a length other than 1 to 1,024 bytes (R19), or "redlock:seal", which is the key that
	// clients with Config.MaxTTL keep for themselves.
	ErrResource = errors.New("redlock: resource must have 1 to 1,024 bytes, and not be redlock:seal")
	// ErrTTL is a TTL below one millisecond, or above a hundred years or Config.MaxTTL, or so short that less than
	// Config.MinValidity would be left after the drift (R4).
	ErrTTL = errors.New("redlock: TTL is too short or too long")
)

// Errors of package multiplex that calls of this package return, so that one
// need not import it to name them.
type (
	// An UndecidedError is what ErrNoQuorum unwraps to: each node that gave no
	// answer, with its own cause.
	UndecidedError = multiplex.UndecidedError
	// A NodeError is one node's part of an UndecidedError.
	NodeError = multiplex.NodeError
	// A PreflightError is a check that a server failed: what was found, and what
	// to change.
	PreflightError = multiplex.PreflightError
	// A QuarantineError is ErrQuarantined, and says for how long.
	QuarantineError = multiplex.QuarantineError
)

// Causes of a node's missing vote. ErrNoQuorum unwraps to them; so does
// NodeStatus.Err, except for ErrQuarantined, which NodeStatus.Quarantined
// reports. All but the first two call for a change of the deployment: the text,
// and a *PreflightError, tell what was found and what to change.
var (
	// ErrNodeDown is the cause of a node without a connection.
	ErrNodeDown = multiplex.ErrDown
	// ErrNodeTimeout is the cause of a node that did not answer in time.
	ErrNodeTimeout = multiplex.ErrTimeout
	// ErrNotMaster is a replica, a cluster node or a sentinel (R22).
	ErrNotMaster = multiplex.ErrNotMaster
	// ErrSameNode is a server that has a vote under another address already (R22).
	ErrSameNode = multiplex.ErrSameNode
	// ErrPermissions is a node that does not let us do what locks need (R22).
	ErrPermissions = multiplex.ErrPermissions
	// ErrMaxTTL is a node that clients with another MaxTTL have used (R23).
	ErrMaxTTL = multiplex.ErrMaxTTL
	// ErrQuarantined is a node that may have forgotten locks (R23). *QuarantineError says for how long.
	ErrQuarantined = multiplex.ErrQuarantined
)

// A ResourceError is the error of a call, with the resource that the call was
// about. Every error of a call for a resource is one, but for ErrHeld,
// ErrOverloaded and ErrClosed, which cost nothing, ErrResource, and what a
// function given to Do returned. The log is never told the resource (R27).
type ResourceError struct {
	Resource string // without the prefix
	Err      error
}

// Error begins with the resource, quoted, and cut if it is long.
func (e *ResourceError) Error() string {
	return "redlock: " + quoted(e.Resource) + ": " + errtext.Text(e.Err)
}

// Unwrap gives what came of the call.
func (e *ResourceError) Unwrap() error { return e.Err }

// longestQuote bounds a resource's name in an error's text.
const longestQuote = 80

func quoted(resource string) string {
	if len(resource) > longestQuote {
		return strconv.Quote(resource[:longestQuote]) + "…"
	}
	return strconv.Quote(resource)
}

// named gives the error of a call its resource.
func named(resource string, err error) error {
	switch err {
	case nil, ErrHeld, ErrOverloaded, ErrClosed:
		return err
	}
	switch err.(type) {
	case *ResourceError, *LostError:
		return err // it has one
	}
	if errors.Is(err, ErrResource) {
		return err // the name is what is wrong
	}
	return &ResourceError{resource, err}
}

// A CancelledError ends a call whose context ended. It is the context's error, its cause, and what the last attempt came
// to, all by errors.Is (R12): test for the context's error first, and for ErrHeld after it.
type CancelledError struct {
	Err   error // context.Canceled or context.DeadlineExceeded
	Cause error // context.Cause, nil where it is the same
	Last  error // what the last whole attempt came to, or what Ready waited for; nil when there was none
}

// Error begins with the context's error; the cause and what the last attempt came to follow where there are such.
func (e *CancelledError) Error() string {
	text := "redlock: " + e.Err.Error()
	if e.Cause != nil {
		text += " (" + errtext.Text(e.Cause) + ")"
	}
	if e.Last != nil {
		text += "; " + errtext.Text(e.Last)
	}
	return text
}

// Unwrap gives what is there of the three.
func (e *CancelledError) Unwrap() []error {
	all := []error{e.Err}
	for _, err := range []error{e.Cause, e.Last} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// A noQuorumError is ErrNoQuorum with each node's cause.
type noQuorumError struct {
	nodes   error
	lasting bool // waiting cannot fix it (R31)
}

// Error names the nodes, and does not say a second time that they are too few.
func (e *noQuorumError) Error() string {
	text := ErrNoQuorum.Error() + strings.TrimPrefix(e.nodes.Error(), multiplex.ErrUndecided.Error())
	if e.lasting {
		text += "; waiting cannot fix this"
	}
	return text
}

// Unwrap has errors.Is find ErrNoQuorum and the cause of each node.
func (e *noQuorumError) Unwrap() []error { return []error{ErrNoQuorum, e.nodes} }

// translate gives an outcome of package multiplex its name here. refused is what a refusal means to this command.
func translate(err, refused error) error {
	switch {
	case err == nil:
		return nil
	case err == multiplex.ErrRefused:
		return refused
	case err == multiplex.ErrLate:
		return ErrExpired
	case err == multiplex.ErrOverloaded:
		return ErrOverloaded
	case err == multiplex.ErrClosed:
		return ErrClosed
	}
	if errors.Is(err, multiplex.ErrUndecided) {
		return &noQuorumError{nodes: err}
	}
	return err // the context's
}
