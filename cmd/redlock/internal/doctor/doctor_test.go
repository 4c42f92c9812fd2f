package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/cmd/redlock/internal/outlook"
	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// sound returns a deployment of n masters without a finding.
func sound(n int) *Deployment {
	d := &Deployment{TTL: 10 * time.Second, MaxTTL: time.Minute}
	for i := range n {
		d.Nodes = append(d.Nodes, Node{Node: outlook.Node{
			Facts: probe.Facts{
				Addr: fmt.Sprintf("10.0.0.%d:6379", i), TLS: true, Secret: true, User: "redlock",
				Server: conn.Server{RunID: fmt.Sprintf("run%d", i), Product: "valkey", Version: "8.1.9", Role: "master",
					Mode: "standalone", EvictionPolicy: "noeviction", Uptime: time.Hour},
				Info: probe.Lines{
					"run_id": fmt.Sprintf("run%d", i), "uptime_in_seconds": "3600", "role": "master", "connected_slaves": "0",
					"cluster_enabled": "0", "maxmemory_policy": "noeviction", "maxmemory": "1000000", "used_memory": "1000",
					"total_system_memory": "100000000", "aof_enabled": "0", "aof_last_write_status": "ok",
					"rdb_last_bgsave_status": "ok", "connected_clients": "3", "maxclients": "10000", "evicted_keys": "0",
				},
				Rights: rights(),
				// The user is not an operator's: CONFIG may not be asked.
				Config: nil,
			},
			ClockKnown: true, Clock: probe.Clock{Span: 2 * time.Second, RoundTrip: time.Millisecond},
		}})
	}
	var names pure.Names
	for i := range d.Nodes {
		d.Nodes[i].Name = pure.NameOf(d.Nodes[i].Addr, 0)
		names = names.With(member("a", i), d.Nodes[i].Name)
	}
	for i := range d.Nodes {
		d.Nodes[i].Seal = probe.Seal{State: probe.SealThere, Seal: pure.Seal{
			Seat: pure.Seat{Member: member("a", i), Open: identity("a", n)}, Names: names,
			Run: fmt.Sprintf("run%d", i), MaxTTL: d.MaxTTL, Watched: pure.NeedFor(d.MaxTTL, drift),
		}}
	}
	return d
}

// member is the id of a node in a deployment with this letter.
func member(letter string, i int) string { return fmt.Sprintf("%s%015d", letter, i) }

// identity is that of a deployment of n nodes, with this letter.
func identity(letter string, n int) pure.Identity {
	var members []string
	for i := range n {
		members = append(members, member(letter, i))
	}
	return pure.IdentityOf(members)
}

func rights() (all []probe.Right) {
	for _, name := range needed {
		all = append(all, probe.Right{Name: name})
	}
	for _, w := range wanted {
		all = append(all, probe.Right{Name: w.name})
	}
	return all
}

// with changes the facts of the first few nodes.
func with(k int, change func(n *Node)) func(d *Deployment) {
	return func(d *Deployment) {
		for i := range k {
			change(&d.Nodes[i])
		}
	}
}

func info(k int, name, value string) func(d *Deployment) {
	return with(k, func(n *Node) { n.Info[name] = value })
}

func refuses(k int, name string, class conn.Class) func(d *Deployment) {
	return with(k, func(n *Node) {
		for i := range n.Rights {
			if n.Rights[i].Name == name {
				n.Rights[i].Class = class
			}
		}
	})
}

func seal(k int, run string, longest time.Duration) func(d *Deployment) {
	return with(k, func(n *Node) {
		n.Seal.State, n.Seal.Run, n.Seal.MaxTTL = probe.SealThere, run, longest
		n.Seal.Open = identity("a", 5)
	})
}

func clock(k int, c probe.Clock) func(d *Deployment) {
	return with(k, func(n *Node) { n.Clock = c })
}

// here gives all nodes addresses of this machine.
func here(d *Deployment) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		n.Local, n.Addr = true, "unix:/run/"+n.Server.RunID
	}
}

func config(k int, name, value string) func(d *Deployment) {
	return all(here, with(k, func(n *Node) {
		// At a unix socket of this machine the default user may do everything.
		n.User = "default"
		if n.Config == nil {
			n.Config = probe.Lines{}
		}
		n.Config[name] = value
	}))
}

func all(changes ...func(d *Deployment)) func(d *Deployment) {
	return func(d *Deployment) {
		for _, change := range changes {
			change(d)
		}
	}
}

