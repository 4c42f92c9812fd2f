package redlock

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// An Inspection is what the nodes answered about one resource. It proves
// nothing: the answers may be outdated when they are read, and only a lock is a
// promise. It is for people and dashboards, and has a JSON form.
type Inspection struct {
	Resource string    // without the prefix
	State    LockState // what a quorum says
	// Holder is the fingerprint of the token that a quorum has, or "" unless
	// State is StateHeld. Compare it with Token.Fingerprint, or with the Holder
	// of another inspection. The token itself is never shown (R27).
	Holder string
	// Owner is the Config.Owner of the holder, "" if it has none or is not
	// known.
	Owner string
	// Fence is the fencing number of the holder's lock, as Lock.Fence has it,
	// if both clients have Config.Fenced: the least of those on the nodes that
	// have the holder's key. Otherwise it is 0.
	Fence uint64
	// TTL is how long a quorum keeps the holder's key if it is not renewed: the
	// quorum-th largest of the remaining times on all nodes that have it, or
	// NoExpiry if it never expires on a quorum. The holder's validity is
	// shorter (R4).
	TTL time.Duration
	// Agree is how many nodes agree with State: those that have the holder's
	// key, or those that have none. It is zero in StateUnclear.
	Agree int
	// Nodes are the answers, in the order of Config.Nodes.
	Nodes []InspectedNode
}

// An InspectedNode is what one node answered about a resource.
type InspectedNode struct {
	Addr string // without credentials
	// Holder is the fingerprint of the token in the key's value, or of the
	// whole value if that is no lock's; "" if there is no key, or one that holds
	// no string.
	Holder string
	// Owner is the label in the value: see Config.Owner. It is "" if there is
	// none, or the value is not of that form.
	Owner string
	// Fence is the last fencing number that the node has granted for the
	// resource, if this client has Config.Fenced and the node has a number and
	// a key; otherwise 0.
	Fence uint64
	// Foreign reports that the key holds no string. Until it is removed, this
	// node cannot grant a lock.
	Foreign bool
	// TTL is the time until the key expires. It is NoExpiry if the key does not
	// expire: then it was set by hand, and is no lock.
	TTL time.Duration
	// Err is why there is no answer, or nil if there is one.
	Err error
}

// NoExpiry is the TTL of a key that never expires.
const NoExpiry time.Duration = -1

// LockState is the conclusion from the nodes' answers.
type LockState string

const (
	// StateFree means that a quorum of nodes has no key: the resource is not
	// held, and an attempt now would get it. If other nodes have a key, their
	// answers show it.
	StateFree LockState = "free"
	// StateHeld means that a quorum of nodes has keys with the same token.
	StateHeld LockState = "held"
	// StateUnclear means neither: nodes did not answer, several clients are
	// asking at this moment, or the release of a failed attempt is still on its
	// way. An attempt may have to wait until the keys that are left expire.
	StateUnclear LockState = "unclear"
)

// inspectTimeout bounds an inspection if neither the context nor
// Config.NodeTimeout does. It is shorter than the one-second shed limit, so a
// slow node is reported late rather than dead.
const inspectTimeout = 900 * time.Millisecond

