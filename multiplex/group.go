package multiplex

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A Group asks N nodes at once. All its methods may be called from any goroutine.
type Group struct {
	config   Config
	size     int
	quorum   int
	nodes    []*node
	poller   *poller   // nil: each node's goroutine reads for itself
	unpolled error     // why there is no poller, where there should be one
	epoch    time.Time // the zero of the group's clock, which is monotonic

	mu       sync.Mutex // guards the following, the nodes' guarded fields, and the log
	log      broadcast
	live     Set      // nodes that get new rounds
	accepted uint64   // optional steps of the handshake that all live nodes accepted; see agree
	gathered []*round // awaited releases and extensions that the next flush merges
	unpacked int      // bytes of those among them that were posted
	flushing bool
	holding  bool          // nobody flushes: whoever hands out answers will
	lanes    bool          // some node's lane waits to be written
	refusing bool          // no new work but releases
	closing  bool          // Close was called
	closed   bool          // nothing is sent any more
	tickAt   atomic.Int64  // when the watch looks next, on the group's clock; also read without the mutex
	timer    *time.Timer   // wakes the watch; its Reset needs the mutex
	longest  time.Duration // TTL asked for so far, for ledgers
	changed  chan struct{} // closed and replaced when a node's state changes

	// quarantined are the nodes whose grants must not make a lock (R23), whether or not they are live. Guarded by mu, as
	// the two that follow.
	quarantined Set
	maxTTL      time.Duration // Config.MaxTTL, or what a seal said that is longer
	debut       pure.Debut
	tracker     tracker // tells waiters of keys that changed

	// claims are the calls of Ask, and those that Detain counts, that may have to undo something; Close waits for them (R28).
	claims atomic.Int64

	// sulking is until when nobody yields, on the group's clock.
	sulking atomic.Int64

	// The following are owned by whoever has the flusher's role.
	outgoing []outgoing
	busy     bool // several rounds are unanswered: more will come if one yields

	handover chan struct{}
	stop     context.CancelFunc
	stopped  context.Context
	wg       sync.WaitGroup
	gone     chan struct{} // closed when Close is through
	excused  time.Duration // guarded by mu: until then the watch believes that we were starved, not the nodes
}

// New starts connecting to the nodes and returns at once. It fails only for a configuration that cannot work.
func New(config Config) (*Group, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	g := &Group{
		config:   config,
		size:     len(config.Nodes),
		quorum:   Quorum(len(config.Nodes)),
		epoch:    time.Now(),
		changed:  make(chan struct{}),
		handover: make(chan struct{}, 1),
		gone:     make(chan struct{}),
		outgoing: make([]outgoing, len(config.Nodes)),
		stopped:  ctx,
		stop:     stop,
		maxTTL:   config.MaxTTL,
		debut:    pure.Debut{Open: config.isNew()},
	}
	g.log.init()
	for i, c := range config.Nodes {
		g.nodes = append(g.nodes, newNode(g, i, c))
	}
	g.tickAt.Store(int64(config.ProbeAfter))
	g.timer = time.NewTimer(max(pure.Soon, config.ProbeAfter))
	if g.poller = newPoller(g); g.poller != nil {
		g.wg.Go(g.poller.serveOthers)
	}
	g.wg.Go(g.watch)
	g.wg.Go(g.flushForOthers)
	for _, n := range g.nodes {
		g.wg.Go(n.run)
	}
	return g, nil
}

// now is the time on the group's clock.
func (g *Group) now() time.Duration { return time.Since(g.epoch) }

// counting are the nodes whose grants make a lock. The caller holds the mutex.
func (g *Group) counting() Set { return g.live &^ g.quarantined }

// announce tells those who wait for a change of the nodes' states. The caller holds the mutex.
func (g *Group) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}
