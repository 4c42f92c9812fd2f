package redlock

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
)

// Outcomes of an attempt, an extension or a release besides success (R12). Test
// for them with errors.Is.
var (
	// ErrHeld is returned if another client holds the resource, and also if
	// several clients asked at once without a quorum for any. It is ordinary,
	// so TryAcquire returns it as it is, without an allocation; but see
	// HeldError.
	ErrHeld = errors.New("redlock: resource is held")
	// ErrNoQuorum is returned if too few nodes answered to decide. The error
	// unwraps to *UndecidedError, with the cause of each of them.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes answered")
	// ErrExpired is returned if a quorum granted the lock too late to be of
	// use.
	ErrExpired = errors.New("redlock: quorum came too late")
	// ErrNotHeld is returned by Release and Extend if the caller does not hold
	// the lock.
	ErrNotHeld = errors.New("redlock: lock is not held")
	// ErrOverloaded is returned if too many commands wait for answers already.
	// Nothing was sent (R26).
	ErrOverloaded = errors.New("redlock: too many commands wait for answers")
	// ErrMaxWait is the cause of the CancelledError of a wait cut short by
	// Config.MaxWait or HoldOptions.MaxWait. This error is also
	// context.DeadlineExceeded, though the call's context has not ended.
	ErrMaxWait = errors.New("redlock: MaxWait is over")
	// ErrClosed is returned by a call after Close or cut short by it, and by a
	// call for a new lock after Drain.
	ErrClosed = errors.New("redlock: client is closed")
)

// Mistakes in a call. Nothing was sent.
var (
	// ErrResource is returned if the resource name does not have 1 to 1,024
	// bytes (R19), is "redlock:seal" or "redlock:fence", or
	// contains ":redlock:": clients use these keys themselves. With
	// Config.Fenced, it is also returned for a name that ends in ":fence".
	ErrResource = errors.New("redlock: resource must have 1 to 1,024 bytes, not be redlock:seal or redlock:fence, and not contain \":redlock:\"")
	// ErrTTL is returned if the TTL is below one millisecond, above a hundred
	// years or Config.MaxTTL, or too short to leave Config.MinValidity after
	// the drift (R4).
	ErrTTL = errors.New("redlock: TTL is too short or too long")
)

// Errors of package multiplex from calls of this package, named here for
// callers without an import of it.
type (
	// An UndecidedError is in the chain of ErrNoQuorum: each silent node, with
	// its own cause.
	UndecidedError = multiplex.UndecidedError
	// A NodeError is one node's part of an UndecidedError.
	NodeError = multiplex.NodeError
	// A PreflightError is a server's failed check: what was found, and what to
	// change.
	PreflightError = multiplex.PreflightError
	// A QuarantineError is ErrQuarantined, and says how long the quarantine
	// lasts.
	QuarantineError = multiplex.QuarantineError
)

// Causes of a node's missing vote. ErrNoQuorum unwraps to them; so does
// NodeStatus.Err, but not to ErrQuarantined. Package multiplex has further
// ones. A *PreflightError says what was found, and what to change.
var (
	// ErrNodeDown is the cause if the node has no connection.
	ErrNodeDown = multiplex.ErrDown
	// ErrNodeTimeout is the cause if the node did not answer in time.
	ErrNodeTimeout = multiplex.ErrTimeout
	// ErrMaxTTL is the cause if clients with another MaxTTL have used the node
	// (R23).
	ErrMaxTTL = multiplex.ErrMaxTTL
	// ErrQuarantined is the cause if the node may have forgotten locks (R23).
	// *QuarantineError says how long the quarantine lasts.
	ErrQuarantined = multiplex.ErrQuarantined
	// ErrDeployment is the cause if the nodes are not one deployment, or not all
	// of it (R30). The error names both sides.
	ErrDeployment = multiplex.ErrDeployment
	// ErrUnopened is the cause while the nodes belong to no deployment: their
	// first use needs all of them at one time (R30).
	ErrUnopened = multiplex.ErrUnopened
	// ErrNoFloor is the cause of a node without a floor: its grants do not
	// count for locks with a fencing number, since it may have forgotten higher
	// ones. The text says whether an operator must reset the fence
	// (admin.ResetFence).
	ErrNoFloor = multiplex.ErrNoFloor
)

// A ResourceError adds the resource to the error of a call. Every error of a
// call for a resource has one in its chain, except ErrHeld from TryAcquire,
// which must not allocate. The log does not receive it (R27).
type ResourceError struct {
	Resource string // without the prefix; as Lock.Resource for several
	Err      error  // the error of the call
}

// Error begins with the resource, quoted, and cut if it is long.
func (e *ResourceError) Error() string {
	must(e != nil, noError)
	return "redlock: " + quoted(e.Resource) + ": " + errtext.Text(e.Err)
}

