package multiplex

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex/internal/member"
	"github.com/valyala/bytebufferpool"
)

// A Group asks N nodes at once. Its methods are safe for concurrent use.
//
// The caller of a function whose name ends in Locked must hold the group's
// mutex. Types with a mutex of their own mean that (tracker, query), and
// Lookout and tracking the tracker's.
type Group struct {
	config *Config // by a pointer, behind which fmt does not look (R27)
	size   int
	quorum int
	nodes  []*node
	polled
	epoch time.Time // the zero of the group's clock, which is monotonic

	_ [64]byte // what is only read must not leave the caches with what follows

	// mu guards the following, the nodes' guarded fields, and the log.
	mu        sync.Mutex
	log       broadcast
	gathering gathering // what the next flush merges
	live      Set       // nodes that get new rounds
	forms     agreed
	members   *member.Members // who counts; mu is its guard
	longest   time.Duration   // longest TTL asked for so far, for ledgers
	changed   chan struct{}   // closed and replaced when a node's state changes

	pools

	// Each of the following states its own guard.
	flusher flusher
	watcher watcher
	tracker *tracker // a pointer, since it has keys (R27)
	life    lifecycle
}

// polled is how the connections are read.
type polled struct {
	poller   *poller // if nil, each node's goroutine reads its connection
	unpolled error   // why the system gave no poller
}

// agreed says which native forms may be used: all live nodes must know them.
// The group's mutex guards it.
type agreed struct {
	// accepted lists the optional steps of the handshake that all live nodes
	// accepted; see agree.
	accepted []string
	banned   []string // names of forms that are not used any more; see banForm
}

// pools hold what is used for a moment. They have guards of their own.
type pools struct {
	wakes sync.Pool            // channels that hold one wake-up; see round.park
	undos *bytebufferpool.Pool // of Group.undo; a pointer, see conn's output
}

