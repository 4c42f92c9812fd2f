package multiplex

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/valyala/bytebufferpool"
)

// A Group asks N nodes at once. Its methods are safe for concurrent use.
//
// A function whose name ends in Locked requires the caller to hold the group's
// mutex, or where its receiver has a mutex of its own (tracker, query,
// Lookout), that one.
type Group struct {
	config   Config
	size     int
	quorum   int
	nodes    []*node
	poller   *poller   // nil: each node's goroutine reads its own connection
	unpolled error     // why the system gave no poller
	epoch    time.Time // the zero of the group's clock, which is monotonic

	_ [64]byte // else what is only read would leave the caches with what follows

	// mu guards the following, the nodes' guarded fields, and the log.
	mu        sync.Mutex
	log       broadcast
	gathering gathering // what the next flush merges
	live      Set       // nodes that get new rounds
	// accepted has the optional steps of the handshake that all live nodes
	// accepted; see agreeLocked.
	accepted   []string
	quarantine quarantine
	longest    time.Duration // longest TTL asked for so far, for ledgers
	changed    chan struct{} // closed and replaced when a node's state changes

	wakes sync.Pool            // channels that hold one wake-up; see round.park
	undos *bytebufferpool.Pool // of Group.undo; a pointer, see conn's output

	// Each of the following states its own guard.
	flusher flusher
	watcher watcher
	tracker tracker
	life    lifecycle
}

// New starts connecting to the nodes and returns at once. It fails only for a
// configuration that cannot work.
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
		quarantine: newQuarantine(&config),
		flusher:    newFlusher(len(config.Nodes)),
		life:       newLifecycle(),
		undos:      new(bytebufferpool.Pool),
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

// now returns the time on the group's clock.
func (g *Group) now() time.Duration { return time.Since(g.epoch) }

// countingLocked returns the nodes whose grants make a lock.
func (g *Group) countingLocked() Set { return g.live &^ g.quarantine.nodes }

// notifyLocked wakes those that wait for a change of a node's state.
func (g *Group) notifyLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// trimLocked frees the rounds that every attached node has passed.
func (g *Group) trimLocked() {
	to := g.log.head
	for _, n := range g.nodes {
		if n.attached {
			to = min(to, n.answered.Load())
		}
	}
	g.log.trim(to)
}

// fastestLocked returns the position up to which the fastest connected node has
// answered.
func (g *Group) fastestLocked() uint64 {
	var fastest uint64
	for _, n := range g.nodes {
		if n.attached {
			fastest = max(fastest, n.answered.Load())
		}
	}
	return fastest
}

// promptLocked makes sure that what was queued in a lane is written soon, by
// another goroutine: the caller reads a socket or runs the watch.
func (g *Group) promptLocked() {
	g.flusher.lanes = true
	g.wakeWatchAtLocked(g.now() + tickMost) // to watch for the answers
	if g.takeFlushLocked() {
		g.flusher.handover <- struct{}{}
	}
}

// A lifecycle is how far a group is on its way to the end, and what its end
// waits for.
type lifecycle struct {
	phase phase // guarded by the group's mutex; it only advances

	// claims counts the calls of Claim, and those that Detain adds, that may
	// have to undo something; Close waits for them (R28).
	claims atomic.Int64

	stop    context.CancelFunc
	stopped context.Context // ended by stop: connections end, goroutines return
	wg      sync.WaitGroup  // the group's goroutines
	gone    chan struct{}   // closed when Close is through
}

// A phase is a stage of a group's life. Each includes the ones before it.
type phase uint8

const (
	phaseOpen     phase = iota
	phaseRefusing       // nothing but releases is let in
	phaseClosing        // Close was called
	phaseClosed         // nothing is sent any more
)

func newLifecycle() lifecycle {
	stopped, stop := context.WithCancel(context.Background())
	return lifecycle{stopped: stopped, stop: stop, gone: make(chan struct{})}
}

func (l *lifecycle) advance(to phase) { l.phase = max(l.phase, to) }

func (l *lifecycle) refusing() bool { return l.phase >= phaseRefusing }

func (l *lifecycle) closing() bool { return l.phase >= phaseClosing }

func (l *lifecycle) closed() bool { return l.phase == phaseClosed }

