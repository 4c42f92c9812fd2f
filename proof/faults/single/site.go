// Package single makes one fault at a time at one of five real nodes, with
// nothing else wrong, and measures what it costs:
//
//	Recovery  the time from the end of a fault to a vote that counts (R23, R26)
//	Stalled   memory and throughput while a node is connected and silent (R26)
//
// A site is the servers and what is put before the last of them; the table of
// faults says how each is made and healed. Each measurement returns figures,
// and its Err says which of them break a rule. An error of the measurement
// itself is returned apart.
package single

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

const (
	nodes  = 5
	victim = nodes - 1 // the node that fails
	// settling bounds how long a site may take until all nodes count.
	settling = time.Minute
)

// A site is five servers, of which the last may be behind a proxy or a
// silencer.
type site struct {
	servers  []*redistest.Server
	proxy    *redistest.Proxy
	silencer *silencer
	urls     []string
}

// newSite starts the servers and what the fault needs. Close it.
func newSite(f fault) (s *site, err error) {
	s = &site{}
	if s.servers, err = redistest.StartN(nodes, redistest.Options{TCP: true, Unix: true}); err != nil {
		return nil, err
	}
	s.urls = redistest.URLs(s.servers)
	switch f.behind {
	case aProxy:
		if s.proxy, err = redistest.NewProxy(s.urls[victim]); err == nil {
			s.urls[victim] = s.proxy.URL()
		}
	case aSilencer:
		if s.silencer, err = newSilencer(s.servers[victim].TCPAddr()); err == nil {
			s.urls[victim] = "redis://" + s.silencer.addr()
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) close() {
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.silencer != nil {
		s.silencer.close()
	}
	for _, server := range s.servers {
		server.Close()
	}
}

// clients returns n clients with which every node counts. It opens their
// deployment unless that was done before.
func (s *site) clients(ctx context.Context, n int, config redlock.Config) (all []*redlock.Client, err error) {
	defer func() {
		if err != nil {
			closeAll(all)
		}
	}()
	config.Nodes = redlock.Nodes(s.urls...)
	if !config.Forgetful {
		if _, err := admin.Init(ctx, config); err != nil {
			return nil, err
		}
	}
	for range n {
		c, err := redlock.New(ctx, config)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	for _, c := range all {
		if err := awaitCounting(ctx, c); err != nil {
			return all, err
		}
	}
	return all, nil
}

func closeAll(clients []*redlock.Client) {
	for _, c := range clients {
		_ = c.Close(context.Background())
	}
}

// awaitCounting waits until each node of a client is up, owes nothing, and
// counts.
func awaitCounting(ctx context.Context, c *redlock.Client) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		missing := slices.ContainsFunc(c.Nodes(), func(n redlock.NodeStatus) bool {
			return n.State != "up" || n.Debts > 0 || n.Quarantined
		})
		if !missing {
			return nil
		}
		if err := pauseFor(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("not all nodes count: %w", err)
		}
	}
}

// pauseFor returns the context's error if that ends before d is over.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// A fault is one thing that is wrong with one node for a while.
type fault struct {
	name    string
	behind  obstacle
	on, off func(*site) error
}

// An obstacle stands between the clients and the node that fails.
type obstacle int

const (
	nothing obstacle = iota
	aProxy
	aSilencer
)

// Names of faults that measurements refer to.
const (
	// Stopped is SIGSTOP: connections stay, and the kernel takes bytes until
	// its buffers are full.
	Stopped = "stopped"
	// Killed is kill -9, and another start.
	Killed = "killed"
	// Refused is a proxy that resets connections and refuses new ones.
	Refused = "refused"
	// HeldUp is a network that carries nothing to the node, HeldDown one that
	// carries nothing back, so that the node does what it is told and its
	// answers are lost, and Held does both.
	HeldUp, HeldDown, Held = "held up", "held down", "held"
	// Dripping is a network that carries the node's answers at a thousand bytes
	// a second.
	Dripping = "dripping"
	// Silenced is a node that completes each handshake, takes every command,
	// and never answers a SET.
	Silenced = "silenced"
)

var faults = []fault{
	{name: Stopped, on: onServer((*redistest.Server).Stop), off: onServer((*redistest.Server).Continue)},
	{name: Killed, on: onServer((*redistest.Server).Kill), off: onServer((*redistest.Server).Restart)},
	onProxy(Dripping,
		func(p *redistest.Proxy) { p.Drip(redistest.Down, time.Millisecond) },
		func(p *redistest.Proxy) { p.Drip(redistest.Down, 0) }),
	held(HeldUp, redistest.Up), held(HeldDown, redistest.Down), held(Held, redistest.Both),
	onProxy(Refused,
		func(p *redistest.Proxy) { p.Refuse(true); p.Reset() },
		func(p *redistest.Proxy) { p.Refuse(false) }),
	{name: Silenced, behind: aSilencer, on: func(s *site) error { s.silencer.silence(); return nil }}, // for ever
}

// find returns the named fault.
func find(name string) (fault, error) {
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	if i < 0 {
		return fault{}, fmt.Errorf("there is no fault %q", name)
	}
	return faults[i], nil
}

func onServer(do func(*redistest.Server) error) func(*site) error {
	return func(s *site) error { return do(s.servers[victim]) }
}

func onProxy(name string, on, off func(*redistest.Proxy)) fault {
	with := func(do func(*redistest.Proxy)) func(*site) error {
		return func(s *site) error { do(s.proxy); return nil }
	}
	return fault{name: name, behind: aProxy, on: with(on), off: with(off)}
}

func held(name string, way redistest.Direction) fault {
	return onProxy(name, func(p *redistest.Proxy) { p.Pause(way) }, func(p *redistest.Proxy) { p.Resume(way) })
}

// heal ends the fault.
func (f fault) heal(s *site) error {
	if f.off == nil {
		return nil
	}
	return f.off(s)
}

// newTable returns a writer that aligns columns.
func newTable(w *strings.Builder) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}
