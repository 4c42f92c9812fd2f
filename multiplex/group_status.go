package multiplex

import (
	"slices"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

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

// A State is where a node stands in its life. Its String is its name in lower case.
type State = pure.State

const (
	// Down: no connection; the next attempt waits for its time.
	Down = pure.Down
	// Dialing: one attempt to connect and shake hands is under way.
	Dialing = pure.Dialing
	// Fencing: the commands of the connection before are being made harmless (R8).
	Fencing = pure.Fencing
	// Paying: releases that this node still owes are executed first (R8).
	Paying = pure.Paying
	// Up: the node gets every command, and its votes count.
	Up = pure.Up
	// Shed: its connection was broken from here (R26); it gets no new commands.
	Shed = pure.Shed
	// Stopped: the group was closed.
	Stopped = pure.Stopped
)

// Nodes returns the status of each node, in the order of the configuration.
func (g *Group) Nodes() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Status, 0, g.size)
	for _, n := range g.nodes {
		s := Status{
			Addr: n.addr, State: n.life.State, Server: n.server, Debts: len(n.ledger.Debts),
			Connects: n.counters.connects, Deaths: n.counters.ended, Sheds: n.counters.sheds, ReplyTime: time.Duration(n.replyTime.Load()),
		}
		s.Polled, s.Counts = n.polled.Load() != nil, n.countsLocked()
		if n.life.State != Up && n.fault != nil {
			s.Err = n.fault.err
		}
		tellTrust(n.trust.Trust, &s, g.now())
		s.Warnings = slices.Clone(n.trust.warnings)
		all = append(all, s)
	}
	return all
}

// tellTrust puts into a node's status what there is to tell.
func tellTrust(t pure.Trust, s *Status, now time.Duration) {
	s.Sealed = t.Sealed > 0
	if s.State != Up {
		t = t.At(now) // it will count when it joins; one that is up counts when the watch has looked
	}
	if !t.Trusted && t.Need > 0 {
		s.Quarantined, s.QuarantineLeft, s.QuarantineWhy = true, t.Left(now), t.Why
	}
}
