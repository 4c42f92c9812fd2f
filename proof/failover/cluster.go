package failover

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
)

// Cluster is a node: the master of the slot of Prefix, in a cluster of three
// masters with a replica each.
type Cluster struct {
	group *redistest.ClusterGroup
	slot  uint16
}

// NewCluster starts the servers. They accept writes without replicas.
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()
	slot, _ := pure.PrefixSlot(Prefix)
	return &Cluster{redistest.Cluster(tb, redistest.Fronted), uint16(slot)}
}

// How a master loses its slot: to its replica, or to another master with its
// keys.
const (
	ClusterAsked = "CLUSTER FAILOVER"
	Moved        = "the slot moves"
)

// URL is that of some servers.
func (n *Cluster) URL() string { return n.group.URL() }

// ServerTLS is nil: the cluster is without TLS.
func (n *Cluster) ServerTLS() *tls.Config { return nil }

// Kinds are the ways to fail.
func (n *Cluster) Kinds() []string { return []string{CutOff, Moved, ClusterAsked, Killed, Stopped} }

// Route has no proxies to go past.
func (n *Cluster) Route(addr string) (to string, sentinel, ok bool) {
	return addr, false, slices.ContainsFunc(n.group.Servers, func(s *redistest.Server) bool { return s.TCPAddr() == addr })
}

// Primary returns the owner of the slot.
func (n *Cluster) Primary() (string, error) {
	s := n.group.Owner(n.slot)
	if s == nil {
		return "", errors.New("failover: no server has the slot")
	}
	return s.TCPAddr(), nil
}

// Fail makes the owner lose the slot.
func (n *Cluster) Fail(kind string) error {
	former := n.group.Owner(n.slot)
	if former == nil {
		return errors.New("failover: no server has the slot")
	}
	if err := n.fail(kind, former); err != nil {
		return err
	}
	return awaitTrue("the cluster to settle", n.state, func() bool {
		owner := n.group.Owner(n.slot)
		return owner != nil && owner.Info("replication", "connected_slaves") == "1" && n.group.Agree()
	})
}

func (n *Cluster) fail(kind string, former *redistest.Server) error {
	moment := rand.N(time.Second)
	failed := func() error {
		_, err := n.group.AwaitFailover(n.slot, former)
		time.Sleep(moment)
		return err
	}
	switch kind {
	case ClusterAsked:
		_, err := n.group.Failover(n.slot)
		return err
	case Moved:
		return n.group.MoveSlot(n.slot, n.other(former), func() { time.Sleep(moment) })
	}
	inDate, err := n.outdate(former)
	if err != nil {
		return err
	}
	switch kind {
	case Killed:
		return errors.Join(former.Kill(), failed(), inDate(), former.Restart())
	case Stopped:
		return errors.Join(former.Stop(), failed(), inDate(), former.Continue())
	case CutOff:
		heal := n.group.CutOff(former)
		defer heal()
		return errors.Join(failed(), inDate())
	}
	return fmt.Errorf("failover: no way to fail is called %q", kind)
}

// outdate keeps a master's replica away from it, with a password that the master
// does not know. It returns how to end that.
func (n *Cluster) outdate(master *redistest.Server) (end func() error, err error) {
	_, port, _ := net.SplitHostPort(master.TCPAddr())
	isReplica := func(s *redistest.Server) bool { return s.Info("replication", "master_port") == port }
	i := slices.IndexFunc(n.group.Servers, isReplica)
	if i < 0 {
		return nil, errors.New("failover: the master has no replica")
	}
	replica := n.group.Servers[i]
	_, err = replica.Do("CONFIG", "SET", "masterauth", "another")
	_, err2 := master.Do("CLIENT", "KILL", "TYPE", "replica")
	time.Sleep(2 * lag)
	return func() error { _, err := replica.Do("CONFIG", "SET", "masterauth", ""); return err }, errors.Join(err, err2)
}

// state tells what is wrong.
func (n *Cluster) state() (all string) {
	for _, s := range n.group.Servers {
		said, err := s.Do("CLUSTER", "NODES")
		all += fmt.Sprint("; ", said, err)
	}
	return all
}

// other returns another master.
func (n *Cluster) other(than *redistest.Server) *redistest.Server {
	for _, i := range rand.Perm(len(n.group.Servers)) {
		s := n.group.Servers[i]
		if s != than && s.Info("replication", "role") == "master" {
			return s
		}
	}
	return than
}