// New starts connecting to the nodes and returns at once. It fails only for a
// configuration that cannot work.
func New(config Config) (*Group, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	g := &Group{
		config:  &config,
		size:    len(config.Nodes),
		quorum:  Quorum(len(config.Nodes)),
		epoch:   time.Now(),
		changed: make(chan struct{}),
		flusher: newFlusher(len(config.Nodes)),
		life:    newLifecycle(),
		tracker: new(tracker),
		pools:   pools{undos: new(bytebufferpool.Pool)},
	}
	g.members = newMembers(g)
	g.log.init()
	for i, c := range config.Nodes {
		g.nodes = append(g.nodes, newNode(g, i, c))
	}
	g.poller = newPoller(g)
	g.watcher.start(config.ProbeAfter, g.poller != nil)
	if g.poller != nil {
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

// countingLocked returns the nodes whose grants make a lock of any kind.
func (g *Group) countingLocked() Set { return g.live &^ g.members.Doubted &^ g.members.Floorless }

// notifyLocked wakes the goroutines that wait for a change of a node's state.
func (g *Group) notifyLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// trimLocked frees the rounds that every attached node has passed.
func (g *Group) trimLocked() {
	to := g.log.head
	for _, n := range g.nodes {
		if n.inLog.attached {
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
		if n.inLog.attached {
			fastest = max(fastest, n.answered.Load())
		}
	}
	return fastest
}

// promptLocked has another goroutine write what was queued in a lane, soon: the
// caller is reading a socket or running the watch.
func (g *Group) promptLocked() {
	g.flusher.lanes = true
	g.wakeWatchAtLocked(g.now() + tickMost) // to watch for the answers
	if g.takeFlushLocked() {
		g.flusher.handover <- struct{}{}
	}
}

// A lifecycle is the phase of a group's life, and what Close waits for.
type lifecycle struct {
	phase phase // guarded by the group's mutex; it only advances

	// claims counts the calls of Claim with something to undo, perhaps, and
	// those added by DelayClose. Close waits for them (R28).
	claims atomic.Int64

	stop    context.CancelFunc
	stopped context.Context // ended by stop: connections end, goroutines return
	wg      sync.WaitGroup  // the group's goroutines
	gone    chan struct{}   // closed when the first Close is done
}

// A phase is a stage of a group's life. Each includes the ones before it.
type phase uint8

const (
	phaseOpen     phase = iota
	phaseRefusing       // only releases are accepted
	phaseClosing        // Close was called
	phaseClosed         // nothing is sent any more
)

func newLifecycle() lifecycle {
	stopped, stop := context.WithCancel(context.Background())
	return lifecycle{stopped: stopped, stop: stop, gone: make(chan struct{})}
}

func (l *lifecycle) advance(to phase) { l.phase = max(l.phase, to) }

// refuses reports whether a command is no longer accepted.
func (l *lifecycle) refuses(v *verb) bool {
	if v.releases {
		return l.closed()
	}
	return l.phase >= phaseRefusing
}

func (l *lifecycle) closing() bool { return l.phase >= phaseClosing }

func (l *lifecycle) closed() bool { return l.phase == phaseClosed }

// A flusher is the role of writing batches to the sockets, which at most one
// goroutine has. It belongs to the caller that queued a command in its absence,
// and passes to flushForOthers after a few batches.
type flusher struct {
	// The following are guarded by the group's mutex.
	taken bool // a goroutine has the role
	held  bool // take fails until flushHeld; see holdFlush
	lanes bool // some node's lane waits to be written
	// behind are the nodes that did not take what was written to them last.
	behind Set

	// The following are owned by the goroutine that has the role.
	busy     bool // several callers are inside: a yield will gather more rounds
	outgoing []outgoing

	handover chan struct{} // passes the role to flushForOthers
	// yieldAfter is the end of the time without yields, from when the
	// flusher was made.
	yieldAfter atomic.Int64
	made       time.Time

	// entered counts all callers that began to wait for an outcome, left
	// those that have run since its decision, and answered the decided
	// rounds. entered grows under the group's mutex.
	entered, left atomic.Int64
	_             [64]byte // callers change what is above, readers what is below
	answered      atomic.Int64
}

func newFlusher(nodes int) flusher {
	return flusher{made: time.Now(), outgoing: make([]outgoing, nodes), handover: make(chan struct{}, 1)}
}

// crowded reports whether a yield may gather rounds of other callers: those
// that wait for an outcome, or have not run since it was decided.
func (f *flusher) crowded() bool { return f.entered.Load()-f.left.Load() > crowdedAt }

// returning reports whether some callers have an answer, and have not run
// since. It does not count one, which may be the flusher itself.
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
	conn   *conn.Conn
	lane   []byte // written before the batch
	skip   int    // bytes of the batch that were queued before the node joined
	behind []byte // written behind the batch
	// commands counts all of them.
	commands int
	node     int
	idle     bool // it has answered everything
}

// A watcher is the one timer for the deadlines of all rounds and nodes. The
// caller of its methods must hold the group's mutex.
type watcher struct {
	// at is when the watch runs next, on the group's clock. It is also read
	// without the mutex.
	at    atomic.Int64
	timer *time.Timer // wakes the watch; Reset needs the mutex
	// ends is the first end of a context, of those seen by the watch since
	// its last pass. It changes under the group's mutex.
	ends atomic.Int64
	// excused is the end of the time in which silence is blamed on
	// starvation of this process.
	excused time.Duration
	// slack is how much later than due the timer fires. With callers that
	// poll, the reading goroutine also runs a pass that is due. The timer
	// matters only while no goroutine reads. A timer that fires wakes a
	// goroutine, and with it another thread, beside a lone caller. That
	// made the caller's p99 with one master a third to a half higher.
	slack time.Duration
}

func (w *watcher) start(after time.Duration, polls bool) {
	if polls {
		w.slack = time.Millisecond
	}
	w.at.Store(int64(after))
	w.ends.Store(int64(pure.Never))
	w.timer = time.NewTimer(max(pure.Soon, after))
}

// set makes the watch run at the given time, or up to slack later, but not
// after the end of a context.
func (w *watcher) set(at, now time.Duration) {
	w.at.Store(int64(at))
	w.timer.Reset(max(pure.Soon, at-now) + min(w.slack, max(0, time.Duration(w.ends.Load())-at)))
}

// heed makes the watch notice the deadline of a context in time, and returns
// it, or pure.Never. A context that ends otherwise is noticed at the next pass.
func (w *watcher) heed(ctx context.Context, epoch time.Time) time.Duration {
	if ctx == nil {
		return pure.Never
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return pure.Never
	}
	at := deadline.Sub(epoch)
	w.ends.Store(min(w.ends.Load(), int64(at)))
	return at
}

// A gathering holds the releases and extensions that wait for the next flush,
// to be merged. The group's mutex guards it.
type gathering struct {
	rounds []*round
	posted int // bytes of the posted commands among them
}

// empty makes room for the commands that the flush after this one merges.
func (g *gathering) empty() {
	clear(g.rounds)
	g.rounds, g.posted = g.rounds[:0], 0
}

// Doors. A nil context, and a value that no function of this package has made,
// are mistakes of a program. They panic at the door, with a sentence that says
// what is wrong, and not deep inside.

// must panics with a text unless ok.
func must(ok bool, text string) {
	if !ok {
		panic("multiplex: " + text)
	}
}

// made is the door of methods that have no context.
func (g *Group) made() { must(g != nil && g.config != nil, "a nil or zero Group: New makes one") }

// called is the door of methods that have one.
func (g *Group) called(ctx context.Context) {
	g.made()
	must(ctx != nil, "the context is nil")
}

func (l *Lookout) made() {
	must(l != nil && l.group != nil, "a nil or zero Lookout: Group.Lookout makes one")
}

func (o *Outcomes) made() {
	must(o != nil && o.ready != nil, "a nil or zero Outcomes: NewOutcomes makes one")
}

// noError is said of a method of a nil error.
const noError = "a nil error, which no function of this package returns"