// Unwrap returns the error of the call.
func (e *ResourceError) Unwrap() error {
	must(e != nil, noError)
	return e.Err
}

// longestQuote bounds a resource's name in an error's text.
const longestQuote = 80

func quoted(resource string) string {
	if len(resource) > longestQuote {
		return strconv.Quote(resource[:longestQuote]) + "…"
	}
	return strconv.Quote(resource)
}

// named adds the resource to the error of a call.
func named(resource string, err error) error {
	switch err.(type) {
	case nil, *ResourceError, *LostError:
		return err // it names the resource already
	}
	return &ResourceError{resource, err}
}

// A CancelledError is returned if the context of a call ended. By errors.Is it
// is the context's error, its cause and the last attempt's error (R12): test
// for the context's error first, and for ErrHeld after it.
type CancelledError struct {
	Err   error // context.Canceled or context.DeadlineExceeded
	Cause error // context.Cause; nil if it is the same
	// Last is the error of the last complete attempt, or of what Ready waited
	// for; nil if there was none.
	Last error
}

// Error begins with the context's error; the cause and the last attempt's error
// follow if there are any.
func (e *CancelledError) Error() string {
	must(e != nil, noError)
	text := "redlock: " + errtext.Text(e.Err)
	if e.Cause != nil {
		text += " (" + errtext.Text(e.Cause) + ")"
	}
	if e.Last != nil {
		text += "; " + errtext.Text(e.Last)
	}
	return text
}

// Unwrap returns those of the three errors that are not nil.
func (e *CancelledError) Unwrap() []error {
	must(e != nil, noError)
	var all []error
	for _, err := range []error{e.Err, e.Cause, e.Last} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// A noQuorumError is ErrNoQuorum with each node's cause.
type noQuorumError struct {
	nodes   *UndecidedError
	lasting bool // waiting cannot help (R31)
}

// Error names the nodes and their causes.
func (e *noQuorumError) Error() string {
	text := withCauses(ErrNoQuorum.Error(), e.nodes)
	if e.lasting {
		text += "; waiting cannot fix this"
	}
	return text
}

// withCauses appends to a text the cause of each node's missing vote.
func withCauses(text string, nodes *UndecidedError) string {
	if len(nodes.Nodes) == 0 {
		return text
	}
	return text + ": " + strings.Join(nodes.Causes(), "; ")
}

// Unwrap returns ErrNoQuorum and the error that holds the cause of each node.
func (e *noQuorumError) Unwrap() []error { return []error{ErrNoQuorum, e.nodes} }

// errForgetful is the error of a Forgetful client where a node fails over.
var errForgetful = errors.New("redlock: a client with Forgetful takes no locks where a node fails over: its new primary would count at once")

// translate returns this package's error for one of package multiplex. refused
// is the error that stands for a refusal of the command.
func translate(err, refused error) error {
	switch {
	case err == nil:
		return nil
	case err == multiplex.ErrRefused:
		return refused
	case err == multiplex.ErrOverloaded:
		return ErrOverloaded
	case err == multiplex.ErrClosed:
		return ErrClosed
	case err == multiplex.ErrUnwatched:
		return errForgetful
	}
	if nodes := (*UndecidedError)(nil); errors.As(err, &nodes) {
		return &noQuorumError{nodes: nodes}
	}
	return err // the context's
}

// A HeldError is ErrHeld with the words of the refusing nodes, perhaps
// outdated. It is the error of all Lockers but plain ones. With Config.Owner
// any attempt may get it: if the holder has a label too and the nodes can say
// it (Redis 7.0, Valkey, or Config.Fenced). Otherwise it is ErrHeld itself.
type HeldError struct {
	// Resource is the one of several in the way; "" for a single one.
	Resource string
	// Owner and Label are the Config.Owner and the HoldOptions.Label of the
	// holder of that resource, by most of the refusing nodes; "" if unknown.
	Owner, Label string
	// Place is the caller's place in the queue of Client.Fair, from 1 on, by
	// most of the refusing nodes; 0 without one.
	Place int
	// Admitted is how many nodes said to have the caller in that queue. From a
	// quorum on, it is served before all later callers.
	Admitted int

	key  string        // which the nodes push about; "": that of the resource
	soon time.Duration // after which to try again at the latest, or 0
}

// Error says what is held, and by which client.
func (e *HeldError) Error() string {
	must(e != nil, noError)
	text := ErrHeld.Error()
	if e.Resource != "" {
		text = "redlock: " + quoted(e.Resource) + " is held"
	}
	if e.Owner != "" {
		text += " by " + strconv.Quote(e.Owner)
	}
	if e.Label != "" {
		text += " for " + strconv.Quote(e.Label)
	}
	return text
}

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// isHeld reports whether an attempt's error is ErrHeld or a HeldError.
func isHeld(err error) bool {
	if err == ErrHeld {
		return true
	}
	_, ok := err.(*HeldError)
	return ok
}
