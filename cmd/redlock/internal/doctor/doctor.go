package doctor

import (
	"slices"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// A Deployment is what is examined.
type Deployment struct {
	Nodes []Node
	// TTL is the TTL of locks, and MaxTTL what clients set as such; 0 if they
	// are forgetful.
	TTL, MaxTTL time.Duration
	// Watched reports whether the rates of clocks were measured.
	Watched bool

	// outlook is what a client that starts now would think of the nodes.
	outlook *outlook.Outlook
}

// A Node is what is known of one node.
type Node struct {
	outlook.Node
	// Declared reports whether clients are told that the node loses nothing
	// (redlock.Node.Durable).
	Declared bool
	// Refused is why a client of the library gives the node no vote, nil if it
	// does.
	Refused error
}

// Level says how bad a finding is.
type Level string

// The levels, the worst first.
const (
	// Unsafe: two clients can hold one lock, or no client can get any.
	Unsafe Level = "unsafe"
	// Warning: it works, but an ordinary event such as a restart makes it
	// unsafe.
	Warning Level = "warning"
	// Note: worth knowing.
	Note Level = "note"
)

// A Finding is something that is not as it should be.
type Finding struct {
	Check  string  `json:"check"`
	Level  Level   `json:"level"`
	Found  string  `json:"found"`  // in a sentence
	Seen   []Sight `json:"seen"`   // node by node; empty if it concerns no single node
	Why    string  `json:"why"`    // why it matters
	Change string  `json:"change"` // what to do about it
}

// A Sight is what was seen at one node.
type Sight struct {
	Addr string `json:"addr"`
	What string `json:"what"`
}

// An Unknown is what could not be found out.
type Unknown struct {
	Check string  `json:"check"`
	Why   string  `json:"why"`
	Seen  []Sight `json:"seen"`
}

// A Report is the result of an examination.
type Report struct {
	Nodes    int       `json:"nodes"`
	Quorum   int       `json:"quorum"`
	Checks   int       `json:"checks"` // how many were made
	Masters  []Master  `json:"masters"`
	Findings []Finding `json:"findings"`
	Unknown  []Unknown `json:"unknown"`
}

// A Master is where one node stands, whether or not anything was found. What is
// unknown is zero.
type Master struct {
	Addr       string `json:"addr"`
	Deployment string `json:"deployment,omitempty"` // the id of the one that it belongs to
	Size       int    `json:"deployment_nodes,omitempty"`
	// Uptime is how long its process has run, by its own account, and Started
	// whether that is known.
	Uptime  time.Duration `json:"-"`
	Started bool          `json:"-"`
	UptimeS *float64      `json:"uptime_s,omitempty"`
	// Quarantine is how long it does not count for a client that starts now, as
	// far as that is known, and Why is why; Why is empty if it counts.
	Quarantined bool          `json:"quarantined"`
	Quarantine  time.Duration `json:"-"`
	QuarantineS *float64      `json:"quarantine_left_s,omitempty"`
	Why         string        `json:"quarantine_why,omitempty"`
}

// Examine makes all checks. The worst findings come first, and otherwise in the
// order of the checks.
func Examine(d Deployment) Report {
	d.outlook = d.lookOut()
	r := Report{
		Nodes: len(d.Nodes), Quorum: d.quorum(), Checks: len(checks), Masters: d.masters(), Findings: []Finding{}, Unknown: []Unknown{},
	}
	var all []Finding
	for _, c := range checks {
		for _, f := range c.find(&d) {
			f.Check = c.name
			if f.Seen == nil {
				f.Seen = []Sight{}
			}
			all = append(all, f)
		}
	}
	for _, level := range []Level{Unsafe, Warning, Note} {
		for _, f := range all {
			if f.Level == level {
				r.Findings = append(r.Findings, f)
			}
		}
	}
	r.Unknown = append(r.Unknown, d.unknown()...)
	return r
}

// Has reports whether there is a finding of a level.
func (r *Report) Has(level Level) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == level })
}

// A check looks for one kind of fault. Its name must not change, since scripts
// use it.
type check struct {
	name  string
	wants string // what holds if it finds nothing
	find  func(d *Deployment) []Finding
}

// A Check is one of the checks, for people and programs.
type Check struct {
	Name  string `json:"check"`
	Wants string `json:"wants"` // what holds if it finds nothing
}

// Checks lists all checks in their order.
func Checks() (all []Check) {
	for _, c := range checks {
		all = append(all, Check{c.name, c.wants})
	}
	return all
}

