package redlocktest

import (
	"fmt"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// A Node is one server of a Deployment. Its methods may be called from any goroutine, in any state: stopping what is
// stopped does nothing. They return when what they say is so; clients learn of it by themselves, a little later. What a
// real server refuses to do is an error of the test (see Start for where there is none).
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

// A server is what a Node commands. The Node calls each method only in a state where it makes sense.
type server interface {
	stop() error    // ends the process, with all that it knows, and its connections; new ones are refused
	start() error   // starts an empty one; connections stay refused
	refuse(on bool) // the network's part: open connections stay
	pause() error   // freezes the process
	proceed() error // ends that
	keys() ([]string, error)
}

// URL is where clients find the node.
func (n *Node) URL() string { return n.url }

// Stop kills the node, as kill -9 does: its connections end, what it had not executed is lost, so are all its keys, and new
// connections are refused until Start. It ends a Pause.
func (n *Node) Stop() { n.do("stop", n.stop) }

// Start ends a Stop: the node comes up empty, under another run id, as a server without persistence does. With
// Config.MaxTTL it is in quarantine then. Nodes are started at first.
func (n *Node) Start() { n.do("start", n.start) }

// RestartEmpty is Stop and Start: the node is back at once and has forgotten every lock.
func (n *Node) RestartEmpty() {
	n.do("restart", func() error {
		if err := n.stop(); err != nil {
			return err
		}
		return n.start()
	})
}

// Pause freezes the node, as SIGSTOP does: connections stay and new ones come about, commands are taken and not answered.
// Continue has it execute what came meanwhile, also from connections that have ended since. A stopped node is not frozen.
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

// Delay makes the node so much slower to reach: of each round trip half is spent on the way there and half on the way back,
// and a new connection takes as much before its first answer. What is under way keeps its time. Zero or less ends it.
func (n *Node) Delay(roundTrip time.Duration) {
	roundTrip = max(roundTrip, 0)
	n.link.Latency(roundTrip/2, roundTrip-roundTrip/2)
}

// Refuse takes the node off the network: its connections are reset, new ones are refused, and it runs on and keeps its keys,
// until it is called with false.
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

// Keys are the names of the keys that the node has now, sorted: those of locks, with Config.Prefix before them, and
// redlock:seal where Config.MaxTTL is set. A stopped node has none; it also gets past Refuse and Delay. A real node that is
// paused cannot be asked: that is an error of the test.
func (n *Node) Keys() (keys []string) {
	n.do("list the keys of", func() (err error) {
		if !n.stopped {
			keys, err = n.server.keys()
		}
		return err
	})
	return keys
}

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

// do runs one method's work, and sees to its error.
func (n *Node) do(what string, work func() error) {
	n.mu.Lock()
	err := work()
	n.mu.Unlock()
	if err != nil {
		n.complain(fmt.Errorf("redlocktest: cannot %s the node at %s: %w", what, n.url, err))
	}
}
