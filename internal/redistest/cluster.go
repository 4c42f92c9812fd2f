package redistest

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A ClusterGroup is a cluster of three masters with a replica each. All of them
// listen on TCP, or with OverTLS on TLS only.
type ClusterGroup struct {
	// Servers are the masters and then the replicas, in the order in which they
	// were started. Server i+3 was the replica of server i.
	Servers []*Server
}

// Cluster starts a cluster for a test, and waits until all servers agree, which
// takes seconds. A master counts as down after 1 s.
func Cluster(tb testing.TB, options ...Option) *ClusterGroup {
	tb.Helper()
	options = append([]Option{OverTCP, OfOneKind, Args("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000")}, options...)
	g := &ClusterGroup{Servers: Servers(tb, 6, append(options, toReplicate, toCluster, toFront)...)}
	if g.Servers[0].opts.fronted {
		for _, s := range g.Servers {
			if err := s.frontBus(tb); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := g.form(); err != nil {
		tb.Fatal(err)
	}
	return g
}

// toCluster completes the options of servers of a cluster.
func toCluster(o *Options) {
	if o.TLS {
		o.Args = append(o.Args, "--tls-cluster", "yes")
	}
}

// frontBus puts a proxy before a server's cluster bus.
func (s *Server) frontBus(tb testing.TB) error {
	p, err := NewProxy("redis://127.0.0.1:" + s.busPort())
	if err != nil {
		return err
	}
	tb.Cleanup(func() { _ = p.Close() })
	s.front = p
	_, err = s.Do("CONFIG", "SET", "cluster-announce-bus-port", s.busPort())
	_, err2 := s.Do("CONFIG", "SET", "bind-source-addr", s.source())
	return errors.Join(err, err2)
}

// toFront completes the options of servers of a cluster with fronts: a replica
// comes from its source, which a master takes for another machine's.
func toFront(o *Options) {
	if o.fronted {
		o.Args = append(o.Args, "--protected-mode", "no")
	}
}

// source is an address of this machine, from which the server connects to
// others of its cluster.
func (s *Server) source() string { return fmt.Sprintf("127.1.%d.%d", s.port>>8, s.port&0xff) }

// busPort is the port at which other servers of a cluster reach this one.
func (s *Server) busPort() string {
	if s.front == nil {
		return strconv.Itoa(s.port - belowPort)
	}
	return portOf(s.front.Addr())
}

// CutOff cuts a server off from all others of the cluster, with Fronted, until
// heal is called. Clients still reach it.
func (g *ClusterGroup) CutOff(s *Server) (heal func()) {
	s.front.Pause(Both)
	for _, other := range g.Servers {
		other.front.Bar(s.source())
		other.front.Reset()
	}
	return func() {
		for _, other := range g.Servers {
			other.front.Bar("")
		}
		s.front.Resume(Both)
	}
}

// mastersOfCluster is how many of the servers are masters at first.
const mastersOfCluster = 3

// form makes the servers a cluster.
func (g *ClusterGroup) form() error {
	for i, s := range g.Servers {
		if i < mastersOfCluster {
			const share = 16384/mastersOfCluster + 1
			if _, err := s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*share), strconv.Itoa(min(16384, (i+1)*share)-1)); err != nil {
				return err
			}
		}
		if _, err := s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		first := g.Servers[0]
		if _, err := s.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(first.port), first.busPort()); err != nil {
			return err
		}
	}
	know := func() bool { return !slices.ContainsFunc(g.Servers, func(s *Server) bool { return !g.knows(s) }) }
	if err := await("the cluster to know its servers", know); err != nil {
		return err
	}
	for i, s := range g.Servers[mastersOfCluster:] {
		if _, err := s.Do("CLUSTER", "REPLICATE", g.Servers[i].id()); err != nil {
			return err
		}
	}
	return await("the cluster to agree", g.Agree)
}

// Agree reports whether each server is a master or follows one, knows all
// others, and finds nothing wrong.
func (g *ClusterGroup) Agree() bool {
	return !slices.ContainsFunc(g.Servers, func(s *Server) bool {
		linked := s.Info("replication", "role") == "master" || s.Info("replication", "master_link_status") == "up"
		return !linked || s.clusterInfo("cluster_state") != "ok" || strings.Count(s.nodes(), "slave") != len(g.Servers)-mastersOfCluster
	})
}

// knows reports whether a server knows all others.
func (g *ClusterGroup) knows(s *Server) bool {
	return strings.Count(s.nodes(), " connected") == len(g.Servers) && !strings.Contains(s.nodes(), "handshake")
}

func (s *Server) id() string {
	id, _ := s.Do("CLUSTER", "MYID")
	return fmt.Sprint(id)
}

func (s *Server) nodes() string {
	all, _ := s.Do("CLUSTER", "NODES")
	return fmt.Sprint(all)
}

func (s *Server) clusterInfo(field string) string {
	all, _ := s.Do("CLUSTER", "INFO")
	for line := range strings.Lines(fmt.Sprint(all)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key == field {
			return value
		}
	}
	return ""
}

