package doctor

import (
	"fmt"
	"strings"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
)

// What surrounds a node that fails over: the seeds of its URL, and the servers
// that they name. Nodes that did not answer are looked at too, since what is
// found here may be the reason.

// around calls see for each node, and lists what it returns.
func (d *Deployment) around(see func(n *Node) []string) (all []Sight) {
	for i := range d.Nodes {
		for _, what := range see(&d.Nodes[i]) {
			all = append(all, Sight{d.Nodes[i].Addr, what})
		}
	}
	return all
}

// ofSeeds returns a look that calls see for each seed that answered.
func ofSeeds(see func(s *probe.Seed, n *Node) string) func(n *Node) []string {
	return func(n *Node) (all []string) {
		for i := range n.Around.Seeds {
			if s := &n.Around.Seeds[i]; s.Err == nil {
				if what := see(s, n); what != "" {
					all = append(all, s.Addr+": "+what)
				}
			}
		}
		return all
	}
}

// checkSeeds wants seeds that answer, and name one master.
func (d *Deployment) checkSeeds() []Finding {
	silent := d.around(func(n *Node) (all []string) {
		for _, s := range n.Around.Seeds {
			if s.Err != nil {
				all = append(all, s.Addr+": "+s.Err.Error())
			}
		}
		return all
	})
	apart := d.around(func(n *Node) []string {
		masters := make(map[string]bool)
		all := ofSeeds(func(s *probe.Seed, _ *Node) string { masters[s.Master] = true; return "names " + s.Master })(n)
		if len(masters) < 2 {
			return nil
		}
		return all
	})
	return append(
		finding(Finding{Level: Warning, Seen: silent, Found: "a sentinel, or a server of a cluster, that a URL names is of no use",
			Why:    "clients ask all of them, and go where most of them say; fewer may fail now, and of sentinels a majority is needed for a failover",
			Change: "start it, or fix the network, the address, the name of the master or the credentials that the error is about"}),
		finding(Finding{Level: Warning, Seen: apart, Found: "sentinels, or servers of a cluster, name different masters",
			Why:    "clients go where most of them say; the others are cut off, or were not told of a failover",
			Change: "nothing, if a failover is under way; otherwise connect those that are cut off (for sentinels, see SENTINEL SENTINELS)"})...)
}

const (
	othersKnown = "num-other-sentinels"
	downAfter   = "down-after-milliseconds"
	// fewestSentinels are needed for a majority without one of them.
	fewestSentinels = 3
)

// checkSentinelQuorum wants sentinels that can fail the master over.
func (d *Deployment) checkSentinelQuorum() []Finding {
	unable := d.around(ofSeeds(func(s *probe.Seed, _ *Node) string {
		others, known := s.Watch.Number(othersKnown)
		quorum, _ := s.Watch.Number("quorum")
		switch {
		case s.Quorum != "" && s.Quorum != "OK":
			return s.Quorum
		case known && quorum > others+1:
			return fmt.Sprintf("quorum %d, and it knows %s", quorum, plural(others+1, "sentinel"))
		}
		return ""
	}))
	strangers := d.around(ofSeeds(func(s *probe.Seed, n *Node) string {
		if others, known := s.Watch.Number(othersKnown); known && int(others)+1 < len(n.Around.Seeds) {
			return fmt.Sprintf("knows %s, and the URL names %d", plural(others+1, "sentinel"), len(n.Around.Seeds))
		}
		return ""
	}))
	few := d.around(ofSeeds(func(s *probe.Seed, n *Node) string {
		if others, known := s.Watch.Number(othersKnown); known && max(int(others)+1, len(n.Around.Seeds)) < fewestSentinels {
			return "knows " + plural(others+1, "sentinel")
		}
		return ""
	}))
	more := d.around(ofSeeds(func(s *probe.Seed, n *Node) string {
		if others, _ := s.Watch.Number(othersKnown); int(others)+1 > len(n.Around.Seeds) {
			return fmt.Sprintf("knows %s, and the URL names %d", plural(others+1, "sentinel"), len(n.Around.Seeds))
		}
		return ""
	}))
	return append(append(
		finding(Finding{Level: Warning, Seen: unable, Found: "sentinels cannot authorise a failover",
			Why:    "when the master is lost no other is promoted, and no client gets a lock until an operator does that",
			Change: "start the sentinels that are away, set the quorum to a majority of them (SENTINEL SET <name> quorum), and forget those that are gone (SENTINEL RESET)"}),
		finding(Finding{Level: Warning, Seen: strangers, Found: "a sentinel does not know all sentinels that the URL names",
			Why:    "those that do not know each other do not vote for each other",
			Change: "nothing, if one was just started; otherwise have all of them watch the same master, under addresses that they reach (sentinel announce-ip)"})...),
		append(finding(Finding{Level: Warning, Seen: few, Found: "there are less than three sentinels",
			Why:    "a failover needs a majority of them, so none may be away when the master is lost",
			Change: "run three sentinels or more, on machines of their own, with a quorum of a majority"}),
			finding(Finding{Level: Note, Seen: more, Found: "there are sentinels that the URL does not name",
				Why:    "clients do not hear those; and one that is gone for good still counts for the majority that a failover needs",
				Change: "name all of them in all clients' URLs, and forget those that are gone (SENTINEL RESET)"})...)...)
}

// checkAnnounced wants servers that announce addresses that lead to them.
func (d *Deployment) checkAnnounced() []Finding {
	var astray, twice []Sight
	for i := range d.Nodes {
		n := &d.Nodes[i]
		first := make(map[string]string)
		for _, a := range n.Around.Announced {
			if what := strays(a); what != "" {
				astray = append(astray, Sight{n.Addr, a.Addr + ", named by " + a.By + ": " + what})
			}
			if other, ok := first[a.ID]; ok && a.ID != "" {
				twice = append(twice, Sight{n.Addr, a.Addr + " is the same server as " + other})
			} else {
				first[a.ID] = a.Addr
			}
		}
	}
	const change = "have each server announce one address that clients and the other servers reach: replica-announce-ip and replica-announce-port, in a " +
		"cluster cluster-announce-ip (or -hostname) and -port"
	return append(
		finding(Finding{Level: Warning, Seen: astray, Found: "an announced address does not lead to its server from here",
			Why:    "clients that are sent there after a failover get no lock",
			Change: change + "; create the locks' user on all of them; and forget servers that are gone (SENTINEL RESET, CLUSTER FORGET)"}),
		finding(Finding{Level: Warning, Seen: twice, Found: "one server is announced by several addresses",
			Why: "sentinels take it for several, and clients that are sent to another of them dial again", Change: change})...)
}

// strays returns why an announced address is of no use, or "".
func strays(a probe.Announced) string {
	switch {
	case a.Err != nil && a.Down:
		return a.Err.Error() + "; sentinels do not reach it either"
	case a.Err != nil:
		return a.Err.Error()
	case a.ID != "" && len(a.Said) > 0 && !said(a):
		return "leads to another server, or to one that restarted a moment ago: " + short(a.ID) + ", not " + short(a.Said[0])
	}
	return ""
}

func said(a probe.Announced) bool {
	for _, id := range a.Said {
		if strings.EqualFold(id, a.ID) {
			return true
		}
	}
	return false
}

// shortID is how many digits of an id tell servers apart.
const shortID = 8

func short(id string) string { return id[:min(len(id), shortID)] }
