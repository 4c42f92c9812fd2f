package doctor

import (
	"fmt"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
)

// unknown lists what could not be found out, so that silence is not taken for
// health.
func (d *Deployment) unknown() []Unknown {
	all := []Unknown{
		{Check: "same-server", Why: "INFO may not be asked for the run id; clients cannot see a restart either",
			Seen: d.seen(unless("no run id", func(n *Node) bool { return n.RunID() != "" }))},
		{Check: "eviction", Why: "INFO may not be asked for the eviction policy",
			Seen: d.seen(unless("no policy", func(n *Node) bool { return n.Policy() != "" }))},
		{Check: "idle-timeout", Why: "CONFIG may not be asked for timeout and min-replicas-to-write; an operator's user could tell",
			Seen: d.seen(unless("no CONFIG", func(n *Node) bool { return n.Config != nil }))},
		{Check: "failover", Why: "CONFIG may not be asked whether a former primary stops as soon as the URL says",
			Seen: d.seen(unless("no CONFIG", func(n *Node) bool { return n.Failover.Bound <= 0 || n.Config["min-replicas-to-write"] != "" }))},
		{Check: "sentinel-quorum", Why: "SENTINEL MASTER may not be asked; see docs/failover.md for the rights",
			Seen: d.around(ofSeeds(func(s *probe.Seed, _ *Node) string {
				if s.Watch != nil || !s.Sentinel {
					return ""
				}
				return "no quorum, and no down-after-milliseconds"
			}))},
		{Check: "announced", Why: "servers may not be asked who they are, or are too many",
			Seen: d.around(func(n *Node) (all []string) {
				for _, a := range n.Around.Announced {
					if a.Err == nil && a.ID == "" {
						all = append(all, a.Addr+": no id")
					}
				}
				if n.Around.More {
					all = append(all, "more addresses than are tried")
				}
				return all
			})},
		{Check: "sentinels", Why: "PUBSUB may not be asked whether sentinels are there; an operator's user could tell",
			Seen: d.seen(unless("no PUBSUB", func(n *Node) bool { return n.Watchers >= 0 }))},
		{Check: "seals", Why: "the key redlock:seal may not be read",
			Seen: d.seen(unless("no seal", func(n *Node) bool { return n.Seal.State != probe.SealUnknown }))},
		{Check: "clock-rate", Why: "TIME may not be asked, or the connection was lost",
			Seen: d.seen(unless("no time", func(n *Node) bool { return n.ClockKnown }))},
		{Check: "clock-rate", Why: "the clock was read only once, since the connection was lost",
			Seen: d.seen(unless("no rate", func(n *Node) bool { return !d.Watched || !n.ClockKnown || n.Clock.Span > 0 }))},
		{Check: "clock-rate", Why: "the answers took too long compared with the time that the clocks were watched: use a longer --observe",
			Seen: d.seen(inexact)},
	}
	settled := func(n *Node) bool { _, known := durable(n); return known }
	if d.MaxTTL == 0 {
		all = append(all, Unknown{Check: "persistence", Why: "CONFIG may not be asked for appendfsync, and clients are forgetful",
			Seen: d.seen(unless("not known to be durable", settled))})
	} else {
		all = append(all, Unknown{Check: "declared-durable", Why: "CONFIG may not be asked for appendfsync",
			Seen: d.seen(unless("declared durable, and not known to be", func(n *Node) bool { return !n.Declared || settled(n) }))})
	}
	var some []Unknown
	for _, u := range all {
		if len(u.Seen) > 0 {
			some = append(some, u)
		}
	}
	return some
}

func unless(what string, known func(n *Node) bool) func(n *Node) string {
	return func(n *Node) string {
		if known(n) {
			return ""
		}
		return what
	}
}

// inexact returns how inexact the rate is, if it could exceed what locks allow
// for without showing it.
func inexact(n *Node) string {
	if _, wrong := n.Clock.Rate(); n.ClockKnown && wrong > drift {
		return fmt.Sprintf("± %.1f %%", wrong*100)
	}
	return ""
}
