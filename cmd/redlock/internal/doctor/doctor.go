package doctor

import (
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// A Deployment is what is examined.
type Deployment struct {
	Nodes []Node
	// TTL is what locks are asked for with, and MaxTTL what clients set as such; 0 for none.
	TTL, MaxTTL time.Duration
	// Watched says that clocks were to be watched for their rate.
	Watched bool
}

// A Node is what is known of one node.
type Node struct {
	probe.Facts
	Clock      probe.Clock
	ClockKnown bool
	// Declared says that clients are told that it loses nothing (redlock.Config.Durable).
	Declared bool
	// Refused is why a client of the library gives it no vote; nil if it does.
	Refused error
}

// Level says how bad a finding is.
type Level string

// The levels, the worst first.
const (
	// Unsafe is a deployment where two clients can hold one lock, or none can have any.
	Unsafe Level = "unsafe"
	// Warning is what works, and becomes unsafe when something else happens that does happen.
	Warning Level = "warning"
	// Note is what is worth knowing.
	Note Level = "note"
)

// A Finding is something that is not as it should be.
type Finding struct {
	Check  string  `json:"check"`
	Level  Level   `json:"level"`
	Found  string  `json:"found"`  // in a sentence
	Seen   []Sight `json:"seen"`   // node by node; none if it concerns no node by itself
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

// A Report is what came of an examination.
type Report struct {
	Nodes    int       `json:"nodes"`
	Quorum   int       `json:"quorum"`
	Checks   int       `json:"checks"` // how many were made
	Findings []Finding `json:"findings"`
	Unknown  []Unknown `json:"unknown"`
}

// Examine makes all checks. Findings come in the order of the checks, the worst first.
func Examine(d Deployment) Report {
	r := Report{Nodes: len(d.Nodes), Quorum: d.quorum(), Checks: len(checks), Findings: []Finding{}, Unknown: []Unknown{}}
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

// Has reports that there is a finding of a level.
func (r *Report) Has(level Level) bool {
	for _, f := range r.Findings {
		if f.Level == level {
			return true
		}
	}
	return false
}

// A check looks for one kind of fault. Its name stays, since scripts know it.
type check struct {
	name string
	find func(d *Deployment) []Finding
}

// checks are all there are, in the order in which an operator would ask: who is there, are they the right ones, do they forget,
// do they agree on time, may we, is it quick enough, and what else.
var checks = []check{
	{"size", (*Deployment).checkSize},
	{"reachable", (*Deployment).checkReachable},
	{"same-server", (*Deployment).checkSameServer},
	{"placement", (*Deployment).checkPlacement},
	{"role", (*Deployment).checkRole},
	{"cluster", (*Deployment).checkCluster},
	{"replicas", (*Deployment).checkReplicas},
	{"sentinels", (*Deployment).checkSentinels},
	{"eviction", (*Deployment).checkEviction},
	{"persistence", (*Deployment).checkPersistence},
	{"declared-durable", (*Deployment).checkDeclared},
	{"disk", (*Deployment).checkDisk},
	{"max-ttl", (*Deployment).checkMaxTTL},
	{"seals", (*Deployment).checkSeals},
	{"restarts", (*Deployment).checkRestarts},
	{"clock-rate", (*Deployment).checkClockRate},
	{"clock-offset", (*Deployment).checkClockOffset},
	{"rights", (*Deployment).checkRights},
	{"broad-rights", (*Deployment).checkBroadRights},
	{"writes", (*Deployment).checkWrites},
	{"memory", (*Deployment).checkMemory},
	{"min-replicas", (*Deployment).checkMinReplicas},
	{"round-trip", (*Deployment).checkRoundTrip},
	{"slow-commands", (*Deployment).checkSlow},
	{"clients", (*Deployment).checkClients},
	{"idle-timeout", (*Deployment).checkIdleTimeout},
	{"version", (*Deployment).checkVersion},
	{"encryption", (*Deployment).checkEncryption},
	{"password", (*Deployment).checkPassword},
	{"other-keys", (*Deployment).checkOtherKeys},
	{"flushes", (*Deployment).checkFlushes},
	{"client", (*Deployment).checkClient},
}

func (d *Deployment) quorum() int { return len(d.Nodes)/2 + 1 }

// drift is by how much the rates of clocks may differ, as clients have it by default (R4).
const drift = pure.DefaultDriftFactor

// seen looks at each node that answered, and lists those of which see has something to say.
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

// finding is f, if anything was seen.
func finding(f Finding) []Finding {
	if len(f.Seen) == 0 {
		return nil
	}
	return []Finding{f}
}

// byQuorum is the level of what keeps nodes from giving votes: as long as a quorum is left, only the spare ones are lost.
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

// able reports that a node can give a vote, as far as is known.
func (d *Deployment) able(n *Node) bool {
	return n.Err == nil && n.Refused == nil && isMaster(n) && !n.Clustered() && len(lacking(n, needed)) == 0 &&
		blocked(n) == "" && !d.late(n) && d.keptOut(n) == ""
}
