package multiplex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Config describes a group. Nodes must be set; everything else works as zero.
type Config struct {
	// Nodes are the 1 to 16 masters (R1), in an order that NodeError and Set refer to.
	Nodes []conn.Config
	// VoteTimeout is how long a node's vote is waited for. If zero, it follows R6: TTL/200 within 5–50 ms, or four times
	// the node's smoothed reply time if that is larger, and at most a tenth of the TTL.
	VoteTimeout time.Duration
	// ShedAfter is the age of the oldest unanswered command at which a connection is given up (R26), but at least a second
	// for what concerns this node alone. If zero, 100 ms or four times the vote timeout, whichever is larger, and five
	// times that for a node that no other is ahead of, or that still answers.
	ShedAfter time.Duration
	// MaxPending is how many rounds may wait for answers before new claims and extensions are refused with ErrOverloaded
	// (R26). If zero, 32,768. A node that is half as many rounds behind another is given up when three quarters of them are
	// taken, and one that is 8,192 behind when it is overdue, for 25 ms and twice its reply time: under very high load both come
	// before ShedAfter. What waits for a node, and what it owes then, is half a KiB for each round.
	MaxPending int
	// MaxDebts is how many releases a node may owe before it gets no new claims (R8). If zero, 65,536.
	MaxDebts int
	// Drift is the factor by which the clocks of nodes and clients may differ in rate (R4). If zero, 0.01.
	Drift float64
	// Cure are the commands that make a node know the scripts again that it answered NOSCRIPT to (R24); their replies,
	// one each, are ignored.
	Cure [][]byte
	// Portable has each connection read by a goroutine of its own, as on systems without a poller. If zero, callers read
	// from all plain TCP and unix sockets by themselves where that can be had (Linux); over TLS, and over what a NetDial
	// returned, it is never so.
	Portable bool
	// Replies bound each reply and each push of a node that is up, whose connection one that exceeds them ends (R32). Every
	// reply that a group asks for is far smaller. If zero, 64 elements, 4 levels, and 4 KiB for a line, a string and the whole.
	Replies resp.Limits
	// OnChange, if not nil, is told of each change of a node's state that is news; see Change. It is called under the group's
	// mutex: it must not wait, nor call the group.
	OnChange func(Change)
	// ProbeAfter is how long a connection may be idle before it is probed with PING (R26): at most, since connections that a
	// peer closes for their idleness are probed after a third of that time from then on, but not before 250 ms. If zero, 5 s.
	ProbeAfter time.Duration
	// MaxTTL is the longest TTL of any claim or extension by any client of these nodes, which must all set the same: a node
	// that may have forgotten keys is quarantined until what had so long a TTL has run out (R23). It is cut to whole
	// milliseconds, and Command.TTL is not held against it. If zero, a node counts as soon as it is up.
	MaxTTL time.Duration
	// Seal says how to keep the proof that a node needs no quarantine. If zero, each client watches for itself.
	Seal Seal
	// Durable are nodes that forget nothing when they restart, and are never quarantined. If zero, none.
	Durable Set
	// New declares that no claim was ever granted by these nodes, so that they count at once. It has effect once, and only
	// if all nodes are connected at one time and none carries a seal of any sort, before one of them was watched for long
	// enough or restarted. What remains is a danger: if it is still set when all nodes have restarted empty at the same time,
	// the locks from before are forgotten. If zero, they have to be watched. It needs Seal.
	New bool
	// Allow overrides checks on servers. If zero, all are made.
	Allow Allow
	// Remarks, if not nil, is asked what else to warn of about a server that shook hands. It must not wait, and keeps nothing
	// of it.
	Remarks func(*conn.Server) []string
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxPending, 32768)
	setDefault(&c.MaxDebts, 65536)
	setDefault(&c.Drift, 0.01)
	setDefault(&c.ProbeAfter, 5*time.Second)
	setDefault(&c.Replies.Elements, mergeMost)
	setDefault(&c.Replies.Depth, 4)
	setDefault(&c.Replies.Line, replyMost)
	setDefault(&c.Replies.Bulk, replyMost)
	setDefault(&c.Replies.Size, replyMost)
	c.MaxTTL = c.MaxTTL.Truncate(time.Millisecond)
	return c
}