// URL is where clients connect: the addresses of the first masters, with the
// password.
func (g *ClusterGroup) URL() string {
	first := g.Servers[0]
	u := url.URL{Scheme: "redis+cluster", Host: strings.Join(addrs(g.Servers[:mastersOfCluster]), ","), User: first.userinfo()}
	if first.opts.TLS {
		u.Scheme = "rediss+cluster"
		u.RawQuery = url.Values{"tls_ca_file": {first.CAFile()}}.Encode()
	}
	return u.String()
}

// Owner returns the master that has a slot by its own word, or nil. Servers
// that are down or stopped are given as away, and not asked.
func (g *ClusterGroup) Owner(slot uint16, away ...*Server) *Server {
	for _, s := range g.Servers {
		if slices.Contains(away, s) {
			continue
		}
		for line := range strings.Lines(s.nodes()) {
			fields := strings.Fields(line)
			if len(fields) >= 8 && strings.Contains(fields[2], "myself") && strings.Contains(fields[2], "master") && hasSlot(fields[8:], slot) {
				return s
			}
		}
	}
	return nil
}

// hasSlot reports whether a list such as "0-5461 7000 [9->-id]" has the slot.
func hasSlot(ranges []string, slot uint16) bool {
	return slices.ContainsFunc(ranges, func(r string) bool {
		low, high, ok := strings.Cut(r, "-")
		if !ok {
			high = low
		}
		first, err := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		return err == nil && err2 == nil && first <= int(slot) && int(slot) <= last
	})
}

// Failover has a replica take the place of the master with a slot, in agreement
// with it, and waits until it has. It returns the new master.
func (g *ClusterGroup) Failover(slot uint16) (*Server, error) {
	former := g.Owner(slot)
	if former == nil {
		return nil, errors.New("redistest: no server has the slot")
	}
	for _, s := range g.Servers {
		if s.Info("replication", "master_port") == strconv.Itoa(former.port) {
			if _, err := s.Do("CLUSTER", "FAILOVER"); err != nil {
				return nil, err
			}
			return g.AwaitFailover(slot, former)
		}
	}
	return nil, errors.New("redistest: the master has no replica")
}

// AwaitFailover waits until another server than the former has a slot. The
// former is not asked, since it may be stopped or killed.
func (g *ClusterGroup) AwaitFailover(slot uint16, former *Server) (now *Server, err error) {
	err = await("another master", func() bool {
		now = g.Owner(slot, former)
		return now != nil && now.clusterInfo("cluster_state") == "ok"
	})
	return now, err
}

// MoveSlot moves a slot with its keys to another master, as resharding does. If
// during is not nil, it is called while the slot is under migration, before its
// keys are moved.
func (g *ClusterGroup) MoveSlot(slot uint16, to *Server, during func()) error {
	from := g.Owner(slot)
	if from == nil || from == to {
		return errors.New("redistest: no other server has the slot")
	}
	n := strconv.Itoa(int(slot))
	if _, err := to.Do("CLUSTER", "SETSLOT", n, "IMPORTING", from.id()); err != nil {
		return err
	}
	if _, err := from.Do("CLUSTER", "SETSLOT", n, "MIGRATING", to.id()); err != nil {
		return err
	}
	if during != nil {
		during()
	}
	if err := from.migrate(n, to); err != nil {
		return err
	}
	for _, s := range []*Server{to, from} {
		if _, err := s.Do("CLUSTER", "SETSLOT", n, "NODE", to.id()); err != nil {
			return err
		}
	}
	return nil
}

// LoseSlot takes a slot away from its master and gives it back at once, by hand
// and without its keys. The master deletes them when it hears of the other's
// claim. No server begins another epoch. to must have a higher one than the
// owner.
func (g *ClusterGroup) LoseSlot(slot uint16, to *Server) error {
	owner, n := g.Owner(slot), strconv.Itoa(int(slot))
	if owner == nil || owner == to {
		return errors.New("redistest: no other server has the slot")
	}
	if _, err := to.Do("CLUSTER", "SETSLOT", n, "NODE", to.id()); err != nil {
		return err
	}
	// The owner can be told only now: it would not give up a slot with keys.
	if err := await("the slot to be lost", func() bool { return g.Owner(slot, to) == nil }); err != nil {
		return err
	}
	for _, s := range []*Server{to, owner} {
		if _, err := s.Do("CLUSTER", "SETSLOT", n, "NODE", owner.id()); err != nil {
			return err
		}
	}
	return nil
}

// migrate moves the keys of a slot.
func (s *Server) migrate(slot string, to *Server) error {
	for {
		said, err := s.Do("CLUSTER", "GETKEYSINSLOT", slot, "100")
		keys, _ := said.([]any)
		if err != nil || len(keys) == 0 {
			return err
		}
		args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "5000"}
		if to.opts.Password != "" {
			args = append(args, "AUTH", to.opts.Password)
		}
		args = append(args, "KEYS")
		for _, key := range keys {
			args = append(args, fmt.Sprint(key))
		}
		if _, err := s.Do(args...); err != nil {
			return err
		}
	}
}
