package redlocktest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// A Node is one server of a Deployment. Its methods are safe for concurrent use
// and may be called in any state: stopping a stopped node does nothing. They
// return when the change is made; clients notice it a little later. If a real
// server fails to obey, the test fails (see Start for use without a test).
type Node struct {
	url      string
	link     *redistest.Link
	complain func(error)

	mu      sync.Mutex // guards the following
	server  server
	stopped bool
	paused  bool
	refused bool
}

// Format prints the URL, which has no password, for every verb: a server may
// keep one (R27).
func (n *Node) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(node "+n.url+")") }

// A server is what a Node controls. The Node calls each method only in a state
// where it makes sense.
type server interface {
	// stop ends the process, its keys and its connections. New connections are
	// refused.
	stop() error
	// start starts an empty server. Refuse stays in force.
	start() error
	// refuse makes the network refuse or accept new connections. Open ones
	// stay.
	refuse(on bool)
	pause() error   // freezes the process
	proceed() error // ends a pause
	keys() ([]string, error)
}

// URL returns the address at which clients find the node.
func (n *Node) URL() string { return n.url }

// Stop kills the node, as kill -9 does: its connections end, commands not yet
// executed and all its keys are lost, and new connections are refused until
// Start. It ends a Pause.
func (n *Node) Stop() { n.do("stop", n.stop) }

// Start ends a Stop: the node comes up empty, with a new run id, like a server
// without persistence. It is then quarantined for MaxTTL, unless a client is
// Forgetful. A new node is already started.
func (n *Node) Start() { n.do("start", n.start) }

// RestartEmpty is Stop and Start: the node is back at once and has lost every
// lock.
func (n *Node) RestartEmpty() {
	n.do("restart", func() error {
		if err := n.stop(); err != nil {
			return err
		}
		return n.start()
	})
}

// Pause freezes the node, as SIGSTOP does: connections stay open, new ones are
// accepted, and commands are received but not answered. After Continue the node
// executes what it received, also from connections that have ended since.
// Pausing a stopped node does nothing.
func (n *Node) Pause() {
	n.do("pause", func() error {
		if n.stopped || n.paused {
			return nil
		}
		n.paused = true
		return n.server.pause()
	})
}

// Continue ends a Pause.
func (n *Node) Continue() {
	n.do("continue", func() error {
		if !n.paused {
			return nil
		}
		n.paused = false
		return n.server.proceed()
	})
}

// Delay adds roundTrip to each round trip to the node, half of it on the way
// there and half on the way back. The first answer on a new connection is
// delayed as much. Data already in flight is not affected. Zero or less ends
// the delay.
func (n *Node) Delay(roundTrip time.Duration) {
	roundTrip = max(roundTrip, 0)
	n.link.Latency(roundTrip/2, roundTrip-roundTrip/2)
}

// Refuse takes the node off the network: its connections are reset and new ones
// are refused. The node keeps running and keeps its keys. Refuse(false) ends
// this.
func (n *Node) Refuse(on bool) {
	n.do("refuse", func() error {
		n.refused = on
		if on || !n.stopped {
			n.server.refuse(on)
		}
		if on {
			n.link.Reset()
		}
		return nil
	})
}

// Keys returns the names of the keys of the node's current locks, with
// Config.Prefix, sorted. It leaves out the key of the seal, in which clients
// keep what they know of the deployment, and those of fencing numbers. A
// stopped node has none. Keys ignores Refuse and Delay. It cannot ask a real
// node that is paused: then it fails the test.
func (n *Node) Keys() (keys []string) {
	n.do("list the keys of", func() (err error) {
		if !n.stopped {
			keys, err = n.server.keys()
		}
		return err
	})
	return slices.DeleteFunc(keys, func(key string) bool {
		return slices.ContainsFunc(noLocks, func(suffix string) bool { return strings.HasSuffix(key, suffix) })
	})
}

// noLocks are how the names of keys end that Keys leaves out.
var noLocks = []string{"redlock:seal", ":fence", ":redlock:ticket"}

func (n *Node) stop() error {
	if n.stopped {
		return nil
	}
	n.stopped, n.paused = true, false
	err := n.server.stop()
	n.link.Reset()
	return err
}

func (n *Node) start() error {
	if !n.stopped {
		return nil
	}
	if err := n.server.start(); err != nil {
		return err
	}
	n.stopped = false
	n.server.refuse(n.refused)
	return nil
}

// do runs a method's work and reports its error.
func (n *Node) do(what string, work func() error) {
	n.mu.Lock()
	err := work()
	n.mu.Unlock()
	if err != nil {
		n.complain(fmt.Errorf("redlocktest: cannot %s the node at %s: %w", what, n.url, err))
	}
}
