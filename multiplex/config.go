package multiplex

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Config describes a group. Nodes must be set; the zero value of every other
// field works. A group keeps what it is given: do not change the slices after
// New.
type Config struct {
	// Nodes are the 1 to 16 masters (R1). NodeError and Set refer to them by
	// index.
	Nodes []conn.Config
	// VoteTimeout is how long the group waits for a node's vote. If zero,
	// it follows R6: TTL/200 within 5–50 ms, or four times the node's
	// smoothed reply time, whichever is larger, but at most a tenth of the
	// TTL. A starved process waits for a tenth of the TTL if the outcome
	// would be unknown without the missing votes.
	VoteTimeout time.Duration
	// ShedAfter is the age of the oldest unanswered command at which a
	// connection is given up (R26). For commands sent to this node alone it
	// is at least a second. If zero, it is the larger of 100 ms and four
	// times the vote timeout. A node gets five times that if it still
	// answers, or another one is as far behind.
	ShedAfter time.Duration
	// MaxPending is how many rounds may wait for answers before new claims and
	// extensions are refused with ErrOverloaded (R26). If zero, 32,768.
	//
	// Under very high load a lagging node is given up before ShedAfter. One
	// case is a lag of MaxPending/2 rounds behind another node with three
	// quarters of MaxPending taken. The other is a lag of 8,192 rounds,
	// overdue by 25 ms and twice the reply time. Each round that waits for
	// a node costs half a KiB, and so does each release that it then owes.
	MaxPending int
	// MaxDebts is how many releases a node may owe before it gets no new claims
	// (R8). If zero, 65,536.
	MaxDebts int
	// DriftFactor bounds how much the clocks of nodes and clients may differ in
	// rate, as a fraction (R4). If zero, 0.01.
	DriftFactor float64
	// Cure holds the commands that load the scripts again after NOSCRIPT
	// (R24). Each has one reply, which is ignored.
	Cure [][]byte
	// Replies bounds each reply and each push of a node that is up. A reply
	// beyond it ends the connection (R32). If zero, 64 elements, 4 levels, 4
	// KiB for a line, and 64 KiB each for a string and the whole, which is
	// enough for INFO of a primary with 200 replicas.
	Replies resp.Limits
	// OnChange, if not nil, is called for each change of a node's state; see
	// Change. It is called under the group's mutex: it must not wait, nor call
	// the group.
	OnChange func(Change)
	// ProbeAfter is how long a connection may be idle before it is probed
	// with PING (R26). If a peer closes idle connections, they are from
	// then on probed after a third of the time allowed, but not before 250
	// ms. If zero, 5 s.
	ProbeAfter time.Duration
	// MaxTTL is the longest TTL of any claim or extension by any client of
	// these nodes. All clients must set the same. A node that may have
	// forgotten keys is quarantined for as long as a key can live (R23). It
	// is cut to whole milliseconds. The TTLs of commands are not checked
	// against it. If zero, a node counts as soon as it is up.
	MaxTTL time.Duration
	// Seal says how to store the proof that a node needs no quarantine. If
	// zero, each client watches for itself.
	Seal Seal
	// Floors says how the nodes' floors are read and written. It must be set if
	// claims have fencing numbers (docs/fencing.md; ClaimKind.Numbered). A node
	// whose process was given no floor gets every command, but its grants of
	// such claims do not count. It needs Seal.
	Floors Floors
	// OnClock, if not nil, is called after each measurement with the median
	// of how far the nodes' clocks are ahead of this process's. It is
	// called under the group's mutex: it must not wait, nor call the group.
	OnClock func(ahead time.Duration)
	// OnNumber, if not nil, is called after each look with the highest
	// fencing number remembered by a quorum of nodes, or a higher one. It
	// is called as OnClock is.
	OnNumber func(common int64)
	// Durable is the set of nodes that keep their keys over a restart. A
	// restart does not quarantine them. Like other nodes they must wait
	// until their deployment has been open for long enough (R29, R30). If
	// zero, none.
	Durable Set
	// Found makes the group open the set, and nothing else. It asserts that
	// no claim granted by these nodes can still be valid. So they count at
	// once (R30). It needs Seal. If zero, the group still opens a set that
	// is not open. The nodes are watched first, unless they show a run that
	// was long enough (R29).
	Found bool
	// Replace has the ids of former deployments of these nodes that are over.
	// With Found, their seals are overwritten; the nodes are then watched. If a
	// former one had a longer MaxTTL, the group waits for the difference first.
	// If zero, none.
	Replace []string
	// LookBehind makes the group dial each node once more after its first
	// connection, at each address of its name. It warns of another server
	// there (R22). If zero, only the run ids of later connections are
	// compared.
	LookBehind bool
	// Allow overrides checks on servers. If zero, all are made.
	Allow Allow
	// Remarks, if not nil, returns further warnings about a server after
	// its handshake. It must not wait, nor keep the server.
	Remarks func(*conn.Server) []string
}