func failover(k int, bound time.Duration) func(d *Deployment) {
	return with(k, func(n *Node) {
		n.Failover = conn.Failover{Expected: true, Bound: bound}
		n.Server.History = "history"
		n.Seal.Run = n.Process()
		n.Seal.Failover = pure.Failover{Expected: true, Bound: max(0, bound)}
	})
}

// inCluster makes nodes servers of a cluster with this node timeout, which
// accept writes without replicas.
func inCluster(k int, timeout string) func(d *Deployment) {
	return all(config(k, "min-replicas-to-write", "0"), config(k, "cluster-node-timeout", timeout), with(k, func(n *Node) {
		n.Server.Mode, n.Server.Addr = "cluster", "10.0.0.9:6379"
	}))
}

// forgetful is a deployment whose clients neither obey MaxTTL nor write seals.
func forgetful(d *Deployment) {
	d.MaxTTL = 0
	unsealed(len(d.Nodes))(d)
}

func unsealed(k int) func(d *Deployment) {
	return with(k, func(n *Node) { n.Seal = probe.Seal{State: probe.SealAbsent} })
}

// fenced gives the first k of n nodes floors, and all of them records.
func fenced(k, n int) func(d *Deployment) {
	return with(n, func(n *Node) {
		n.Fence = probe.Fence{State: probe.SealThere, Record: pure.Record{Run: n.RunID(), Floor: pure.NoFloor}}
		if k > 0 {
			n.Fence.Record.Floor = 5
		}
		k--
	})
}

// listed makes the first few nodes members of a set that is not open.
func listed(k int, letter string, size int) func(d *Deployment) {
	return func(d *Deployment) {
		for i := range k {
			s := &d.Nodes[i].Seal
			s.Seal = pure.Seal{Seat: pure.Seat{Member: member(letter, i), Listed: identity(letter, size)}, Names: s.Names}
		}
	}
}

// belong gives the first few nodes to another deployment.
func belong(k, size int) func(d *Deployment) {
	return with(k, func(n *Node) { n.Seal.Open = identity("b", size) })
}

const second, ms = time.Second, time.Millisecond