// Inspect asks all nodes which client holds a resource and for how long, with
// GET in a script and PTTL, and with Config.Fenced also for the lock's number.
// It changes nothing. It waits until each node has answered or failed, but at
// most until ctx ends, or if ctx has no deadline, for Config.NodeTimeout, or
// 900 ms if that is zero.
//
// The questions to a node are separate commands. If a key expires or changes
// hands between them, the answer has the value from the first and the time and
// the number from the others. A value of more than 1,024 bytes, which is no
// token, is not fetched (R32): its fingerprint is that of its SHA-1, computed
// by the node.
//
// The error is ErrNoQuorum with each silent node's cause if fewer nodes than a
// quorum answered, CancelledError if ctx ended before a quorum had answered,
// ErrClosed, or ErrResource. What is known of the nodes is returned even with
// an error.
func (c *Client) Inspect(ctx context.Context, resource string) (Inspection, error) {
	all := Inspection{Resource: resource, State: StateUnclear}
	if err := checkResource(resource); err != nil {
		return all, err
	}
	if ctx.Err() != nil {
		return all, named(resource, cancelledError(ctx, nil))
	}
	limited, cancel := c.limitInspection(ctx)
	defer cancel()
	answers, errs := c.askForKey(limited, resource)
	missing := multiplex.UndecidedError{Of: len(c.config.Nodes)}
	for i, node := range c.group.Nodes() {
		if errs[i] != nil {
			failed := nodeError(errs[i], i, node.Addr, ctx.Err() == nil)
			missing.Nodes = append(missing.Nodes, failed)
			answers[i] = InspectedNode{Err: failed}
		}
		answers[i].Addr = node.Addr
		all.Nodes = append(all.Nodes, answers[i])
	}
	quorum := multiplex.Quorum(len(all.Nodes))
	all.sumUp(quorum)
	if len(all.Nodes)-len(missing.Nodes) >= quorum {
		return all, nil
	}
	switch err := (&noQuorumError{nodes: &missing}); {
	case errors.Is(err, multiplex.ErrClosed):
		return all, ErrClosed
	case ctx.Err() != nil:
		return all, named(resource, cancelledError(ctx, err))
	default:
		return all, named(resource, err)
	}
}

// limitInspection adds a deadline to a context without one.
func (c *Client) limitInspection(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	limit := c.config.NodeTimeout
	if limit == 0 {
		limit = inspectTimeout
	}
	return context.WithTimeout(ctx, limit)
}

// nodeError returns an error that names the node that did not answer. If ours
// is set, the deadline was limitInspection's, and the cause is the node's
// timeout instead of the error of a context that the caller does not know.
func nodeError(err error, node int, addr string, ours bool) *multiplex.NodeError {
	named, ok := err.(*multiplex.NodeError)
	if !ok {
		named = &multiplex.NodeError{Node: node, Addr: addr, Err: err}
	}
	if ours && named.Err == context.DeadlineExceeded {
		named.Err = multiplex.ErrTimeout
	}
	return named
}

// askForKey asks each node for the key's value and time. An answer is valid
// only if its error is nil.
func (c *Client) askForKey(ctx context.Context, resource string) ([]InspectedNode, []error) {
	key := c.config.Prefix + resource
	answers := make([]InspectedNode, len(c.config.Nodes))
	refusals := make([]error, len(answers))
	questions := [][]byte{
		loadLook, // an inspection is rare, and the node may have lost its scripts
		resp.AppendCommand(nil, "EVALSHA", lookScript.digest, "1", key),
		resp.AppendCommand(nil, "PTTL", key),
	}
	if c.fence != nil {
		questions = append(questions, resp.AppendCommand(nil, "EVALSHA", lookScript.digest, "1", key+fenceSuffix))
	}
	errs := c.group.Query(ctx, questions, func(node, question int, v resp.Value) error {
		if v.IsError() && !isWrongType(v) {
			// The node did answer, though with an error (R24).
			refusals[node] = &multiplex.RefusalError{Class: conn.ClassOf(v)}
			return nil
		}
		switch question {
		case 0:
			if lookScript.loaded(v) != nil {
				return fmt.Errorf("%w: type %q to SCRIPT LOAD", multiplex.ErrUnexpected, v.Type())
			}
			return nil
		case 1:
			return answers[node].readValue(v)
		case 2:
			return answers[node].readTTL(v)
		}
		return answers[node].readFence(v)
	})
	for i := range errs {
		if errs[i] == nil {
			errs[i] = refusals[i]
		}
	}
	return answers, errs
}

