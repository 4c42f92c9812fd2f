package multiplex

import (
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A Group asks N nodes at once. Its methods are safe for concurrent use.
//
// A function whose name ends in Locked requires the caller to hold the group's
// mutex, or where its receiver has a mutex of its own (tracker, query, Lookout),
// that one.
type Group struct {
	config   Config
	size     int
	quorum   int
	nodes    []*node
	poller   *poller   // nil: each node's goroutine reads its own connection
	unpolled error     // why there is no poller although the configuration allows one
	epoch    time.Time // the zero of the group's clock, which is monotonic

	mu         sync.Mutex // guards the following, the nodes' guarded fields, and the log
	log        broadcast
	gathering  gathering // what the next flush merges
	live       Set       // nodes that get new rounds
	accepted   []string  // optional steps of the handshake that all live nodes accepted; see agreeLocked
	quarantine quarantine
	longest    time.Duration // longest TTL asked for so far, for ledgers
	changed    chan struct{} // closed and replaced when a node's state changes

	// Each of the following states its own guard.
	flusher flusher
	watcher watcher
	tracker tracker
	life    lifecycle
}

// New starts connecting to the nodes and returns at once. It fails only for a configuration that cannot work.
func New(config Config) (*Group, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	g := &Group{
		config:     config,
		size:       len(config.Nodes),
		quorum:     Quorum(len(config.Nodes)),
		epoch:      time.Now(),
		changed:    make(chan struct{}),
		quarantine: quarantine{maxTTL: config.MaxTTL, debut: pure.Debut{Open: config.isNew()}},
		flusher:    newFlusher(len(config.Nodes)),
		life:       newLifecycle(),
	}
	g.log.init()
	for i, c := range config.Nodes {
		g.nodes = append(g.nodes, newNode(g, i, c))
	}
	g.watcher.start(config.ProbeAfter)
	if g.poller = newPoller(g); g.poller != nil {
		g.life.wg.Go(g.poller.serveOthers)
	}
	g.life.wg.Go(g.watch)
	g.life.wg.Go(g.flushForOthers)
	for _, n := range g.nodes {
		g.life.wg.Go(n.run)
	}
	return g, nil
}

// now is the time on the group's clock.
func (g *Group) now() time.Duration { return time.Since(g.epoch) }

// counting are the nodes whose grants make a lock. The caller holds the mutex.
func (g *Group) countingLocked() Set { return g.live &^ g.quarantine.nodes }

// announce tells those who wait for a change of the nodes' states. The caller holds the mutex.
func (g *Group) notifyLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}