// replyMost bounds the bytes of a reply (R32).
const replyMost = 4 << 10

func setDefault[T int | float64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) check() error {
	if n := len(c.Nodes); n < 1 || n > MaxNodes {
		return fmt.Errorf("multiplex: a group has 1 to %d nodes, not %d", MaxNodes, n)
	}
	if !(c.Drift >= 0 && c.Drift < 1) { // nor NaN
		return fmt.Errorf("multiplex: Drift is %v: it must be at least 0 and less than 1", c.Drift)
	}
	if c.VoteTimeout < 0 || c.ShedAfter < 0 || c.MaxPending < 0 || c.MaxDebts < 0 || c.ProbeAfter < 0 {
		return errors.New("multiplex: a limit is negative")
	}
	for i := range c.Nodes {
		if err := c.Nodes[i].Check(); err != nil {
			return fmt.Errorf("multiplex: node %d (%s): %w", i, c.Nodes[i].Endpoint, err)
		}
	}
	if c.MaxTTL != 0 && (c.MaxTTL < time.Millisecond || c.MaxTTL > pure.LongestTTL) {
		return fmt.Errorf("multiplex: MaxTTL is %v: it must be between 1ms and %v", c.MaxTTL, pure.LongestTTL)
	}
	return nil
}

// A Kind describes a sort of command: what its replies mean and how its rounds are decided. Kinds are made once, as
// package variables, so that a round carries a pointer only.
type Kind struct {
	// Mode says when a round is decided.
	Mode Mode
	// Judge gives the vote that a reply is. It is called with any reply but an error, keeps nothing of it, and answers
	// Alien for a type that cannot answer the command, which ends the connection (R16).
	Judge func(resp.Value) Vote
	// Script marks commands that name a script by its digest: a node that lost it gets it again, and then the same
	// command again, on the same connection (R24).
	Script bool
	// Release marks commands that undo a claim: they are let in when others are refused, and a node that does not
	// confirm one owes it (R8).
	Release bool
	// Undo is the kind of a command's Undo.
	Undo *Kind
	// Merger, for releases and extensions, merges those that are awaited and wait for the same flush. If nil, none are.
	Merger *Merger
	// Native, for releases, are other forms of the same command, the best first: the first that every node has which is up
	// is what goes into the log, and merges nothing (R25). If nil, or where nodes have none in common, the command as given.
	Native []Form
	// Behind gives the command its place behind all that wait to be merged, which it would overtake otherwise: it may undo one
	// of those.
	Behind bool
	// Creates marks a script that may set a key which was not there. It is not sent again after a node has lost it, or it would
	// come behind the release that stood behind it, which may be native or know its script already, and leave a key that
	// nobody undoes (R8): its vote has failed, and the node gets the script for the next time.
	Creates bool
}

// A Command is what Ask and Tell send. It is read during the call only; its bytes are copied, so they may stand in the
// caller's frame.
type Command struct {
	Bytes []byte
	// Key says where in Bytes, or for a claim in Undo, the encoded key lies, for a kind that is merged or has a native form;
	// what follows it are the command's other arguments.
	Key Part
	// TTL is the life of the key that the command is about; it bounds vote timeouts (R6) and debts (R8).
	TTL time.Duration
	// Receipt is, for a release, what Ask returned for the claim that it undoes, and for an extension, for the claim that it
	// lengthens: see Receipt.Doubted.
	Receipt Receipt
	// Undo, for a claim, is the release that goes to every node if the round ends without a quorum of grants, or Late (R7).
	Undo []byte
	// Late, if not nil, is asked once a quorum granted: whether that was too late to be of use. It must not wait.
	Late func() bool
	// Queued, if not nil, is called by Ask once the command has its place in the log, for a kind without a Merger: whatever
	// is asked from then on stands behind it on every connection. It must not wait.
	Queued func()

	// Patience is how long votes on a posted command are waited for at least, where Config.VoteTimeout says nothing: who posts
	// may have time, and an answer that comes is better than the same question again. If zero, no longer than on others.
	Patience time.Duration
}