// Each fault alone, in a sound deployment of five, is the only finding.
func TestEveryFaultIsFoundAndNothingElse(t *testing.T) {
	down := func(n *Node) {
		n.Facts = probe.Facts{Addr: n.Addr, Err: errors.New("connection refused")}
		n.ClockKnown = false
	}
	for _, c := range []struct {
		name   string
		change func(d *Deployment)
		want   []string // "level check", the findings
	}{
		{"nothing", func(*Deployment) {}, nil},
		{"one node down", with(1, down), []string{"warning reachable"}},
		{"two nodes down", with(2, down), []string{"warning reachable"}},
		{"three nodes down", with(3, down), []string{"unsafe reachable"}},
		{"all nodes down", with(5, down), []string{"unsafe reachable"}},
		{"two down and one full", all(refuses(5, "SET", conn.ClassNone), with(2, down), func(d *Deployment) {
			d.Nodes[4].Rights = []probe.Right{{Name: "SET", Class: conn.ClassOOM}}
		}), []string{"unsafe reachable", "unsafe writes"}},
		{"an address that leads to two servers", with(1, func(n *Node) { n.Others = []string{"other"} }), []string{"unsafe one-server"}},
		{"same server twice", with(2, func(n *Node) { n.Server.RunID, n.Info["run_id"], n.Seal.Run = "run", "run", "run" }), []string{"unsafe same-server"}},
		{"same server twice, and the library says so", all(with(2, func(n *Node) { n.Server.RunID, n.Info["run_id"], n.Seal.Run = "run", "run", "run" }),
			with(1, func(n *Node) { n.Refused = errors.New("same") })), []string{"unsafe same-server"}},
		{"two masters on one machine", with(2, func(n *Node) { n.Addr = "10.9.9.9:" + n.Server.RunID }), []string{"warning placement"}},
		{"masters on this machine", func(d *Deployment) {
			for i, addr := range []string{"127.0.0.1:1", "localhost:2", "[::1]:3"} {
				d.Nodes[i].Addr, d.Nodes[i].Local = addr, true
			}
		}, []string{"warning addresses", "note placement"}},
		{"one master on this machine", with(1, func(n *Node) { n.Addr, n.Local = "127.0.0.1:1", true }), []string{"warning addresses"}},
		{"some masters at sockets", with(3, func(n *Node) { n.Addr, n.Local = "unix:/run/"+n.Server.RunID, true }), []string{"warning addresses"}},
		{"masters at sockets of this machine", with(5, func(n *Node) { n.Addr, n.Local = "unix:/run/"+n.Server.RunID, true }), nil},
		{"a replica", info(1, "role", "slave"), []string{"unsafe role"}},
		{"a sentinel", with(1, func(n *Node) { n.Server.Mode = "sentinel" }), []string{"unsafe role"}},
		{"a cluster node", info(1, "cluster_enabled", "1"), []string{"unsafe cluster"}},
		{"a cluster node by mode", with(1, func(n *Node) { n.Server.Mode = "cluster" }), []string{"unsafe cluster"}},
		{"a replica attached", info(1, "connected_slaves", "1"), []string{"warning replicas"}},
		{"sentinels", with(1, func(n *Node) { n.Watchers = 3 }), []string{"unsafe sentinels"}},
		{"allkeys-lru", info(1, "maxmemory_policy", "allkeys-lru"), []string{"unsafe eviction"}},
		{"volatile-ttl without a limit", all(info(1, "maxmemory_policy", "volatile-ttl"), info(1, "maxmemory", "0")), []string{"warning eviction"}},
		{"evicted before", info(1, "evicted_keys", "7"), []string{"note eviction"}},
		{"forgetful", forgetful, []string{"unsafe persistence", "warning forgetful"}},
		{"forgetful and everysec", all(forgetful, info(5, "aof_enabled", "1"), config(5, "appendfsync", "everysec")),
			[]string{"unsafe persistence", "warning forgetful"}},
		{"forgetful and always", all(forgetful, info(5, "aof_enabled", "1"), config(5, "appendfsync", "always")), []string{"warning forgetful"}},
		{"forgetful and always, but not while it saves", all(forgetful, info(5, "aof_enabled", "1"), config(5, "appendfsync", "always"),
			config(1, "no-appendfsync-on-rewrite", "yes")), []string{"unsafe persistence", "warning forgetful"}},
		{"declared, but not while it saves", all(with(1, func(n *Node) { n.Declared = true }), info(1, "aof_enabled", "1"),
			config(1, "appendfsync", "always"), config(1, "no-appendfsync-on-rewrite", "yes")), []string{"unsafe declared-durable"}},
		{"forgetful, and one forgets", all(forgetful, info(5, "aof_enabled", "1"), config(5, "appendfsync", "always"),
			info(1, "aof_enabled", "0")), []string{"unsafe persistence", "warning forgetful"}},
		{"declared and forgetful", with(1, func(n *Node) { n.Declared = true }), []string{"unsafe declared-durable"}},
		{"declared and durable", all(with(1, func(n *Node) { n.Declared = true }), info(1, "aof_enabled", "1"), config(1, "appendfsync", "always")), nil},
		{"disk full", info(1, "aof_last_write_status", "err"), []string{"warning disk"}},
		{"save failed", info(1, "rdb_last_bgsave_status", "err"), []string{"warning disk"}},
		{"TTL above MaxTTL", func(d *Deployment) { d.TTL = time.Hour }, []string{"unsafe max-ttl"}},
		{"another MaxTTL", seal(1, "run0", time.Hour), []string{"unsafe seals"}},
		{"two MaxTTLs", all(forgetful, seal(2, "run", time.Hour), seal(1, "run", time.Minute)),
			[]string{"unsafe persistence", "unsafe seals", "warning forgetful"}},
		{"seals, and forgetful", all(forgetful, seal(5, "run", time.Hour)), []string{"unsafe persistence", "warning forgetful", "warning seals"}},
		{"a seal from long ago, and forgetful", all(forgetful, seal(1, "run", time.Hour)),
			[]string{"unsafe persistence", "warning forgetful", "warning seals"}},
		{"seals, forgetful and durable", all(forgetful, seal(5, "run", time.Hour), info(5, "aof_enabled", "1"),
			config(5, "appendfsync", "always")), []string{"warning forgetful", "warning seals"}},
		{"no seal", with(1, func(n *Node) { n.Seal = probe.Seal{State: probe.SealStrange} }), []string{"warning seals"}},
		{"fenced", fenced(5, 5), nil},
		{"fenced, and one has no floor", fenced(4, 5), []string{"note fence"}},
		{"fenced, and one has that of another process", all(fenced(5, 5), with(1, func(n *Node) { n.Fence.Record.Run = "old" })), []string{"note fence"}},
		{"… but is durable", all(fenced(5, 5), with(1, func(n *Node) { n.Fence.Record.Run, n.Declared = "old", true }),
			info(1, "aof_enabled", "1"), config(1, "appendfsync", "always"), config(1, "no-appendfsync-on-rewrite", "no")), nil},
		{"fenced, and one remembers what cannot be", all(fenced(5, 5), with(1, func(n *Node) { n.Fence.Record.Cur = pure.LastNumber })), []string{"warning fence"}},
		{"fenced, and three have no floor", fenced(2, 5), []string{"note fence"}},
		{"fenced, and one that restarted has no floor", all(fenced(4, 5), with(5, func(n *Node) {
			if n.Fence.Record.Floor == pure.NoFloor {
				n.Seal.Run = "another"
			}
		})), []string{"note restarts"}},
		{"not fenced, but numbers were granted", fenced(0, 5), nil},
		{"no record of fencing numbers", with(1, func(n *Node) { n.Fence.State = probe.SealStrange }), []string{"warning fence"}},
		{"another database belongs to a deployment, too", with(1, func(n *Node) {
			n.Elsewhere = pure.Other{DB: 1, ID: identity("b", 5).ID}
		}), []string{"warning database"}},
		{"another database belongs to one, and this one to none", all(unsealed(5), with(1, func(n *Node) {
			n.Elsewhere = pure.Other{DB: 1, ID: identity("b", 5).ID}
		})), []string{"unsafe database", "warning initialised"}},
		{"not opened", unsealed(5), []string{"warning initialised"}},
		{"not opened, but named", with(5, func(n *Node) { n.Seal.Seal = pure.Seal{Seat: pure.Seat{Member: n.Seal.Member}} }), []string{"warning initialised"}},
		{"half opened", unsealed(2), []string{"warning initialised", "note restarts"}},
		{"half opened, and the rest is listed", listed(2, "a", 5), []string{"warning initialised", "note restarts"}},
		{"less than half opened", unsealed(3), []string{"unsafe initialised", "unsafe restarts"}},
		{"less than half opened, and the rest is listed", listed(3, "a", 5), []string{"unsafe initialised", "unsafe restarts"}},
		{"a dead client has left them listed", listed(5, "a", 5), []string{"warning initialised"}},
		{"a dead client has left one listed that was emptied", all(unsealed(5), listed(1, "c", 5)), []string{"warning initialised"}},
		{"one is listed for another set", all(unsealed(5), listed(1, "c", 3)), []string{"warning initialised"}},
		{"one is listed for another set, and the rest open", listed(1, "c", 3), []string{"unsafe deployment", "unsafe restarts"}},
		{"one is about to replace it", with(1, func(n *Node) { n.Seal.Member, n.Seal.Listed = member("c", 0), identity("c", 5) }), []string{"unsafe deployment"}},
		{"opened for another number", belong(5, 3), []string{"unsafe deployment"}},
		{"one opened for another number", belong(1, 3), []string{"unsafe deployment"}},
		{"of another deployment of as many", belong(1, 5), []string{"unsafe deployment"}},
		{"not a member", all(func(d *Deployment) { d.Nodes[0].Name = member("f", 0) }, unsealed(1)), []string{"warning deployment", "note restarts"}},
		{"a copy of another", func(d *Deployment) { d.Nodes[1].Seal.Seal = d.Nodes[0].Seal.Seal }, []string{"warning deployment", "note restarts"}},
		{"three copies of another", func(d *Deployment) {
			for i := 1; i < 4; i++ {
				d.Nodes[i].Seal.Seat = d.Nodes[0].Seal.Seat
			}
		}, []string{"unsafe deployment"}},
		{"a member by another address", with(1, func(n *Node) { n.Name = member("f", 0) }), nil},
		{"a member by too many addresses", with(1, func(n *Node) {
			for i := range 4 {
				n.Seal.Names = n.Seal.Names.With(n.Seal.Member, member("e", i))
			}
			n.Name = member("f", 0)
		}), []string{"warning deployment"}},
		{"restarted", all(seal(1, "another", time.Minute), info(1, "uptime_in_seconds", "9")), []string{"note restarts"}},
		{"adopted a moment ago", with(1, func(n *Node) { n.Seal.Watched = 9 * time.Second }), []string{"note restarts"}},
		{"a quorum restarted", all(seal(3, "another", time.Minute), info(3, "uptime_in_seconds", "9")), []string{"unsafe restarts"}},
		{"one restarted while two are down", all(seal(3, "another", time.Minute), info(3, "uptime_in_seconds", "9"), with(2, down)),
			[]string{"unsafe reachable", "unsafe restarts"}},
		{"restarted, and the seal has been there for long", with(1, func(n *Node) {
			n.Server.Unpromoted, n.Seal.Watched, n.Seal.Uptime = true, ms, 10*second
		}), nil},
		{"restarted, and the seal has been there for a while", with(1, func(n *Node) {
			n.Server.Unpromoted, n.Seal.Watched, n.Seal.Uptime = true, ms, 3580*second
		}), []string{"note restarts"}},
		{"restarted long ago, and no client has watched it", seal(1, "another", time.Minute), []string{"note restarts"}},
		{"fast", clock(1, probe.Clock{Span: second, Gained: 30 * ms, GainedError: 10 * ms}), []string{"unsafe clock-rate"}},
		{"slow", clock(1, probe.Clock{Span: second, Gained: -30 * ms, GainedError: 10 * ms}), []string{"unsafe clock-rate"}},
		{"perhaps fast", clock(1, probe.Clock{Span: 2 * second, Gained: 18 * ms, GainedError: 18 * ms}), nil},
		{"a little fast", clock(1, probe.Clock{Span: second, Gained: 6 * ms, GainedError: ms}), []string{"warning clock-rate"}},
		{"stepped", clock(1, probe.Clock{Span: second, Gained: 200 * ms, GainedError: ms, Stepped: true}), []string{"unsafe clock-rate"}},
		{"stepped a little", clock(1, probe.Clock{Span: second, Gained: 20 * ms, GainedError: ms, Stepped: true}), []string{"warning clock-rate"}},
		{"stepped by nothing", clock(1, probe.Clock{Span: second, Gained: ms, GainedError: ms, Stepped: true}), nil},
		{"ours is fast", clock(5, probe.Clock{Span: second, Gained: -30 * ms}), []string{"unsafe clock-rate"}},
		{"another time of day", clock(1, probe.Clock{Ahead: -time.Hour, AheadError: ms}), []string{"note clock-offset"}},
		{"may not EVALSHA", refuses(1, "EVALSHA", conn.ClassNoPerm), []string{"warning rights"}},
		{"may not EVALSHA on a quorum", refuses(3, "EVALSHA", conn.ClassNoPerm), []string{"unsafe rights"}},
		{"renamed", refuses(1, "SCRIPT LOAD", conn.ClassUnknownCommand), []string{"warning rights"}},
		{"runs no scripts", refuses(1, "EVALSHA", conn.ClassNoScript), []string{"warning rights"}},
		{"may not MGET, which scripts do without", refuses(5, "MGET", conn.ClassNoPerm), []string{"warning rights"}},
		{"may not be fenced", refuses(1, "CLIENT KILL", conn.ClassNoPerm), []string{"warning rights"}},
		{"an operator", with(1, func(n *Node) { n.Config = probe.Lines{} }), []string{"note broad-rights"}},
		{"the default user", with(1, func(n *Node) { n.Config, n.User = probe.Lines{}, "default" }), []string{"note broad-rights"}},
		{"the default user here", all(here, with(1, func(n *Node) { n.Config, n.User = probe.Lines{}, "default" })), nil},
		{"OOM", refuses(1, "SET", conn.ClassOOM), []string{"warning writes"}},
		{"MISCONF on a quorum", refuses(3, "SET", conn.ClassMisconf), []string{"unsafe writes"}},
		{"NOREPLICAS", all(refuses(1, "SET", conn.ClassNoReplicas), config(1, "min-replicas-to-write", "1")), []string{"warning writes", "warning min-replicas"}},
		{"fails over, in time", all(failover(1, 0), config(1, "min-replicas-to-write", "1"), config(1, "min-replicas-max-lag", "10"), info(1, "connected_slaves", "1")), nil},
		{"fails over, and a replica stays", all(failover(1, 0), config(1, "min-replicas-to-write", "1"), config(1, "min-replicas-max-lag", "10"), info(1, "connected_slaves", "2")), []string{"warning failover"}},
		{"fails over, later than declared", all(failover(1, 5*second), config(1, "min-replicas-to-write", "1"), config(1, "min-replicas-max-lag", "10"), info(1, "connected_slaves", "1")), []string{"warning failover"}},
		{"fails over, as declared", failover(1, 5*second), nil},
		{"fails over, unknown when", failover(1, -1), []string{"warning failover"}},
		{"fails over, and no lock lasts for as long", failover(1, 37*second), []string{"warning failover"}},
		{"fails over, by its URL alone", with(1, func(n *Node) { n.Failover = conn.Failover{Expected: true, Bound: second} }), []string{"unsafe failover"}},
		{"fails over, by its seal alone", with(1, func(n *Node) { n.Seal.Failover.Expected = true }), []string{"unsafe failover"}},
		{"fails over, in another time", all(failover(1, 5*second), with(1, func(n *Node) { n.Seal.Failover.Bound = second })), []string{"unsafe failover"}},
		{"fails over, and did a moment ago", all(failover(1, 5*second), seal(1, "another", time.Minute)), []string{"note restarts"}},
		{"fails over in a cluster, as declared", all(failover(1, 15*second), inCluster(1, "9000")), nil},
		{"fails over in a cluster, later than declared", all(failover(1, 14*second), inCluster(1, "9000")), []string{"warning failover"}},
		{"fails over in a cluster, without a time", all(failover(1, 5*second), inCluster(1, "")), []string{"warning failover"}},
		{"fails over in a cluster, and declares nothing", all(failover(1, 0), inCluster(1, "1000")), []string{"warning failover"}},
		{"fails over in a cluster, sooner by its replicas", all(failover(1, 12*second), inCluster(1, "15000"), config(1, "min-replicas-to-write", "1"),
			config(1, "min-replicas-max-lag", "10"), info(1, "connected_slaves", "1")), nil},
		{"fails over, and says nothing", failover(1, 0), []string{"warning failover"}},
		{"nearly full", info(1, "used_memory", "850000"), []string{"warning memory"}},
		{"machine nearly full", all(info(1, "maxmemory", "0"), info(1, "used_memory", "90000000")), []string{"warning memory"}},
		{"more than there is", info(1, "maxmemory", "200000000"), []string{"warning memory"}},
		{"long round trip", clock(1, probe.Clock{RoundTrip: 300 * ms}), []string{"warning round-trip"}},
		{"too long a round trip", clock(2, probe.Clock{RoundTrip: second}), []string{"warning round-trip"}},
		{"too long a round trip to a quorum", clock(3, probe.Clock{RoundTrip: second}), []string{"unsafe round-trip"}},
		{"KEYS", with(1, func(n *Node) { n.Slow = []probe.Slow{{Command: "KEYS", Took: 2 * second, Ago: time.Minute}} }), []string{"warning slow-commands"}},
		{"KEYS long ago", with(1, func(n *Node) { n.Slow = []probe.Slow{{Command: "KEYS", Took: 2 * second, Ago: 2 * time.Hour}} }), nil},
		{"slow fork", info(1, "latest_fork_usec", "1500000"), []string{"warning slow-commands"}},
		{"many clients", info(1, "connected_clients", "9000"), []string{"warning clients"}},
		{"closes idle connections", config(1, "timeout", "3"), []string{"warning idle-timeout"}},
		{"closes idle connections late", config(1, "timeout", "300"), nil},
		{"old", with(1, func(n *Node) { n.Server.Product, n.Server.Version = "redis", "6.2.24" }), []string{"warning version"}},
		{"mixed", with(1, func(n *Node) { n.Server.Product, n.Server.Version = "redis", "8.2.9" }), nil},
		{"a fault of TLS", with(1, func(n *Node) { n.Server.Version = "8.1.8" }), []string{"warning tls-kill"}},
		{"a fault of TLS, but none is spoken", with(1, func(n *Node) { n.Server.Version, n.TLS, n.Local = "8.1.8", false, true }), []string{"warning addresses"}},
		{"strange product", with(1, func(n *Node) { n.Server.Product = "keydb" }), []string{"note version"}},
		{"no TLS", with(1, func(n *Node) { n.TLS = false }), []string{"warning encryption"}},
		{"no TLS here", all(here, with(1, func(n *Node) { n.TLS = false })), nil},
		{"unverified", with(1, func(n *Node) { n.Unverified = true }), []string{"warning encryption"}},
		{"no password", with(1, func(n *Node) { n.Secret = false }), []string{"warning password"}},
		{"other keys", info(1, "db0", "keys=7,expires=3,avg_ttl=1"), []string{"note other-keys"}},
		{"only a seal", all(info(1, "db0", "keys=4,expires=3,avg_ttl=1"), seal(1, "run0", time.Minute)), nil},
		{"flushed", with(1, func(n *Node) { n.Flushes = 2 }), []string{"note flushes"}},
		{"refused by the library", with(1, func(n *Node) { n.Refused = errors.New("because") }), []string{"warning client"}},
		{"refused by the library on a quorum", with(3, func(n *Node) { n.Refused = errors.New("because") }), []string{"unsafe client"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := sound(5)
			c.change(d)
			r := Examine(*d)
			var got []string
			for _, f := range r.Findings {
				got = append(got, string(f.Level)+" "+f.Check)
				assert.NotEmpty(t, f.Found)
				assert.NotEmpty(t, f.Why)
				assert.NotEmpty(t, f.Change)
				if f.Check != "max-ttl" && f.Check != "forgetful" {
					assert.NotEmpty(t, f.Seen)
				}
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int]string{1: "there is one master", 2: "there are 2 masters", 3: "", 4: "an even number", 5: "", 6: "an even number", 7: ""} {
		r := Examine(*sound(n))
		if want == "" {
			assert.Empty(t, r.Findings, n)
			continue
		}
		if assert.Len(t, r.Findings, 1, n) {
			assert.Contains(t, r.Findings[0].Found, want)
			assert.Equal(t, Warning, r.Findings[0].Level)
		}
	}
}

// What may not be asked is unknown, and no finding: a node that says nothing of
// itself has no fault (R22).
func TestWhatMayNotBeAskedIsUnknown(t *testing.T) {
	d := sound(3)
	d.MaxTTL = 0
	for i := range d.Nodes {
		n := &d.Nodes[i]
		n.Facts = probe.Facts{Addr: n.Addr, TLS: true, Secret: true, Info: probe.Lines{}, Flushes: -1, Watchers: -1, Rights: rights()}
		n.ClockKnown = false
	}
	r := Examine(*d)
	if assert.Len(t, r.Findings, 1) {
		assert.Equal(t, "forgetful", r.Findings[0].Check)
	}
	var got []string
	for _, u := range r.Unknown {
		got = append(got, u.Check)
		assert.Len(t, u.Seen, 3)
	}
	assert.Equal(t, []string{"same-server", "eviction", "idle-timeout", "sentinels", "seals", "clock-rate", "persistence"}, got)
	assert.False(t, r.Has(Unsafe) || r.Has(Note))

	d = sound(3)
	d.MaxTTL, d.Watched = time.Minute, true
	d.Nodes[0].Declared, d.Nodes[0].Info["aof_enabled"] = true, "1"
	d.Nodes[1].Clock.Span = 0
	r = Examine(*d)
	assert.Empty(t, r.Findings)
	for check, addr := range map[string]string{"declared-durable": d.Nodes[0].Addr, "clock-rate": d.Nodes[1].Addr} {
		i := slices.IndexFunc(r.Unknown, func(u Unknown) bool { return u.Check == check })
		if assert.GreaterOrEqual(t, i, 0, check) && assert.Len(t, r.Unknown[i].Seen, 1) {
			assert.Equal(t, addr, r.Unknown[i].Seen[0].Addr)
		}
	}

	d = sound(3)
	failover(1, 5*time.Second)(d)
	r = Examine(*d)
	if assert.Len(t, r.Unknown, len(Examine(*sound(3)).Unknown)+1) {
		assert.True(t, slices.ContainsFunc(r.Unknown, func(u Unknown) bool { return u.Check == "failover" && len(u.Seen) == 1 }))
	}

	d = sound(3)
	d.Nodes[0].Clock.GainedError = 100 * ms
	r = Examine(*d)
	assert.True(t, slices.ContainsFunc(r.Unknown, func(u Unknown) bool { return u.Check == "clock-rate" }), "too coarse to tell")
}

// The worst findings come first, whatever the order of the faults.
func TestTheWorstComesFirst(t *testing.T) {
	d := sound(4)
	all(with(1, func(n *Node) { n.Flushes = 1 }), info(1, "role", "slave"), info(2, "connected_slaves", "2"))(d)
	var levels []Level
	r := Examine(*d)
	for _, f := range r.Findings {
		levels = append(levels, f.Level)
	}
	assert.Equal(t, []Level{Unsafe, Warning, Warning, Note}, levels)
	assert.True(t, r.Has(Unsafe) && r.Has(Warning) && r.Has(Note))
	assert.Equal(t, 4, r.Nodes)
	assert.Equal(t, 3, r.Quorum)
	assert.Equal(t, len(checks), r.Checks)
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0.0 B", 1023: "1023.0 B", 1024: "1.0 KiB", 5 << 30: "5.0 GiB", 1 << 62: "4194304.0 TiB"} {
		assert.Equal(t, want, size(bytes))
	}
}

// The list of checks says what each wants.
func TestChecks(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Checks() {
		assert.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		assert.Regexp(t, `^[a-z-]+$`, c.Name)
		assert.NotEmpty(t, c.Wants, c.Name)
	}
	assert.Len(t, seen, len(checks))
}

// The report says where each master stands, also of a sound deployment: as a
// client would find that starts now.
func TestReportSaysWhereEachMasterStands_R29_R30(t *testing.T) {
	id := identity("a", 3).ID
	r := Examine(*sound(3))
	up := 3600.0
	for i, m := range r.Masters {
		assert.Equal(t, Master{Addr: fmt.Sprintf("10.0.0.%d:6379", i), Deployment: id, Size: 3, Uptime: time.Hour, Started: true, UptimeS: &up}, m)
	}

	d := sound(3)
	with(2, func(n *Node) {
		n.Server.Unpromoted, n.Seal.Watched, n.Seal.Uptime = true, second, 3580*second
	})(d)
	d.Nodes[1].Declared = true
	d.Nodes[2].Facts = probe.Facts{Addr: d.Nodes[2].Addr, Err: errors.New("refused")}
	r = Examine(*d)
	left := pure.NeedFor(time.Minute, drift) - 19*second
	for _, m := range r.Masters[:2] {
		assert.Equal(t, left, m.Quarantine, "the age of the seal counts")
		assert.Equal(t, left.Seconds(), *m.QuarantineS)
		assert.True(t, m.Quarantined)
		assert.Equal(t, pure.WhyFirst, m.Why)
	}
	assert.Equal(t, Master{Addr: "10.0.0.2:6379"}, r.Masters[2])
	assert.Contains(t, fmt.Sprint(r.Findings), "it for 1s; counts in 41.6s")

	d = sound(3)
	all(unsealed(3), with(3, func(n *Node) { n.Server.Unpromoted = true }), info(1, "uptime_in_seconds", "12"))(d)
	left = pure.NeedFor(time.Minute, drift) - 10*second
	for _, m := range Examine(*d).Masters {
		assert.Equal(t, left, m.Quarantine, "the youngest counts for all")
		assert.Equal(t, "not opened yet", m.Why)
	}
}

func TestVersionsWithAFaultOfTLS(t *testing.T) {
	for version, lacks := range map[string]bool{
		"redis 6.2.23": true, "redis 6.2.24": false, "redis 7.0.15": true, "redis 7.2.16": false, "redis 7.2": true, "redis 8.0.6": true,
		"redis 8.6.3": true, "redis 8.8.2": false, "redis 8.10.0": true, "redis 8.10.1": false, "redis 8.12.0": false, "redis 9.0.0": false,
		"redis 5.0.14": true, "valkey 7.2.13": true, "valkey 8.0.10": false, "valkey 9.1.0": true, "valkey 9.1.1": false, "valkey 9.2.0": false,
		"redict 7.3.6": false, "redis ": false, "redis x.y": false, " ": false, "redis 255.255.255": false,
	} {
		product, number, _ := strings.Cut(version, " ")
		assert.Equal(t, lacks, lacksTLSFix(product, number), version)
	}
}

// Two floors of four are as many as clients need to learn what the others
// forgot; one is too few.
func TestFloorsOfAnEvenNumberOfMasters(t *testing.T) {
	for floors, few := range map[int]bool{1: true, 2: false, 3: false} {
		d := sound(4)
		fenced(floors, 4)(d)
		text := fmt.Sprint(Examine(*d).Findings)
		assert.Equal(t, few, strings.Contains(text, "too few masters are left"), "%d floors: %s", floors, text)
	}
}
