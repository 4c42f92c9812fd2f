package redlock

import (
	"errors"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
)

// Why a hold's context ended, as context.Cause and Hold.Err return it.
var (
	// ErrLost is the cause if the lock may no longer be held. The error is a
	// *LostError.
	ErrLost = errors.New("redlock: lock was lost")
	// ErrMaxHold is the cause if the hold has lasted for HoldOptions.MaxHold.
	// The lock is not lost then: no other client can have it before its release
	// or the end of its validity.
	ErrMaxHold = errors.New("redlock: lock was held for as long as it may be")
	// ErrReleased is the cause after Hold.Release or Hold.Detach. It is also in
	// the error of a failed RWLock.Downgrade that gave up the write lock.
	ErrReleased = errors.New("redlock: lock was released")
)

// A LostError is ErrLost with what is known of its reason: what each node
// answered to the last renewal.
type LostError struct {
	// Resource is the resource, without the prefix. Logger and Tracer get the
	// error without it.
	Resource string
	// NotHeld reports that too few nodes for a quorum still held the lock for
	// us. Otherwise its validity ended.
	NotHeld bool
	// Nodes are the answers to the last renewal, in the order of Config.Nodes.
	// There are none without a question since the last grant.
	Nodes []NodeAnswer
}

// A NodeAnswer is what one node answered to a renewal.
type NodeAnswer struct {
	Node int    // index in Config.Nodes
	Addr string // without credentials
	// Err is nil if the node renewed the lock, and ErrNotHeld if it does not
	// hold the lock for us, with the reason if another server has taken the
	// node's place. Otherwise it is why there is no answer, such as
	// ErrNodeTimeout or ErrNodeDown; the text of a LostError leaves out a node
	// that was up but not asked, since too few others were up.
	Err error
}

// Error names the resource, and each node with its answer, but no token (R27).
func (e *LostError) Error() string {
	must(e != nil, noError)
	text := ErrLost.Error()
	if e.Resource != "" {
		text = "redlock: " + quoted(e.Resource) + ": " + errtext.Text(ErrLost)
	}
	if e.NotHeld {
		text += ": it is not ours any more"
	} else {
		text += ": its validity ended"
	}
	answers := multiplex.UndecidedError{Of: len(e.Nodes)}
	for _, n := range e.Nodes {
		said := n.Err
		switch said {
		case nil:
			said = errRenewed
		case errNotAsked:
			continue // nothing is wrong with this one
		}
		answers.Nodes = append(answers.Nodes, &multiplex.NodeError{Node: n.Node, Addr: n.Addr, Err: said})
	}
	return withCauses(text, &answers)
}

// anonymous returns the error without the resource (R27).
func (e *LostError) anonymous() *LostError {
	return &LostError{NotHeld: e.NotHeld, Nodes: e.Nodes}
}

// errRenewed gives the text for a node that renewed the lock.
var errRenewed = errors.New("renewed")

// Unwrap returns ErrLost and the error of each node: errors.Is finds a cause on
// any node.
func (e *LostError) Unwrap() []error {
	must(e != nil, noError)
	all := []error{ErrLost}
	for _, n := range e.Nodes {
		if n.Err != nil {
			all = append(all, n.Err)
		}
	}
	return all
}

var (
	errNoAnswerYet = errors.New("redlock: no answer yet")
	errNotAsked    = errors.New("redlock: up, but the others were too few")
)

// An account is the outcome of a failed renewal.
type account struct {
	err     error
	answers []multiplex.Answer // none if nothing was sent
}

// underWay is the account of a renewal without an outcome yet.
var underWay = &account{err: errNoAnswerYet}

// lostError makes an account an error. A nil one means no question to any node.
// addrs are the addresses of all nodes.
func lostError(resource string, notHeld bool, a *account, addrs []string) *LostError {
	e := &LostError{Resource: resource, NotHeld: notHeld}
	if a == nil {
		return e
	}
	for i, addr := range addrs {
		e.Nodes = append(e.Nodes, NodeAnswer{Node: i, Addr: addr, Err: a.answerOf(i)})
	}
	return e
}

// answerOf returns what the account says of one node.
func (a *account) answerOf(node int) error {
	if node < len(a.answers) {
		switch answer := a.answers[node]; answer.Vote {
		case multiplex.Granted:
			return nil
		case multiplex.Refused:
			if answer.Err != nil {
				return errtext.Wrap(errtext.Text(ErrNotHeld)+": "+errtext.Text(answer.Err), ErrNotHeld, answer.Err)
			}
			return ErrNotHeld
		case multiplex.Failed:
			return answer.Err
		default:
			return errNoAnswerYet
		}
	}
	var missing *multiplex.UndecidedError
	if !errors.As(a.err, &missing) {
		// Overloaded, closed, or no answer yet: the same for all nodes.
		return translate(a.err, nil)
	}
	for _, n := range missing.Nodes {
		if n.Node == node {
			return n.Err
		}
	}
	return errNotAsked // too few of the other nodes were up
}
