// Package member knows the nodes of a group that count. A node may have
// forgotten locks (R23), may not belong to the deployment (R29, R30), or may
// not remember fencing numbers (docs/fencing.md). Package pure decides all
// that. This package tells it of events at the nodes, carries out its orders by
// reading and writing the nodes' seals and records, and keeps the
// sets for the group's rounds.
//
// The group's mutex guards it, except in methods that say otherwise.
package member

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Set is a set of nodes.
type Set = pure.Set

// A Config says who the members are, and how their keys are read and written.
// For the meaning of the fields see Config in package multiplex.
type Config struct {
	Nodes       []Address
	Epoch       time.Time // the zero of the host's clock
	MaxTTL      time.Duration
	ProbeAfter  time.Duration
	DriftFactor float64
	Durable     Set
	Found       bool
	Replace     []string
	OtherMaxTTL bool

	// Zero values stand for no seals, and no numbers.
	ReadSeal   []byte
	WriteSeal  func(args ...string) []byte
	ReadRecord []byte
	WriteFloor func(seal, run string, floor int64) []byte

	OnClock  func(ahead time.Duration)
	OnNumber func(common int64)
}

// An Address is a node's address, without credentials, and its database, and
// whether the server behind it may change.
type Address struct {
	Addr     string
	Home     string // see conn.Endpoint
	DB       int
	Failover conn.Failover
}

// stored reports whether seals can be read and written.
func (c *Config) stored() bool { return c.ReadSeal != nil && c.WriteSeal != nil }

// Sealed reports whether seals are kept.
func (c *Config) Sealed() bool { return c.MaxTTL > 0 && c.stored() }

// Numbered reports whether claims have fencing numbers.
func (c *Config) Numbered() bool { return c.Sealed() && c.ReadRecord != nil }

// ErrUnexpected is the cause of a reply unfit for its command (R16).
var ErrUnexpected = errors.New("multiplex: unexpected reply")

// A Host is the group. All but Lock, Now and Hear need the mutex.
type Host interface {
	sync.Locker
	// Now returns the time on the group's clock.
	Now() time.Duration
	// Ask sends commands to an up node, and does not wait. Without the mutex,
	// answer gets each reply in turn; its error ends the connection (R16).
	// Without the last reply, lost is called, with the mutex. Ask returns false
	// if the node takes nothing more.
	Ask(node int, commands [][]byte, answer func(i int, v resp.Value) error, lost func()) bool
	// Hear takes what a node says of its role and history.
	Hear(node int, v resp.Value) error
	// Cure loads the scripts again and reports whether the node is up.
	Cure(node int) bool
	// Wake makes the host call Tend at that time.
	Wake(at time.Duration)
	// Looked tells of a look's end: it found what was there at its beginning.
	Looked(node int)
	// Changed tells of a node that counts, counts no more, or has another
	// cause. Notify follows once for all.
	Changed(node int)
	Notify()
	// Explain returns the error for a cause.
	Explain(*Cause) error
}

// Members is what a group knows of its nodes' membership.
type Members struct {
	// Doubted is the set of nodes, up or not, with grants that must not make a
	// lock (R23, R30). Strangers are those of them outside the deployment. Only
	// this package changes the sets.
	Doubted, Strangers Set
	// Floorless is the set of nodes, up or not, with grants of numbered
	// claims that must not count. It is empty without numbers.
	Floorless Set
	Rivals    bool // the nodes belong to several deployments
	// FailOver is the set of nodes behind which the server may change.
	FailOver Set

	config     *Config // by a pointer, behind which fmt does not look (R27)
	host       Host
	nodes      []node
	up         Set           // as told by Joined and Parted
	maxTTL     time.Duration // Config.MaxTTL, or a longer one of a seal
	deployment pure.Deployment
	due        time.Duration // of the next Tend that acts on the deployment
	floors     pure.Floors
	clocks     pure.Clocks
	ahead      time.Duration // of most nodes' clocks to this one
	sealFirst  []byte        // a read of the seal, and INFO replication
}

// A node is what is known of one member.
type node struct {
	trust pure.Trust
	looks pure.Looks
	// server is what it said in the last handshake. This ended at met. The
	// attempt to connect began at dialed.
	server      conn.Server
	met, dialed time.Duration
	connected   bool
	flushes     uint64 // how often it said that all its keys went
	seal        string // what stood there at the last look
	failing
	// cause is why its votes are missing. It is nil until the first
	// question, and is made anew when stale.
	cause *Cause
	stale time.Duration
}