// A Part is a part of a command's bytes, from one offset to another.
type Part struct{ From, To int }

// A Receipt says where a claim went, so that its release knows who may hold the key.
type Receipt struct {
	// Sent are the nodes that the claim was queued for.
	Sent Set
	// Doubted are those of them that were quarantined then. A key that was set there proves nothing about what such a node
	// forgot before, so an extension of it does not count while the node is quarantined (R10, R23). Nor does it in another
	// quarantine later, though the key is older than that, unless whoever keeps the receipt ends the doubt.
	Doubted Set
	// Pos is its place in the log.
	Pos uint64
}

// A Group asks N nodes at once. All its methods may be called from any goroutine.
type Group struct {
	config   Config
	size     int
	quorum   int
	nodes    []*node
	poller   *poller   // nil: each node's goroutine reads for itself
	unpolled error     // why there is no poller, where there should be one
	epoch    time.Time // the zero of the group's clock, which is monotonic

	mu       sync.Mutex // guards the following, the nodes' guarded fields, and the log
	log      broadcast
	live     Set      // nodes that get new rounds
	accepted []string // optional steps of the handshake that all live nodes accepted; see agree
	gathered []*round // awaited releases and extensions that the next flush merges
	unpacked int      // bytes of those among them that were posted
	flushing bool
	holding  bool          // nobody flushes: whoever hands out answers will
	lanes    bool          // some node's lane waits to be written
	refusing bool          // no new work but releases
	closing  bool          // Close was called
	closed   bool          // nothing is sent any more
	tickAt   atomic.Int64  // when the watch looks next, on the group's clock; also read without the mutex
	timer    *time.Timer   // wakes the watch; its Reset needs the mutex
	longest  time.Duration // TTL asked for so far, for ledgers
	changed  chan struct{} // closed and replaced when a node's state changes

	// quarantined are the nodes whose grants must not make a lock (R23), whether or not they are live. Guarded by mu, as
	// the two that follow.
	quarantined Set
	maxTTL      time.Duration // Config.MaxTTL, or what a seal said that is longer
	debut       pure.Debut
	tracker     tracker // tells waiters of keys that changed

	// claims are the calls of Ask, and those that Detain counts, that may have to undo something; Close waits for them (R28).
	claims atomic.Int64

	// sulking is until when nobody yields, on the group's clock.
	sulking atomic.Int64

	// The following are owned by whoever has the flusher's role.
	outgoing []outgoing
	busy     bool // several rounds are unanswered: more will come if one yields

	handover chan struct{}
	stop     context.CancelFunc
	stopped  context.Context
	wg       sync.WaitGroup
	gone     chan struct{} // closed when Close is through
	excused  time.Duration // guarded by mu: until then the watch believes that we were starved, not the nodes
}

// New starts connecting to the nodes and returns at once. It fails only for a configuration that cannot work.
func New(config Config) (*Group, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	g := &Group{
		config:   config,
		size:     len(config.Nodes),
		quorum:   Quorum(len(config.Nodes)),
		epoch:    time.Now(),
		changed:  make(chan struct{}),
		handover: make(chan struct{}, 1),
		gone:     make(chan struct{}),
		outgoing: make([]outgoing, len(config.Nodes)),
		stopped:  ctx,
		stop:     stop,
		maxTTL:   config.MaxTTL,
		debut:    pure.Debut{Open: config.isNew()},
	}
	g.log.init()
	for i, c := range config.Nodes {
		g.nodes = append(g.nodes, newNode(g, i, c))
	}
	g.tickAt.Store(int64(config.ProbeAfter))
	g.timer = time.NewTimer(max(pure.Soon, config.ProbeAfter))
	if g.poller = newPoller(g); g.poller != nil {
		g.wg.Go(g.poller.serveOthers)
	}
	g.wg.Go(g.watch)
	g.wg.Go(g.flushForOthers)
	for _, n := range g.nodes {
		g.wg.Go(n.run)
	}
	return g, nil
}