// Allow overrides checks that a server must pass to get a vote (R22), one by
// one. The zero value allows nothing.
type Allow struct {
	// SameServer gives two addresses of one server two votes. It is for
	// tests without a MaxTTL only, with two databases of the server: in one
	// database the second address would find the key that the first has
	// set, and with a MaxTTL a server belongs to a deployment with one
	// database (R30). A failure of that server costs two votes.
	SameServer bool
	// Replica, Cluster and Sentinel accept servers that say that they are one. A
	// failover then forgets locks, and keys of a cluster may move away.
	Replica, Cluster, Sentinel bool
	// Eviction suppresses the warning about a server that may evict keys. Such
	// a server is never refused.
	Eviction bool
	// MissingPermissions accepts servers that refuse the trial of a necessary
	// command, with a warning. The package above makes the steps of its Prelude
	// optional. If a user may set keys but not run the scripts, locks stay until
	// their TTL ends.
	MissingPermissions bool
	// OtherMaxTTL accepts a node whose seal was written with another MaxTTL.
	// The longer one then applies to all nodes, bounds their quarantines and is
	// written into their seals (R23). Set it on all clients during the rollout
	// of a longer MaxTTL, and at no other time.
	OtherMaxTTL bool
}

// A Seal says how to read and write a key on each node, the seal. It names the
// deployment of the node, or a set that clients are about to open with it, and
// says how long its process has been watched (R23, R30). The group knows
// neither the name of the key nor the script. The zero Seal stores nothing;
// each client then watches for itself, and deployments are not told apart.
type Seal struct {
	// Read is the command that returns the seal, or null.
	Read []byte
	// Write returns the command that changes the seal as its arguments say;
	// they are those of internal/lua/seal.lua. The reply is 1 for done, and
	// 0 if something there forbids it. A node that replies NOSCRIPT gets
	// Config.Cure before the next try.
	Write func(args ...string) []byte
}

// Floors says how a node's record of fencing numbers is read, and how it gets
// its floor. The group knows neither the name of the key nor the script.
type Floors struct {
	// Read is the command that returns the record, or null.
	Read []byte
	// Write returns the command that gives the process with a run id a
	// floor, provided that its seal has the given value. The reply is 1, or
	// 0 if it is not.
	Write func(seal, run string, floor int64) []byte
}

// stored reports whether seals can be read and written.
func (s *Seal) stored() bool { return s.Read != nil && s.Write != nil }

func (c Config) withDefaults() Config {
	c.MaxPending = cmp.Or(c.MaxPending, 32768)
	c.MaxDebts = cmp.Or(c.MaxDebts, 65536)
	c.DriftFactor = cmp.Or(c.DriftFactor, pure.DefaultDriftFactor)
	c.ProbeAfter = cmp.Or(c.ProbeAfter, 5*time.Second)
	c.Replies.Elements = cmp.Or(c.Replies.Elements, maxMerged)
	c.Replies.Depth = cmp.Or(c.Replies.Depth, 4)
	c.Replies.Line = cmp.Or(c.Replies.Line, maxLine)
	c.Replies.Bulk = cmp.Or(c.Replies.Bulk, maxReply)
	c.Replies.Size = cmp.Or(c.Replies.Size, maxReply)
	c.MaxTTL = c.MaxTTL.Truncate(time.Millisecond)
	return c
}

const (
	// maxReply bounds the bytes of a reply (R32). The longest that is asked for
	// is INFO replication, with a line for each replica: no command tells the
	// replication history without them.
	maxReply = 64 << 10
	// maxLine bounds an error and a head.
	maxLine = 4 << 10
)

func (c Config) check() error {
	if n := len(c.Nodes); n < 1 || n > MaxNodes {
		return fmt.Errorf("multiplex: a group has 1 to %d nodes, not %d", MaxNodes, n)
	}
	if !(c.DriftFactor >= 0 && c.DriftFactor < 1) { // nor NaN
		return fmt.Errorf("multiplex: DriftFactor is %v: it must be at least 0 and less than 1", c.DriftFactor)
	}
	if err := cmp.Or(
		errtext.Negative("VoteTimeout", c.VoteTimeout), errtext.Negative("ShedAfter", c.ShedAfter),
		errtext.Negative("MaxPending", c.MaxPending), errtext.Negative("MaxDebts", c.MaxDebts),
		errtext.Negative("ProbeAfter", c.ProbeAfter),
	); err != nil {
		return fmt.Errorf("multiplex: %w", err)
	}
	for i := range c.Nodes {
		if err := c.Nodes[i].Check(); err != nil {
			return fmt.Errorf("multiplex: node %d (%s): %w", i, c.Nodes[i].Endpoint, err)
		}
		if err := c.checkFailover(i); err != nil {
			return fmt.Errorf("multiplex: node %d (%s) fails over: %w", i, c.Nodes[i].Endpoint, err)
		}
	}
	if c.MaxTTL != 0 && (c.MaxTTL < time.Millisecond || c.MaxTTL > pure.LongestTTL) {
		return fmt.Errorf("multiplex: MaxTTL is %v: it must be between 1ms and %v", c.MaxTTL, pure.LongestTTL)
	}
	return nil
}

// checkFailover refuses what would make a node that fails over unsafe.
func (c *Config) checkFailover(i int) error {
	switch f := c.Nodes[i].Endpoint.Failover; {
	case !f.Expected:
		return nil
	case c.Durable.Has(i):
		return errors.New("it is not durable: a durable primary loses what was not replicated")
	case f.Bound > 0 && f.Bound < time.Millisecond || f.Bound > pure.LongestTTL:
		return fmt.Errorf("the bound is %v: it must be between 1ms and %v", f.Bound, pure.LongestTTL)
	case c.Floors.Read != nil && len(c.Nodes) == 1:
		return errors.New("the fencing numbers of a single node would be lost with it")
	}
	return nil
}

// sealed reports whether seals are kept.
func (c *Config) sealed() bool { return c.MaxTTL > 0 && c.Seal.stored() }