// New returns the membership of nodes not yet met.
func New(config Config, host Host) *Members {
	size := len(config.Nodes)
	m := &Members{
		config: &config, host: host, nodes: make([]node, size), maxTTL: config.MaxTTL,
		floors: pure.NewFloors(size), clocks: make(pure.Clocks, size),
		sealFirst: slices.Concat(config.ReadSeal, infoReplication),
	}
	var names []string
	need := pure.NeedFor(config.MaxTTL, config.DriftFactor)
	for i := range m.nodes {
		names = append(names, pure.NameOf(config.Nodes[i].Home, config.Nodes[i].DB))
		m.expect(i, config.Nodes[i].Failover)
		t := &m.nodes[i].trust
		t.Need, t.Own, t.Durable = m.needOf(i), m.ownOf(i), config.Durable.Has(i)
		if t.Durable && !config.Sealed() {
			t.Need = 0 // without deployments there is nothing else to wait for
		}
		if t.Need > 0 {
			m.Doubted = m.Doubted.Add(i) // a new process of this client waits, too (R23)
		}
	}
	m.deployment = pure.NewDeployment(names)
	d := &m.deployment
	d.Founds, d.Replaces, d.Need, d.Drift = config.Found, config.Replace, need, config.DriftFactor
	if !config.OtherMaxTTL {
		d.MaxTTL = config.MaxTTL
	}
	if config.Sealed() {
		m.Strangers = pure.All(size)
		m.Doubted = m.Strangers
	}
	if config.Numbered() {
		m.Floorless = pure.All(size)
	}
	return m
}

// Met begins or resumes watching the process after its handshake.
func (m *Members) Met(i int, server *conn.Server, dialed time.Duration) {
	now := m.host.Now()
	n := &m.nodes[i]
	n.greet(dialed, now)
	n.server, n.met, n.dialed, n.connected = *server, now, dialed, true
	n.trust = n.trust.Meet(ProcessOf(server), now).Require(0, m.ownOf(i), now)
	// What was seen of the deployment may be another process's.
	m.deployment.Part(i)
	m.floors.Part(i)
	m.Judge(i, now)
}

// ProcessOf returns the name of what is watched at a server.
func ProcessOf(s *conn.Server) string { return pure.ProcessName(s.RunID, s.History) }

// Joined tells of a node now up.
func (m *Members) Joined(i int) {
	m.up = m.up.Add(i)
	m.deployment.Join(i)
	m.settle(m.host.Now())
}

// Parted tells of a node no longer up.
func (m *Members) Parted(i int) {
	m.up = m.up.Without(pure.SetOf(i))
	m.deployment.Part(i)
	m.settle(m.host.Now())
}

// Ended tells of the end of a node's connection.
func (m *Members) Ended(i int) { m.nodes[i].connected = false }

// Flushed tells of a node's loss of all keys. A look follows.
func (m *Members) Flushed(i int) {
	m.nodes[i].flushes++
	m.lookAgain(i)
}

// Tend is the watch's pass over an up node: its quarantine may be over, and its
// seal is looked at. It returns when to run again.
func (m *Members) Tend(i int, now time.Duration) time.Duration {
	m.Judge(i, now)
	next := m.tendLooks(i, now)
	if left := m.nodes[i].trust.Left(now); left > 0 {
		next = min(next, now+left)
	}
	return next
}

// Quarantine (R23): a node that may have forgotten locks gets every command, so
// its keys are set, extended and released like any other's. But up to the
// expiry of every earlier lock, its grants of claims do not count, nor do its
// extensions of keys set meanwhile. Those votes fail from the start, so rounds
// are decided as fast as without a quarantine.

// Judge makes the set of doubted nodes follow what is known of a node.
func (m *Members) Judge(i int, now time.Duration) {
	n := &m.nodes[i]
	n.trust = n.trust.At(now)
	counts := n.trust.Trusted && !m.Strangers.Has(i)
	if counts != m.Doubted.Has(i) {
		return
	}
	n.cause = nil
	if counts {
		m.Doubted = m.Doubted.Without(pure.SetOf(i))
		n.looks.Next = now
		m.host.Wake(now) // to write the seal
	} else {
		m.Doubted = m.Doubted.Add(i)
		m.host.Wake(now + n.trust.Left(now))
	}
	m.host.Changed(i)
	m.host.Notify()
}

// Left returns how long a node stays quarantined without a seal to end it
// earlier, and why. It includes the wait before the group opens the set.
func (m *Members) Left(i int, now time.Duration) (left time.Duration, why string) {
	n := &m.nodes[i]
	left, why = n.trust.Left(now), n.trust.Why
	if settles := m.deployment.Settles(now); settles > 0 {
		opened := n.trust.Opens(m.since(now), now)
		left, why = max(settles, opened.Left(now)), pure.WhyYoung
	}
	if n.connected && n.server.RunID == "" && why != pure.WhyUnknown {
		why += ", and it tells no run id, so that each client waits"
	}
	return left, why
}

// raise adopts a longer MaxTTL found in a seal: a client of this deployment may
// hold locks for that long, on any node (OtherMaxTTL).
func (m *Members) raise(maxTTL, now time.Duration) {
	if maxTTL <= m.maxTTL {
		return
	}
	m.maxTTL = maxTTL
	m.deployment.Need = pure.NeedFor(maxTTL, m.config.DriftFactor)
	for i := range m.nodes {
		m.require(i, now)
	}
}

// needOf returns how long a node must be watched.
func (m *Members) needOf(i int) time.Duration {
	if m.maxTTL == 0 {
		return 0 // there are no claims where a node fails over
	}
	return pure.NeedFor(m.maxTTL, m.config.DriftFactor) + m.nodes[i].alone
}

// require makes a node be watched for as long as needOf and ownOf say.
func (m *Members) require(i int, now time.Duration) {
	t := &m.nodes[i].trust
	*t = t.Require(m.needOf(i), m.ownOf(i), now)
	m.Judge(i, now)
}
