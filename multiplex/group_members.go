package multiplex

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex/internal/member"
	"github.com/redmux/redmux/resp"
)

func newMembers(g *Group) *member.Members {
	c := g.config
	of := member.Config{
		Epoch: g.epoch, MaxTTL: c.MaxTTL, ProbeAfter: c.ProbeAfter, DriftFactor: c.DriftFactor, Durable: c.Durable, Found: c.Found,
		Replace: c.Replace, OtherMaxTTL: c.Allow.OtherMaxTTL, ReadSeal: c.Seal.Read, WriteSeal: c.Seal.Write,
		ReadRecord: c.Floors.Read, WriteFloor: c.Floors.Write, OnClock: c.OnClock, OnNumber: c.OnNumber,
	}
	for i := range c.Nodes {
		e := &c.Nodes[i].Endpoint
		of.Nodes = append(of.Nodes, member.Address{Addr: e.String(), Home: e.Home(), DB: e.DB, Failover: e.Failover})
	}
	return member.New(of, host{&g.mu, g})
}

// A host is the group as package member sees it: see member.Host for what each
// method is for.
type host struct {
	sync.Locker // the group's mutex
	g           *Group
}

// Now returns the time on the group's clock.
func (h host) Now() time.Duration { return h.g.now() }

// Ask asks in the node's lane.
func (h host) Ask(node int, commands [][]byte, answer func(i int, v resp.Value) error, lost func()) bool {
	return h.g.nodes[node].inquireLocked(&inquiry{answer: answer, abandoned: func(*fault) { lost() }}, commands...)
}

// Hear takes the mutex itself.
func (h host) Hear(node int, v resp.Value) error { return h.g.nodes[node].hear(v) }

// Cure loads the scripts in the node's lane.
func (h host) Cure(node int) bool {
	n := h.g.nodes[node]
	if n.life.State != Up {
		return false
	}
	n.loadScriptsLocked()
	h.g.promptLocked()
	return true
}

// Wake makes the watch run at the given time or earlier.
func (h host) Wake(at time.Duration) { h.g.wakeWatchAtLocked(at) }

// Looked ends the doubt about what a node granted since it said that all its
// keys went. After a look that began a quarantine, rounds in flight do not know
// of it.
func (h host) Looked(node int) { h.g.nodes[node].reader.explainLocked() }

// Changed and Notify report to OnChange and to waiting goroutines.
func (h host) Changed(node int) { h.g.nodes[node].reporter.tellLocked() }

// Notify is described at Changed.
func (h host) Notify() { h.g.notifyLocked() }

// Explain returns what a cause says to users.
func (h host) Explain(c *member.Cause) error { return errorOf(c) }

// An explained is a cause and what it says to users, which is made only once.
type explained struct {
	cause *member.Cause
	fault *fault
}

// causeLocked returns why the vote of a node that is up is missing.
func (n *reporter) causeLocked() *fault {
	c := n.group.members.Cause(n.index, n.group.now())
	if n.why.cause != c {
		n.why = explained{c, faultOf(c)}
	}
	return n.why.fault
}

func faultOf(c *member.Cause) *fault { return &fault{err: errorOf(c), tried: c.Asked} }

// errorOf returns what a cause says to users.
func errorOf(c *member.Cause) error {
	switch c.Kind {
	case member.Quarantined:
		return &QuarantineError{Left: c.Left, Why: c.Found}
	case member.Foreign:
		return &PreflightError{"deployment", c.Found, c.Advice, ErrDeployment}
	case member.Unopened:
		return fmt.Errorf("%w: %s", ErrUnopened, c.Found)
	case member.OtherMaxTTL:
		return otherMaxTTL(c.Theirs, c.Ours)
	case member.OtherFailover:
		return otherFailover(c.TheirFailover, c.OurFailover)
	case member.Unconfirmed:
		return fmt.Errorf("%w: %s", ErrQuarantined, c.Found)
	case member.Learning:
		return errFloorLearning
	case member.Untrue:
		return errFloorBeyond
	case member.Nameless:
		return errFloorWithoutRun
	default:
		return errFloorLost
	}
}

// Why a node has no floor for fencing numbers (docs/fencing.md). Waiting helps
// only in the first case.
var (
	errFloorLearning   = fmt.Errorf("%w: it lost its memory, and learns from the others once its quarantine is over", ErrNoFloor)
	errFloorLost       = fmt.Errorf("%w: too few other nodes have one from which it could learn (redlock fence reset)", ErrNoFloor)
	errFloorBeyond     = fmt.Errorf("%w: its record of numbers says what no clock accounts for, or is none (redlock fence reset)", ErrNoFloor)
	errFloorWithoutRun = fmt.Errorf("%w: its run id may not be asked (allow INFO)", ErrNoFloor)
)

// A Membership is what the nodes of a group say of the deployment that they
// belong to (R30).
type Membership struct {
	ID    string // "" if they belong to none, or to several
	Nodes int
	// Complete reports whether every node was found to belong to it.
	Complete bool
	Founded  bool // this group opened it
	// Settles is how long it takes until the group opens the set, for one
	// that only waits for time to pass; otherwise 0.
	Settles time.Duration
	// Err is why the nodes' votes do not count, if the deployment is the
	// reason; otherwise nil.
	Err error
}

// Membership returns what is known at the moment.
func (g *Group) Membership() Membership {
	g.made()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.config.sealed() {
		return Membership{}
	}
	now := g.now()
	d := g.members.Deployment(now)
	m := Membership{ID: d.ID, Nodes: d.Nodes(), Complete: d.Complete, Settles: d.Settles, Founded: d.Founded}
	for i, n := range g.nodes {
		if c := g.members.Estranged(i, now); c != nil {
			m.Err = n.blame(faultOf(c))
			break
		}
	}
	return m
}

// WaitOpen blocks until every node was found to belong to one deployment. If
// ctx ends first, the error wraps the context's error and an *UndecidedError.
func (g *Group) WaitOpen(ctx context.Context) error {
	return g.waitUntil(ctx, func() bool { return g.members.Complete() })
}

// tellMembershipLocked writes what is known of the node's past and deployment
// into its status.
func (n *node) tellMembershipLocked(s *Status, now time.Duration) {
	m := n.group.members
	known := m.Status(n.index, s.State == Up, now)
	s.Sealed, s.Opening = known.Sealed, known.Opening
	f := m.Failover(n.index)
	s.FailsOver, s.FailoverBound = f.Expected, f.Bound
	s.Deployment, s.DeploymentNodes = known.Deployment.ID, known.Deployment.Nodes()
	s.Quarantined, s.QuarantineLeft, s.QuarantineWhy = known.Quarantined, known.Left, known.Why
	if n.server.Uptime > 0 {
		s.Started = n.group.epoch.Add(known.Met - n.server.Uptime).Truncate(time.Second)
	}
	if known.Stranger {
		if c := m.Estranged(n.index, now); c != nil {
			s.QuarantineWhy = errtext.Text(errorOf(c))
		}
	}
}