// A flusher is the role of writing batches to the sockets, which at most one
// goroutine has. It belongs to the caller that queues a command while the role
// is free, and passes to flushForOthers when that caller has written enough.
type flusher struct {
	// The following are guarded by the group's mutex.
	taken bool // a goroutine has the role
	held  bool // the role is not given out until flushHeld; see holdFlush
	lanes bool // some node's lane waits to be written

	// The following are owned by the goroutine that has the role.
	busy     bool // several callers are inside: a yield will gather more rounds
	outgoing []outgoing

	handover   chan struct{} // passes the role to flushForOthers
	yieldAfter atomic.Int64  // no goroutine yields before, on the group's clock

	// The callers that wait for an outcome, or have it and have not run since:
	// how many ever entered (which grows under the group's mutex), how many
	// callers left, and how many of these rounds were decided.
	entered, left atomic.Int64
	_             [64]byte // callers change the two above, the goroutine that reads this one
	answered      atomic.Int64
}

func newFlusher(nodes int) flusher {
	return flusher{outgoing: make([]outgoing, nodes), handover: make(chan struct{}, 1)}
}

// inside returns the number of callers that wait for an outcome, or have not
// run since it was decided.
func (f *flusher) inside() int64 { return f.entered.Load() - f.left.Load() }

// crowded reports that a yield may gather rounds of other callers.
func (f *flusher) crowded() bool { return f.inside() > crowdedAt }

// returning reports whether callers that were answered have not run since, not
// counting one that may be the flusher itself.
func (f *flusher) returning() bool { return f.answered.Load() > f.left.Load()+1 }

// take takes the role and reports whether it was free.
func (f *flusher) take() bool {
	if f.taken || f.held {
		return false
	}
	f.taken = true
	return true
}

// outgoing is what one flush writes to one node.
type outgoing struct {
	conn *conn.Conn
	lane []byte // written before the batch
	skip int    // bytes of the batch that were queued before the node joined
	// commands counts those of the lane and of the batch.
	commands int
	node     int
	idle     bool // it has answered everything
}

// A watcher is the one timer for the deadlines of all rounds and nodes. Its
// methods require the group's mutex.
type watcher struct {
	// at is when the watch runs next, on the group's clock. It is also read
	// without the mutex.
	at    atomic.Int64
	timer *time.Timer // wakes the watch; Reset needs the mutex
	// excused is until when silence counts as starvation of this process.
	excused time.Duration
}

func (w *watcher) start(after time.Duration) {
	w.at.Store(int64(after))
	w.timer = time.NewTimer(max(pure.Soon, after))
}

// set makes the timer go off at the given time, or up to slack later.
func (w *watcher) set(at, now, slack time.Duration) {
	w.at.Store(int64(at))
	w.timer.Reset(max(pure.Soon, at-now) + slack)
}

// A gathering holds the releases and extensions that wait for the next flush,
// to be merged. The group's mutex guards it.
type gathering struct {
	rounds []*round
	posted int // bytes of the commands among them that were posted
}

// empty makes room for the commands that the flush after this one merges.
func (g *gathering) empty() {
	clear(g.rounds)
	g.rounds, g.posted = g.rounds[:0], 0
}

// A quarantine is what the group knows of nodes that may have forgotten locks,
// or belong to another deployment. The group's mutex guards it.
type quarantine struct {
	// nodes is the set of nodes whose grants must not make a lock (R23, R30),
	// whether or not they are live. strangers are those of them that do not
	// show the deployment.
	nodes, strangers Set
	rivals           bool // the nodes belong to several deployments
	// Config.MaxTTL, or a longer one that was found in a seal
	maxTTL     time.Duration
	deployment pure.Deployment
	due        time.Duration // when the watch looks after it next
}

func newQuarantine(config *Config) quarantine {
	var addrs []string
	for i := range config.Nodes {
		addrs = append(addrs, config.Nodes[i].Endpoint.String())
	}
	q := quarantine{maxTTL: config.MaxTTL, deployment: pure.NewDeployment(addrs)}
	q.deployment.Founds, q.deployment.Replaces = config.Found, config.Replace
	if !config.Allow.OtherMaxTTL {
		q.deployment.MaxTTL = config.MaxTTL
	}
	if config.sealed() {
		q.strangers = All(len(addrs))
		q.nodes = q.strangers
	}
	return q
}
