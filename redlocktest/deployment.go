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
	"github.com/redmux/redmux/redlock/admin"
)

// A Deployment is a set of independent nodes and the way to reach them. Its
// methods are safe for concurrent use.
type Deployment struct {
	// settings stand behind a pointer, which even the verb %w does not follow
	// (R27).
	settings *settings
	nodes    []*Node
	// dial is Config's NetDial. It is nil for real servers.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// mu guards the following. Close holds it until all nodes have ended.
	mu   sync.Mutex
	ends []func() error
}

// Format prints how many nodes there are, for every verb: the settings may have
// a password (R27).
func (d *Deployment) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "(deployment of %d nodes)", len(d.nodes))
}

// New starts a deployment of 1 to 16 nodes for a test and closes it when the
// test ends. It waits until all nodes answer: with real servers, for about ten
// seconds at most. A failure to start fails the test and gives the reason; see
// also RealOrSkip. Inside testing/synctest, call New in the bubble, and create
// the clients there.
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

// ErrNoServer is returned when there is no server program to start: neither
// redis-server nor valkey-server is on PATH, and the environment variable
// REDMUX_SERVER names none.
var ErrNoServer = redistest.ErrNoServer

// Start is New for use without a test, as in TestMain and in examples. The
// caller must close the deployment. A method of a node that fails panics, since
// there is no test to fail.
func Start(nodes int, options ...Option) (*Deployment, error) {
	if nodes < 1 || nodes > multiplex.MaxNodes {
		return nil, fmt.Errorf("redlocktest: a deployment has 1 to %d nodes, not %d", multiplex.MaxNodes, nodes)
	}
	d := &Deployment{settings: newSettings(options)}
	begin := d.beginInMemory
	if d.settings.real {
		begin = d.beginReal
	}
	err := begin(nodes)
	if err == nil {
		err = d.init()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redlocktest: %w", err), d.Close())
	}
	d.complain(func(err error) { panic(err) })
	return d, nil
}

// An Option changes the kind of deployment that New starts.
type Option func(*settings)

type settings struct {
	real, skip bool
	password   string
	maxTTL     time.Duration
}

func newSettings(options []Option) *settings {
	s := new(settings)
	for _, set := range options {
		set(s)
	}
	return s
}

// Real starts server processes: the program that the environment variable
// REDMUX_SERVER names, or else redis-server or valkey-server on PATH. If there
// is none, New fails the test. On disk, the servers keep only a socket and a
// log, in a folder of their own under the system's temporary one, which is
// removed with them. On Linux they also die with this process if it is killed.
// They run in real time, so they cannot be used inside testing/synctest.
func Real() Option { return func(s *settings) { s.real = true } }

// RealOrSkip is Real, except that New skips the test, and says so, if there is
// no server program.
func RealOrSkip() Option { return func(s *settings) { s.real, s.skip = true, true } }

// Password makes the nodes require the password. Config contains it; no URL
// does.
func Password(password string) Option { return func(s *settings) { s.password = password } }

// MaxTTL sets redlock.Config.MaxTTL for the deployment. Config contains it.
// Without this option, it is redlock.DefaultMaxTTL.
func MaxTTL(maxTTL time.Duration) Option { return func(s *settings) { s.maxTTL = maxTTL } }

// Config returns what a client needs to reach the nodes: Nodes, Password,
// MaxTTL if it was set, and, for nodes in memory, NetDial. All other fields are
// zero, for the caller to set. Several clients may be made from it. If a Prefix
// is set and the servers are real, admin.Init must be called with it, or
// clients wait for MaxTTL; Client does so.
func (d *Deployment) Config() redlock.Config {
	return redlock.Config{
		Nodes: redlock.Nodes(d.URLs()...), Password: d.settings.password, MaxTTL: d.settings.maxTTL, Connect: redlock.Connect{NetDial: d.dial},
	}
}

// initPatience bounds the wait for the nodes' answers.
const initPatience = 30 * time.Second

// init opens the deployment, so that no client needs to wait.
func (d *Deployment) init() error {
	ctx, cancel := context.WithTimeout(context.Background(), initPatience)
	defer cancel()
	_, err := admin.Init(ctx, d.Config())
	return err
}

// URLs returns the addresses of the nodes, in order. For nodes in memory they
// work only with Config's NetDial.
func (d *Deployment) URLs() []string {
	urls := make([]string, len(d.nodes))
	for i, n := range d.nodes {
		urls[i] = n.url
	}
	return urls
}

// closePatience bounds the wait for answers to the last releases. A client also
// bounds it by its vote timeout.
const closePatience = 5 * time.Second

// Client creates a client of the whole deployment and closes it when the test
// ends; the test may close it earlier. Each change is first applied to Config.
// A test that must pass on a busy machine in real time should set a NodeTimeout
// of several seconds: by default a vote times out after 50 ms at most, and a
// busy machine may pause for longer. Like redlock.New, Client waits until each
// node is up or has failed once, for a second at most. An invalid configuration
// fails the test.
func (d *Deployment) Client(tb testing.TB, changes ...func(*redlock.Config)) *redlock.Client {
	tb.Helper()
	config := d.Config()
	for _, change := range changes {
		change(&config)
	}
	if d.settings.real && config.Prefix != "" && !config.Forgetful {
		_, _ = admin.Init(tb.Context(), config) // the client reports failures
	}
	client, err := redlock.New(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		_ = client.Close(ctx) // a test's faults may withhold answers
	})
	return client
}

// Nodes returns all nodes, in the order of Config's. The caller owns the slice.
func (d *Deployment) Nodes() []*Node { return append([]*Node(nil), d.nodes...) }

// Node returns node i, counted from 0.
func (d *Deployment) Node(i int) *Node { return d.nodes[i] }

// Close ends all nodes, in any state, and waits until nothing is left of them.
// Close the clients first. New arranges this call; calling Close twice is
// harmless.
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

// complain sets the function that receives the errors of a node's methods,
// which do not return them.
func (d *Deployment) complain(to func(error)) {
	for _, n := range d.nodes {
		n.complain = to
	}
}