var (
	lookScript = newScript(lua.Look)
	loadLook   = resp.AppendCommand(nil, "SCRIPT", "LOAD", lua.Look)
)

// isWrongType reports whether v is the reply of GET for a key that holds no
// string.
func isWrongType(v resp.Value) bool { return conn.ClassOf(v) == conn.ClassWrongType }

// readValue parses the reply of look.lua. It keeps only the fingerprint of the
// value.
func (n *InspectedNode) readValue(v resp.Value) error {
	switch {
	case isWrongType(v):
		n.Foreign = true
	case v.IsNull() && v.Type() != resp.Array:
	case v.Type() == resp.BulkString:
		n.Holder, n.Owner = holderOf(v.Bytes())
	default:
		return fmt.Errorf("%w: type %q to the look at the key", multiplex.ErrUnexpected, v.Type())
	}
	return nil
}

// readTTL parses the reply to PTTL, which follows that of look.lua.
func (n *InspectedNode) readTTL(v resp.Value) error {
	ms, ok := v.Int64()
	switch {
	case !ok || ms < -2 || ms > math.MaxInt64/int64(time.Millisecond):
		return fmt.Errorf("%w: no time to PTTL", multiplex.ErrUnexpected)
	case ms == -2:
		n.Holder, n.Owner, n.Foreign = "", "", false // it was there a moment ago
	case n.Holder == "" && !n.Foreign: // it was not there a moment ago
	case ms == -1:
		n.TTL = NoExpiry
	default:
		n.TTL = time.Duration(ms) * time.Millisecond
	}
	return nil
}

// readFence parses the reply of look.lua for the last number. What is no number
// is left for the attempts to report.
func (n *InspectedNode) readFence(v resp.Value) error {
	if n.Holder != "" && v.Type() == resp.BulkString && !v.IsNull() {
		n.Fence, _ = strconv.ParseUint(string(v.Bytes()), 10, 64)
	}
	return nil
}

// sumUp computes what a quorum of the answers agrees on.
func (all *Inspection) sumUp(quorum int) {
	free := 0
	type holder struct{ holder, owner string }
	holders := make(map[holder][]time.Duration)
	for _, n := range all.Nodes {
		switch {
		case n.Err != nil || n.Foreign:
		case n.Holder == "":
			free++
		default:
			key := holder{n.Holder, n.Owner}
			holders[key] = append(holders[key], n.TTL)
		}
	}
	if free >= quorum {
		all.State, all.Agree = StateFree, free
		return
	}
	for holder, times := range holders {
		if len(times) >= quorum {
			slices.SortFunc(times, longestFirst)
			all.State, all.TTL, all.Agree = StateHeld, times[quorum-1], len(times)
			all.Holder, all.Owner = holder.holder, holder.owner
			all.Fence = all.fenceOf(holder.holder)
		}
	}
}

// fenceOf returns the least number on the nodes that have a holder's key: those
// that granted the lock have its own, and one that was healed may have a higher
// one of an attempt that failed.
func (all *Inspection) fenceOf(holder string) (least uint64) {
	for _, n := range all.Nodes {
		if n.Holder == holder && n.Fence > 0 && (least == 0 || n.Fence < least) {
			least = n.Fence
		}
	}
	return least
}

// longestFirst orders remaining times; a key that never expires is the longest.
func longestFirst(a, b time.Duration) int {
	if a == NoExpiry || b == NoExpiry {
		return cmp.Compare(a, b) // it is the only one below zero
	}
	return cmp.Compare(b, a)
}

// holderOf returns what may be shown of a key's value (R27).
func holderOf(value []byte) (holder, owner string) {
	if token, owner, ok := pure.SplitValue(string(value)); ok {
		return fingerprint([]byte(token)), owner
	}
	return fingerprint(value), ""
}

// fingerprint returns the start of a value's SHA-256: enough to compare two
// values, and of no use to find a token, which has 160 random bits.
func fingerprint(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:8])
}