// now is the time on the group's clock.
func (g *Group) now() time.Duration { return time.Since(g.epoch) }

// Ready waits until a quorum of nodes counts: is up and not quarantined (R23). When ctx ends first, the error is the
// context's and an *UndecidedError that says what each missing node lacks; when the group is closed, ErrClosed.
func (g *Group) Ready(ctx context.Context) error {
	return g.waitUntil(ctx, func() bool { return g.counting().Len() >= g.quorum })
}

// Begun waits until a quorum of nodes is up, or each node is up or has failed once.
func (g *Group) Begun(ctx context.Context) error {
	return g.waitUntil(ctx, func() bool { return g.live.Len() >= g.quorum || g.tried() })
}

// Tried waits until each node is up or has failed once.
func (g *Group) Tried(ctx context.Context) error { return g.waitUntil(ctx, g.tried) }

func (g *Group) tried() bool {
	for _, n := range g.nodes {
		if !n.tried {
			return false
		}
	}
	return true
}

// waitUntil waits for a condition on the nodes' states, which is asked under the mutex.
func (g *Group) waitUntil(ctx context.Context, holds func() bool) error {
	for {
		g.mu.Lock()
		ok, changed := holds(), g.changed
		g.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), g.missing())
		case <-g.stopped.Done():
			return ErrClosed
		}
	}
}

// missing is an UndecidedError about the nodes that do not count.
func (g *Group) missing() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.absent(g.counting())
}

// A Status is what is known of one node.
type Status struct {
	Addr   string
	State  State
	Server conn.Server // what it said of itself when it was last connected
	Debts  int         // releases that it owes (R8)
	// Connects counts connections that shook hands, Deaths connections that ended, Sheds those of them that were given
	// up here for silence or a full backlog (R26).
	Connects, Deaths, Sheds int
	// Polled says that callers read this node's replies by themselves, not a goroutine; see Config.Portable.
	Polled bool
	// Counts are what happened so far.
	Counts Counts
	// ReplyTime is the smoothed time to a reply.
	ReplyTime time.Duration
	// Err is why the node is not up, nil when it is.
	Err error
	// Quarantined says that the node's grants do not count yet (R23), QuarantineLeft for how long if it stays connected and
	// no seal ends that before, and QuarantineWhy what began it. They are zero for a node that counts once it is up.
	Quarantined    bool
	QuarantineLeft time.Duration
	QuarantineWhy  string
	// Sealed says that a seal of the node's process is known to stand.
	Sealed bool
	// Warnings are what was remarkable about the server when it was last connected (R22), one sentence each. The slice is
	// the caller's.
	Warnings []string
}

// Nodes returns the status of each node, in the order of the configuration.
func (g *Group) Nodes() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Status, 0, g.size)
	for _, n := range g.nodes {
		s := Status{
			Addr: n.addr, State: n.life.State, Server: n.server, Debts: len(n.ledger.Debts),
			Connects: n.connects, Deaths: n.deaths, Sheds: n.sheds, ReplyTime: time.Duration(n.replyTime.Load()),
		}
		s.Polled, s.Counts = n.polled.Load() != nil, n.counts()
		if n.life.State != Up && n.fault != nil {
			s.Err = n.fault.err
		}
		tellTrust(n.trust, &s, g.now())
		s.Warnings = slices.Clone(n.warnings)
		all = append(all, s)
	}
	return all
}
