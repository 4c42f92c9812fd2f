package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// A Deployment is some independent nodes, and the way to them. Its methods may be called from any goroutine.
type Deployment struct {
	settings settings
	nodes    []*Node
	dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil for real servers

	mu   sync.Mutex // guards the following, and is held until all has ended
	ends []func() error
}

// New starts a deployment of 1 to 16 nodes for a test, and ends it with the test. It waits until all of them answer: real
// servers for some ten seconds at most. What cannot be done fails the test, with the reason; but see RealOrSkip. Inside
// testing/synctest, call it, and make the clients, in the bubble.
func New(tb testing.TB, nodes int, options ...Option) *Deployment {
	tb.Helper()
	d, err := Start(nodes, options...)
	switch {
	case errors.Is(err, ErrNoServer) && newSettings(options).skip:
		tb.Skipf("skipped: %v", err)
	case err != nil:
		tb.Fatal(err)
	}
	d.complain(func(err error) { tb.Error(err) })
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// ErrNoServer says that there is no server program to start: neither redis-server nor valkey-server on PATH, and the
// environment variable REDMUX_SERVER names none.
var ErrNoServer = redistest.ErrNoServer

// Start is New for where there is no test, as in TestMain and in examples. The deployment is the caller's to close. Where a
// node does not do as it is told, its method panics, since it has no test to fail.
func Start(nodes int, options ...Option) (*Deployment, error) {
	if nodes < 1 || nodes > multiplex.MaxNodes {
		return nil, fmt.Errorf("redlocktest: 1 to %d nodes can be had, not %d", multiplex.MaxNodes, nodes)
	}
	d := &Deployment{settings: newSettings(options)}
	begin := d.beginInMemory
	if d.settings.real {
		begin = d.beginReal
	}
	if err := begin(nodes); err != nil {
		return nil, errors.Join(fmt.Errorf("redlocktest: %w", err), d.Close())
	}
	d.complain(func(err error) { panic(err) })
	return d, nil
}

// An Option says what kind of deployment New starts.
type Option func(*settings)

type settings struct {
	real, skip bool
	password   string
}

func newSettings(options []Option) (s settings) {
	for _, set := range options {
		set(&s)
	}
	return s
}

// Real starts server processes: those that the environment variable REDMUX_SERVER names, or else redis-server or
// valkey-server on PATH; where there is none, New fails the test. They keep nothing on disk but a socket and a log in a
// folder of their own under the system's temporary one, which goes with them. On Linux they also die with this process, if
// that is killed. They know nothing of simulated time: not for testing/synctest.
func Real() Option { return func(s *settings) { s.real = true } }

// RealOrSkip is Real, but where there is no server program New skips the test and says so.
func RealOrSkip() Option { return func(s *settings) { s.real, s.skip = true, true } }

// Password has the nodes require it of clients. It is in Config, and in no URL.
func Password(password string) Option { return func(s *settings) { s.password = password } }

// Config is what leads a client here: Nodes, Password, and, where the nodes are in memory, NetDial. Everything else is zero,
// for the caller to complete. Several clients may be made from it.
func (d *Deployment) Config() redlock.Config {
	return redlock.Config{Nodes: redlock.Nodes(d.URLs()...), Password: d.settings.password, NetDial: d.dial}
}

// URLs are where the nodes are, in their order. Those of nodes in memory lead nowhere without Config's NetDial.
func (d *Deployment) URLs() []string {
	urls := make([]string, len(d.nodes))
	for i, n := range d.nodes {
		urls[i] = n.url
	}
	return urls
}

// closePatience bounds the wait for answers to the last releases, which a client bounds by its vote timeout anyway.
const closePatience = 5 * time.Second

// Client makes a client of the whole deployment, which is closed when the test ends; it may be closed before. Each change is
// applied to Config before that: in a test that must pass on a busy machine, and not on simulated time, a NodeTimeout of
// seconds, say, since a vote is waited for no longer than 50 ms otherwise, which such a machine may be away for. As redlock.New
// does, it waits until each node is up or has failed once, at most a second; a configuration that cannot work fails the test.
func (d *Deployment) Client(tb testing.TB, changes ...func(*redlock.Config)) *redlock.Client {
	tb.Helper()
	config := d.Config()
	for _, change := range changes {
		change(&config)
	}
	client, err := redlock.New(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		_ = client.Close(ctx) // what it complains of is answers that a test's faults kept away
	})
	return client
}

// Nodes are all nodes, in the order of Config's. The slice is the caller's.
func (d *Deployment) Nodes() []*Node { return append([]*Node(nil), d.nodes...) }

// Node is the node at that place, from 0.
func (d *Deployment) Node(i int) *Node { return d.nodes[i] }

// Close ends all nodes, whatever state they are in, and waits until nothing is left of them. Close clients before. New sees to
// it by itself; calling it twice is harmless.
func (d *Deployment) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for len(d.ends) > 0 {
		last := len(d.ends) - 1
		errs = append(errs, d.ends[last]())
		d.ends = d.ends[:last]
	}
	return errors.Join(errs...)
}

// complain says what becomes of errors that a node's methods cannot return.
func (d *Deployment) complain(to func(error)) {
	for _, n := range d.nodes {
		n.complain = to
	}
}
