package failover

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// Sentinels is a node: a primary with two replicas, and three sentinels.
type Sentinels struct {
	group *redistest.SentinelGroup
	kinds []string
}

// How a primary loses its place. With Returned a replica follows the new primary,
// the former one, and the new one again.
const (
	Asked            = "SENTINEL FAILOVER"
	Killed           = "SIGKILL"
	Stopped          = "SIGSTOP, SIGCONT"
	CutOff           = "cut off"
	CutOffAndStopped = "cut off and stopped"
	Returned         = "a replica returns"
)

// SentinelKinds are those that the promise covers.
var SentinelKinds = []string{CutOff, Asked, CutOffAndStopped, Killed, Stopped}

// NewSentinels starts the servers. needed is min-replicas-to-write. If secure,
// servers and sentinels are over TLS alone.
func NewSentinels(tb testing.TB, needed int, secure bool, kinds ...string) *Sentinels {
	tb.Helper()
	over := redistest.Option(redistest.OverTCP)
	if secure {
		over = redistest.OverTLS
	}
	group := redistest.Sentinels(tb, redistest.Fronted, over,
		redistest.Args("--min-replicas-to-write", strconv.Itoa(needed), "--min-replicas-max-lag", "1"))
	return &Sentinels{group, kinds}
}

// ServerTLS is that of a server with the same certificate, or nil.
func (n *Sentinels) ServerTLS() *tls.Config { return n.group.Servers[0].ServerTLS() }

// URL is that of the sentinels.
func (n *Sentinels) URL() string { return n.group.URL() }

// Kinds are the ways to fail.
func (n *Sentinels) Kinds() []string { return n.kinds }

// Route goes past the proxies.
func (n *Sentinels) Route(addr string) (to string, sentinel, ok bool) {
	for _, s := range n.group.Servers {
		if addr == s.Front().Addr() || addr == s.TCPAddr() {
			return s.TCPAddr(), false, true
		}
	}
	for _, s := range n.group.Sentinels {
		if addr == s.TCPAddr() {
			return addr, true, true
		}
	}
	return "", false, false
}

// Primary returns the address past the proxy.
func (n *Sentinels) Primary() (string, error) {
	s := n.group.Primary()
	if s == nil {
		return "", errors.New("failover: the sentinels name no primary")
	}
	return s.TCPAddr(), nil
}

// lag is how far replicas lag behind, in half of the failovers. It is less than
// after what sentinels take a server for dead.
const lag = 200 * time.Millisecond

// returns is for how long: longer than new primaries do not count.
const returns = 12 * time.Second

// Fail makes the primary lose its place, and its successor keep it.
func (n *Sentinels) Fail(kind string) error {
	former := n.group.Primary()
	if former == nil {
		return errors.New("failover: the sentinels name no primary")
	}
	if rand.IntN(2) == 0 && kind != Returned {
		n.delay(lag)
		time.Sleep(2 * lag)
	}
	err := n.fail(kind, former)
	n.delay(0)
	if err != nil {
		return err
	}
	// Now it is a primary that may think that it is the only one. By hand or by
	// the sentinels, which take eight seconds, it becomes a replica.
	time.Sleep(rand.N(2 * time.Second))
	return n.settle()
}

func (n *Sentinels) delay(down time.Duration) {
	for _, s := range n.group.Servers {
		s.Front().Latency(0, down)
	}
}

func (n *Sentinels) fail(kind string, former *redistest.Server) error {
	moment := rand.N(2 * time.Second)
	failed := func() error {
		_, err := n.group.AwaitFailover(former)
		time.Sleep(moment)
		return err
	}
	switch kind {
	case Asked:
		return n.ask(former)
	case Killed:
		return errors.Join(former.Kill(), failed(), n.group.Rejoin(former))
	case Stopped:
		return errors.Join(former.Stop(), failed(), former.Continue())
	case CutOff:
		former.Front().Pause(redistest.Both)
		defer former.Front().Resume(redistest.Both)
		return failed()
	case CutOffAndStopped:
		former.Front().Pause(redistest.Both)
		defer former.Front().Resume(redistest.Both)
		err := errors.Join(former.Stop(), failed(), former.Continue())
		time.Sleep(moment)
		return err
	case Returned:
		return n.failAndReturn(former)
	}
	return fmt.Errorf("failover: no way to fail is called %q", kind)
}

// ask asks for a failover, again if it was given up on a busy machine.
func (n *Sentinels) ask(former *redistest.Server) error {
	asked := time.Time{}
	return awaitTrue("another primary", n.state, func() bool {
		if now := n.group.Primary(); now != nil && now != former {
			return now.Info("replication", "role") == "master"
		}
		if time.Since(asked) > 5*time.Second {
			asked = time.Now()
			_, _ = n.group.Sentinels[0].Do("SENTINEL", "FAILOVER", redistest.MasterName)
		}
		return false
	})
}

// state tells what is wrong.
func (n *Sentinels) state() (all string) {
	for _, s := range n.group.Servers {
		all += fmt.Sprintf("; %s, of %s, %s", s.Info("replication", "role"), s.Info("replication", "master_port"), s.Info("replication", "master_link_status"))
		all += " behind " + s.Front().Addr()
	}
	for _, s := range n.group.Sentinels {
		said, err := s.Do("SENTINEL", "MASTER", redistest.MasterName)
		all += fmt.Sprint("; ", said, err)
	}
	return all
}

// failAndReturn gives a primary that was cut off a replica again, and takes it
// away once its successor counts.
func (n *Sentinels) failAndReturn(former *redistest.Server) error {
	front := former.Front()
	front.Pause(redistest.Both)
	defer front.Resume(redistest.Both)
	now, err := n.group.AwaitFailover(former)
	if err != nil {
		return err
	}
	replica := n.group.Servers[slices.IndexFunc(n.group.Servers, func(s *redistest.Server) bool { return s != former && s != now })]
	linked := func() bool { return follows(replica, now) && replica.Info("replication", "master_link_status") == "up" }
	if err := awaitTrue("the replica", n.state, linked); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // clients meet the new primary
	replica.Front().Pause(redistest.Both)
	defer replica.Front().Resume(redistest.Both)
	host, port, _ := net.SplitHostPort(former.TCPAddr())
	if _, err := replica.Do("REPLICAOF", host, port); err != nil {
		return err
	}
	time.Sleep(returns)
	return errors.Join(replica.Follow(now), awaitTrue("the replica", n.state, linked))
}

// settle waits until two replicas follow the primary, and the sentinels are
// done. It makes none a replica while they are not: they may be about to promote
// it.
func (n *Sentinels) settle() error {
	return awaitTrue("the sentinels to settle", n.state, func() bool {
		primary := n.group.Primary()
		if primary == nil || primary.Info("replication", "role") != "master" || !n.group.Agree() {
			return false
		}
		settled := true
		for _, s := range n.group.Servers {
			if s == primary || s.Info("replication", "master_link_status") == "up" && follows(s, primary) {
				continue
			}
			settled = false
			if !follows(s, primary) {
				_ = s.Follow(primary)
			}
		}
		return settled
	})
}

// follows reports whether a server is a replica of a primary.
func follows(replica, primary *redistest.Server) bool {
	_, port, _ := net.SplitHostPort(primary.Front().Addr())
	return replica.Info("replication", "master_port") == port
}

// patience bounds what servers take on a busy machine.
const patience = 2 * time.Minute

func awaitTrue(what string, state func() string, holds func() bool) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("failover: waited for %s in vain%s", what, state())
}
