package multiplex

import (
	"errors"
	"fmt"
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

// Allow overrides, one by one, the checks that a server must pass to get a vote (R22). The zero value allows nothing.
type Allow struct {
	// SameServer lets two addresses of one server be two votes: for tests only, and in two databases of it, since in one
	// the second address finds the key there that the first has set. One server that fails is then two votes lost.
	SameServer bool
	// Replica takes a server that says it is a replica.
	Replica bool
	// Cluster takes a server in cluster mode, whose keys may move away.
	Cluster bool
	// Sentinel takes a sentinel.
	Sentinel bool
	// Eviction keeps silent about a server that may evict keys. It is not refused without it either.
	Eviction bool
	// OtherMaxTTL takes a node whose seal was written with another MaxTTL; the longer one is then reckoned with on all
	// nodes, and written into their seals (R23).
	OtherMaxTTL bool
}

// A Seal says how the seal is read and written: a key on each node that says for how long the process that holds it has been
// watched (R23), so that not every client has to watch for itself. The group knows neither the key's name nor the script.
// The zero Seal is none; then each client watches.
type Seal struct {
	// Read is the command that is answered with the value, or null.
	Read []byte
	// Write gives the command that stores a value unless what is there says more. It is answered with 1 when a seal of the
	// same process stands there that says at least as much, and with 0 when the key holds something else, which is left
	// alone. A node that answers NOSCRIPT gets Config.Cure before the next try.
	Write func(value string) []byte
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

// isNew is the declaration that the deployment is new, where there are seals to write: without them, whoever comes later could
// not tell.
func (c *Config) isNew() bool {
	return c.New && c.MaxTTL > 0 && c.Seal.Read != nil && c.Seal.Write != nil
}