// checks are in the order in which an operator would ask: who is there, are
// they the right ones, do they forget, do they agree on time, may we, is it
// quick enough, and what else.
var checks = []check{
	{"size", "three masters or more, and an odd number of them", (*Deployment).checkSize},
	{"reachable", "every master answers", (*Deployment).checkReachable},
	{"one-server", "each address leads to one server", (*Deployment).checkOneServer},
	{"same-server", "each server is named once", (*Deployment).checkSameServer},
	{"addresses", "the addresses mean the same masters on every machine", (*Deployment).checkAddresses},
	{"placement", "each master has a machine of its own", (*Deployment).checkPlacement},
	{"role", "no node is a replica or a sentinel", (*Deployment).checkRole},
	{"cluster", "no node belongs to a cluster", (*Deployment).checkCluster},
	{"replicas", "no replica copies a master", (*Deployment).checkReplicas},
	{"failover", "a former primary stops accepting writes in time", (*Deployment).checkFailover},
	{"seeds", "the sentinels, or servers of a cluster, in a URL answer and name one master", (*Deployment).checkSeeds},
	{"sentinel-quorum", "sentinels know each other, and can authorise a failover", (*Deployment).checkSentinelQuorum},
	{"announced", "servers announce addresses that lead to them from here", (*Deployment).checkAnnounced},
	{"sentinels", "no sentinel fails a master over", (*Deployment).checkSentinels},
	{"eviction", "no master deletes keys when its memory is full", (*Deployment).checkEviction},
	{"persistence", "no master forgets locks when it restarts, or clients keep it out", (*Deployment).checkPersistence},
	{"forgetful", "clients keep masters out that may have forgotten locks", (*Deployment).checkForgetful},
	{"declared-durable", "what --durable names loses nothing in a crash", (*Deployment).checkDeclared},
	{"disk", "masters can write to their disks", (*Deployment).checkDisk},
	{"max-ttl", "the TTL is not above --max-ttl", (*Deployment).checkMaxTTL},
	{"seals", "all clients have set the --max-ttl that is given", (*Deployment).checkSeals},
	{"deployment", "the masters belong to one deployment, of just these masters", (*Deployment).checkDeployment},
	{"database", "no other database of the masters belongs to a deployment", (*Deployment).checkDatabase},
	{"initialised", "the deployment was opened, and all masters carry its id", (*Deployment).checkInitialised},
	{"fence", "all masters have a floor for fencing numbers, or none has", (*Deployment).checkFence},
	{"restarts", "no master is kept out because it has restarted", (*Deployment).checkRestarts},
	{"clock-rate", "clocks run at one rate and do not step (--observe)", (*Deployment).checkClockRate},
	{"clock-offset", "masters' time of day agrees with ours", (*Deployment).checkClockOffset},
	{"rights", "the user may do what locks need", (*Deployment).checkRights},
	{"broad-rights", "the user may not do more than that", (*Deployment).checkBroadRights},
	{"writes", "masters accept a SET", (*Deployment).checkWrites},
	{"memory", "masters have room for locks", (*Deployment).checkMemory},
	{"min-replicas", "masters accept writes without replicas", (*Deployment).checkMinReplicas},
	{"round-trip", "round trips are short compared with the TTL", (*Deployment).checkRoundTrip},
	{"slow-commands", "no command and no fork has blocked a master for long", (*Deployment).checkSlow},
	{"clients", "masters have room for connections", (*Deployment).checkClients},
	{"idle-timeout", "masters leave idle connections open", (*Deployment).checkIdleTimeout},
	{"version", "versions still get fixes, and products are among those tested", (*Deployment).checkVersion},
	{"tls-kill", "masters that speak TLS have a version that CLIENT KILL does no harm to", (*Deployment).checkTLSKill},
	{"encryption", "masters on other machines are reached by TLS with a verified certificate", (*Deployment).checkEncryption},
	{"password", "masters on other machines ask for a password", (*Deployment).checkPassword},
	{"other-keys", "masters hold nothing but locks", (*Deployment).checkOtherKeys},
	{"flushes", "the keys of no master were deleted all at once", (*Deployment).checkFlushes},
	{"client", "clients of the library give each master its vote", (*Deployment).checkClient},
}

func (d *Deployment) quorum() int { return multiplex.Quorum(len(d.Nodes)) }

// drift bounds how much the rates of clocks may differ, by default (R4).
const drift = pure.DefaultDriftFactor

// seen calls see for each node that answered, and lists those for which it
// returns a text.
func (d *Deployment) seen(see func(n *Node) string) []Sight {
	var all []Sight
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Err == nil {
			if what := see(n); what != "" {
				all = append(all, Sight{n.Addr, what})
			}
		}
	}
	return all
}

// finding returns f if anything was seen.
func finding(f Finding) []Finding {
	if len(f.Seen) == 0 {
		return nil
	}
	return []Finding{f}
}

// byQuorum is the level of a fault that keeps nodes from voting: a warning as
// long as a quorum is left.
func (d *Deployment) byQuorum() Level {
	able := 0
	for i := range d.Nodes {
		if d.able(&d.Nodes[i]) {
			able++
		}
	}
	if able < d.quorum() {
		return Unsafe
	}
	return Warning
}

// able reports whether a node can vote, as far as is known.
func (d *Deployment) able(n *Node) bool {
	return n.Err == nil && n.Refused == nil && isMaster(n) && !n.Clustered() && len(lacking(n, needed)) == 0 &&
		blocked(n) == "" && !d.late(n) && d.keptOut(n) == "" && d.belongs(n)
}
