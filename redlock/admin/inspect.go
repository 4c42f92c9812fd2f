package admin

import (
	"cmp"
	"context"
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
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/inside"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// An Inspection is what the nodes answered about one resource. It proves
// nothing: the answers may be outdated, and only a lock is a promise. It is for
// people and dashboards, and has a JSON form.
type Inspection struct {
	Resource string    `json:"-"`     // without the prefix
	State    LockState `json:"state"` // what a quorum says
	// Holder is the fingerprint of a quorum's token in StateHeld, otherwise "".
	// Compare it with redlock.Token.Fingerprint, or with the Holder of another
	// inspection. The token itself is never shown (R27).
	Holder string `json:"holder,omitempty"`
	// Owner is the redlock.Config.Owner of the holder, "" without one or if
	// unknown.
	Owner string `json:"owner,omitempty"`
	// Label is the redlock.HoldOptions.Label of the holder's lock, "" without
	// one.
	Label string `json:"label,omitempty"`
	// Since is when the holder's client asked for the lock, by its clock and to
	// the second. It is zero without Owner and Label.
	Since time.Time `json:"since,omitzero"`
	// Fence is the fencing number of the holder's lock, as redlock.Lock.Fence
	// has it, for two clients with redlock.Config.Fenced: the least of those on
	// the nodes with the holder's key. Otherwise it is 0.
	Fence uint64 `json:"fence,omitempty"`
	// TTL is how long a quorum keeps the holder's key without renewal: the
	// quorum-th largest of the remaining times on all nodes with the key, or
	// NoExpiry if it never expires on a quorum. The holder's validity is
	// shorter (R4).
	TTL time.Duration `json:"-"`
	// Agree is how many nodes agree with State: those with the holder's key, or
	// with none; in StateShared, those with the commonest reader or permit. It
	// is zero in StateUnclear.
	Agree int `json:"agree"`
	// Readers are those of a read/write lock (redlock.Client.RW): first those
	// of a quorum, and of these the one that stays longest. The writer is the
	// Holder.
	Readers []Participant `json:"readers,omitempty"`
	// WriterWaits reports that a writer waits for the readers, and a quorum
	// lets no new one in.
	WriterWaits bool `json:"writer_waits,omitempty"`
	// Permits is how many permits the semaphore has (redlock.Client.Semaphore)
	// by what a quorum says, or fewer nodes if only they do: the least number
	// that counts. While no permit is held it is 0: the nodes do not know.
	Permits int `json:"permits,omitempty"`
	// FreePermits is how many of them an attempt could get now: a quorum has
	// them free.
	FreePermits int `json:"-"`
	// PermitsHeld are the permits that a node has, in the order of their numbers.
	// Those of a quorum are held. There may be two with one number, and numbers
	// of Permits or more where clients differ.
	PermitsHeld []Participant `json:"permits_held,omitempty"`
	// Queue are the waiting callers of a fair lock (redlock.Client.Fair), the
	// next one first. The Holder is not among them.
	Queue []Participant `json:"queue,omitempty"`
	// Cut reports that a node may have more than MaxParticipants of one of
	// these.
	Cut bool `json:"cut,omitempty"`
	// Nodes are the answers, in the order of redlock.Config.Nodes.
	Nodes []InspectedNode `json:"nodes"`
}

// An InspectedNode is what one node answered about a resource.
type InspectedNode struct {
	Addr string `json:"addr"` // without credentials
	// Holder is the fingerprint of the token in the key's value, or of the
	// whole value of no lock; "" without a key or for a key without a string.
	Holder string `json:"holder,omitempty"`
	// Owner, Label and Since are in the value: see Inspection. They are zero
	// for a value of another form.
	Owner string    `json:"owner,omitempty"`
	Label string    `json:"label,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Fence is the node's last granted fencing number for the resource, for a
	// client with redlock.Config.Fenced and a node with a number and a key;
	// otherwise 0.
	Fence uint64 `json:"fence,omitempty"`
	// Foreign reports a key that holds no string. Before its removal, this node
	// cannot grant a lock.
	Foreign bool `json:"foreign,omitempty"`
	// TTL is the time until the key expires. It is NoExpiry for a key without
	// expiry, set by hand and no lock.
	TTL time.Duration `json:"-"`
	// Permits is how many permits the semaphore has by this node's word, 0
	// without a number that counts.
	Permits int `json:"permits,omitempty"`
	// Err is why there is no answer; otherwise nil.
	Err error `json:"-"`
}

// NoExpiry is the TTL of a key that never expires.
const NoExpiry time.Duration = -1

// LockState is the conclusion from the nodes' answers.
type LockState string

const (
	// StateFree means no key, no readers and no permits on a quorum of nodes:
	// the resource is not held, and an attempt now would get it. But waiting
	// callers of a fair lock go first, and a waiting writer keeps readers out.
	// Keys on other nodes are in their answers.
	StateFree LockState = "free"
	// StateHeld means keys with the same token on a quorum of nodes.
	StateHeld LockState = "held"
	// StateShared means the same reader, or the same permit, on a quorum of
	// nodes, and the whole resource on none: there is no Holder.
	StateShared LockState = "shared"
	// StateUnclear means none of these: nodes did not answer, several clients
	// are asking at this moment, or the release of a failed attempt is still on
	// its way. An attempt may have to wait for the expiry of leftover keys.
	StateUnclear LockState = "unclear"
)

// inspectTimeout bounds an inspection with neither a deadline nor
// redlock.Config.NodeTimeout. It is shorter than the one-second shed limit, so
// a slow node is reported late rather than dead.
const inspectTimeout = 900 * time.Millisecond

// Inspect asks all nodes which clients hold a resource and for how long, as a
// lock of any kind. It changes nothing. It waits for each node to answer or
// fail, but at most to the end of ctx. Without a deadline, it waits for
// redlock.Config.NodeTimeout (if zero, 900 ms).
//
// The questions to a node are separate commands: GET in a script and PTTL, with
// redlock.Config.Fenced the lock's number, and a script for each of readers,
// permits and waiters. For a key that expires or changes hands between them,
// the answer has the value from the first and the time and the number from the
// others. More than twenty participants of a kind cost a second round trip. A
// value too long for a token is not fetched (R32): its fingerprint is that of
// its SHA-1, computed by the node. Without the rights for read/write and fair
// locks, a user gets no answer from a node with such a lock.
//
// The error is ErrNoQuorum, with each silent node's cause, for fewer answers
// than a quorum; CancelledError if ctx ended before a quorum had answered;
// ErrClosed; or ErrResource. What is known of the nodes is returned even with
// an error.
func Inspect(ctx context.Context, client *redlock.Client, resource string) (Inspection, error) {
	return inspect(ctx, client, resource, true)
}

// InspectHolder is Inspect for the Holder alone: the nodes are not asked for
// readers, permits and a queue, so StateFree says nothing of these.
func InspectHolder(ctx context.Context, client *redlock.Client, resource string) (Inspection, error) {
	return inspect(ctx, client, resource, false)
}

// inspect is Inspect, with participants only if wanted.
func inspect(ctx context.Context, client *redlock.Client, resource string, participants bool) (Inspection, error) {
	c := inspectorOf(ctx, client)
	all := Inspection{Resource: resource, State: StateUnclear}
	if err := inside.CheckResource(resource); err != nil {
		return all, inside.Named(resource, err)
	}
	if ctx.Err() != nil {
		return all, inside.Named(resource, inside.Cancelled(ctx, nil))
	}
	limited, cancel := c.limit(ctx)
	defer cancel()
	wants := [3]bool{participants, participants, participants}
	errs := c.askFor(limited, &look{Inspection: &all, numbered: c.config.Fenced, wants: wants})
	err := c.judge(ctx, errs)
	for i, node := range c.Group().Nodes() {
		if errs[i] != nil {
			all.Nodes[i] = InspectedNode{Err: errs[i]}
		}
		all.Nodes[i].Addr = node.Addr
	}
	all.sumUp(multiplex.Quorum(len(all.Nodes)))
	return all, inside.Named(resource, err)
}

// judge makes errs name the nodes, and returns the error of a call that got no
// answer from a quorum.
func (c *inspector) judge(ctx context.Context, errs []error) error {
	missing := multiplex.UndecidedError{Of: len(errs)}
	for i, node := range c.Group().Nodes() {
		if errs[i] != nil {
			failed := nodeError(errs[i], i, node.Addr, ctx.Err() == nil)
			missing.Nodes, errs[i] = append(missing.Nodes, failed), failed
		}
	}
	if len(errs)-len(missing.Nodes) >= multiplex.Quorum(len(errs)) {
		return nil
	}
	switch err := inside.NoQuorum(&missing); {
	case errors.Is(err, multiplex.ErrClosed):
		return redlock.ErrClosed
	case ctx.Err() != nil:
		return inside.Cancelled(ctx, err)
	default:
		return err
	}
}

// An inspector asks the nodes of a client.
type inspector struct {
	inside.Client
	config redlock.Config // with its defaults
}

func inspectorOf(ctx context.Context, client *redlock.Client) *inspector {
	c := inside.Of(client)
	c.Called(ctx)
	return &inspector{c, c.Config().(redlock.Config)}
}

// limit adds a deadline to a context without one.
func (c *inspector) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	limit := c.config.NodeTimeout
	if limit == 0 {
		limit = inspectTimeout
	}
	return context.WithTimeout(ctx, limit)
}

// nodeError returns an error that names the silent node. With ours, the
// deadline was limit's: the cause is the node's timeout, not the error of a
// context unknown to the caller.
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

// A question is a command to each node, and what takes the replies.
type question struct {
	command []byte
	take    func(node int, v resp.Value) error
}

// A look is what the nodes are asked about one resource: the key's value and
// time, with numbered the lock's number, and participants of some kinds.
type look struct {
	*Inspection
	numbered bool
	wants    [3]bool
	// note, if not nil, is called with each value of the key.
	note func(node int, v resp.Value)
}

// lookBatch bounds what is asked of a node at a time, before other commands of
// this client have their turn: how many names are looked at, and how many pages
// of participants, whatever one node says that there are (R33). A server takes
// the commands 16 KiB at a time, and serves others in between.
const lookBatch = 128

// askFor asks each node for what is looked at, all in one round trip unless a
// node has many participants. The answers of a node are valid only with a nil
// error.
func (c *inspector) askFor(ctx context.Context, looks ...*look) []error {
	questions := []question{load(&lookScript)}
	var loaded [3]bool
	rolls := make([][3]*rollKind, len(looks))
	for i, l := range looks {
		key := c.config.Prefix + l.Resource
		l.Nodes = make([]InspectedNode, len(c.config.Nodes))
		questions = append(questions, l.questions(key)...)
		rolls[i] = rollsOf(key, len(c.config.Nodes))
		for kind, roll := range rolls[i] {
			if !l.wants[kind] {
				continue
			}
			if !loaded[kind] {
				loaded[kind], questions = true, append(questions, load(roll.script))
			}
			questions = append(questions, roll.ask(0))
		}
	}
	errs := c.query(ctx, questions)
	var more []question
	for i := range looks {
		more = append(more, morePages(rolls[i], errs)...)
	}
	for some := range slices.Chunk(more, lookBatch) {
		for i, err := range c.query(ctx, some) {
			errs[i] = cmp.Or(errs[i], err)
		}
	}
	for i, l := range looks {
		l.addParticipants(rolls[i], errs)
	}
	return errs
}

// questions returns those about the key itself.
func (l *look) questions(key string) []question {
	all := []question{
		{resp.AppendCommand(nil, "EVALSHA", lookScript.Digest, "1", key), func(node int, v resp.Value) error {
			if l.note != nil {
				l.note(node, v)
			}
			return l.Nodes[node].readValue(v)
		}},
		{resp.AppendCommand(nil, "PTTL", key), func(node int, v resp.Value) error {
			return l.Nodes[node].readTTL(v)
		}},
	}
	if l.numbered {
		last := resp.AppendCommand(nil, "EVALSHA", lookScript.Digest, "1", key+wire.FenceSuffix)
		all = append(all, question{last, func(node int, v resp.Value) error {
			return l.Nodes[node].readFence(v)
		}})
	}
	return all
}

// query sends the questions, and returns each node's error.
func (c *inspector) query(ctx context.Context, questions []question) []error {
	commands := make([][]byte, len(questions))
	for i, q := range questions {
		commands[i] = q.command
	}
	refusals := make([]error, len(c.config.Nodes))
	errs := c.Group().Query(ctx, commands, func(node, question int, v resp.Value) error {
		if v.IsError() && !isWrongType(v) {
			// The node did answer, though with an error (R24).
			refusals[node] = &multiplex.RefusalError{Class: conn.ClassOf(v)}
			return nil
		}
		return questions[question].take(node, v)
	})
	for i := range errs {
		errs[i] = cmp.Or(errs[i], refusals[i])
	}
	return errs
}

// load returns the command to load a script: an inspection is rare, and a node
// may have lost its scripts.
func load(s *wire.Script) question {
	return question{s.Load(), func(_ int, v resp.Value) error {
		if s.Loaded(v) != nil {
			return fmt.Errorf("%w: type %q to SCRIPT LOAD", multiplex.ErrUnexpected, v.Type())
		}
		return nil
	}}
}

var lookScript = wire.NewScript(lua.Look)

// isWrongType reports whether v is the reply of GET for a key without a string.
func isWrongType(v resp.Value) bool { return conn.ClassOf(v) == conn.ClassWrongType }

// readValue parses the reply of look.lua. It keeps only the fingerprint of the
// value.
func (n *InspectedNode) readValue(v resp.Value) error {
	switch {
	case isWrongType(v):
		n.Foreign = true
	case v.IsNull() && v.Type() != resp.Array:
	case v.Type() == resp.BulkString:
		n.be(whoOf(v.Bytes()))
	default:
		return fmt.Errorf("%w: type %q to the look at the key", multiplex.ErrUnexpected, v.Type())
	}
	return nil
}

// readTTL parses the reply to PTTL, behind that of look.lua.
func (n *InspectedNode) readTTL(v resp.Value) error {
	ms, ok := v.Int64()
	switch {
	case !ok || ms < -2 || ms > math.MaxInt64/int64(time.Millisecond):
		return fmt.Errorf("%w: no time to PTTL", multiplex.ErrUnexpected)
	case ms == -2:
		n.be(who{}) // it was there a moment ago
		n.Foreign = false
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
	holders := make(map[who][]time.Duration)
	most, sharing := all.shared()
	for i, n := range all.Nodes {
		switch {
		case n.Err != nil || n.Foreign:
		case n.Holder != "":
			holders[n.who()] = append(holders[n.who()], n.TTL)
		case !sharing[i]:
			free++
		}
	}
	switch {
	case free >= quorum:
		all.State, all.Agree = StateFree, free
		return
	case most >= quorum:
		all.State, all.Agree = StateShared, most
	}
	for holder, times := range holders {
		if len(times) >= quorum {
			slices.SortFunc(times, longestFirst)
			all.State, all.TTL, all.Agree = StateHeld, times[quorum-1], len(times)
			all.Holder, all.Owner, all.Label, all.Since = holder.holder, holder.Owner, holder.Label, holder.since
			all.Fence = all.fenceOf(holder.holder)
		}
	}
}

// fenceOf returns the least number on the nodes with a holder's key: a granting
// node has the lock's own, and a healed one may have a higher one of a failed
// attempt.
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

// A who is what may be shown of a value (R27).
type who struct {
	holder string // the fingerprint
	pure.Labels
	since time.Time
}

// whoOf returns what may be shown of a key's value.
func whoOf(value []byte) who {
	if v, ok := pure.ParseValue(string(value)); ok {
		return who{pure.Fingerprint([]byte(v.Token)), v.Labels, v.Since}
	}
	return who{holder: pure.Fingerprint(value)}
}

func (n *InspectedNode) who() who {
	return who{n.Holder, pure.Labels{Owner: n.Owner, Label: n.Label}, n.Since}
}

// be sets what who returns.
func (n *InspectedNode) be(w who) {
	n.Holder, n.Owner, n.Label, n.Since = w.holder, w.Owner, w.Label, w.since
}
