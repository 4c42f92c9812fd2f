package redlock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// NodeChange is news of one node: it came up, or is not up any more, or not for the same cause as before. A node that is
// dialed again and again in vain is told of once for each change of cause.
type NodeChange struct {
	Node  int       // index in Config.Nodes
	Addr  string    // without credentials
	State NodeState // NodeUp, NodeDown, NodeRefused, NodeShed or NodeQuarantined
	// Cause is the class of what keeps it from being up: "unreachable", "peer", "silent", "WRONGPASS", "not a master" …; see
	// multiplex.Change. "" when it came up.
	Cause string
	Err   error // the cause itself; nil when it came up
	At    time.Time
	// Warnings are what ought to be changed about a node that came up. Nil if there are none, or the same as before.
	Warnings []string
	// Dropped are news before this one that were not told, since those who listen were too slow.
	Dropped uint64
}

const (
	// newsMost bounds the news that wait for a slow listener.
	newsMost = 256
	// newsPatience bounds how long Close waits for a listener, and newsHaste how long once nothing more is told.
	newsPatience = time.Second
	newsHaste    = 10 * time.Millisecond
)

// news brings what the engine has to say to those who listen, by one goroutine,
// which is there once there is something to tell. The engine, which may hold any
// mutex, puts its news down and never waits: where listeners are slow, the oldest
// are dropped.
type news struct {
	logger      *slog.Logger
	nodeChanged func(NodeChange)
	holdLost    func(HoldInfo)
	unsaid      uint64 // dropped, and in no record yet; owned by the goroutine

	wake chan struct{} // holds one token
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards the following
	waiting []item
	dropped uint64 // before the first that waits
	ready   bool   // the client is made: the goroutine may run
	running bool
	ending  bool
}

// An item is one piece of news: of one of the three kinds.
type item struct {
	change  *NodeChange
	hold    *HoldInfo
	notice  *notice
	at      time.Time
	dropped uint64 // right before it
}

// A notice is what only the log is told.
type notice struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
	always  bool // slog's default is told where there is no Logger
}

// newNews returns the news for a Logger, which may be nil, and a Tracer.
func newNews(logger *slog.Logger, tracer *Tracer) *news {
	return &news{
		logger: logger, nodeChanged: tracer.NodeChanged, holdLost: tracer.HoldLost,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// onChange returns what the group calls with its changes; nil if nothing listens
// for them.
func (n *news) onChange() func(multiplex.Change) {
	if n.logger == nil && n.nodeChanged == nil {
		return nil
	}
	return func(m multiplex.Change) {
		n.put(item{at: m.At, change: &NodeChange{
			Node: m.Node, Addr: m.Addr, State: NodeState(m.News.String()), Cause: m.Cause,
			Err: m.Err, At: m.At, Warnings: m.Warnings,
		}})
	}
}

// open lets the goroutine start, now that the client is made.
func (n *news) open() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = true
	n.startLocked()
}

// reportPolling reports why callers cannot read their own replies, unless the
// system does not support it.
func (c *Client) reportPolling() {
	if _, err := c.group.Polls(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		c.notice(slog.LevelWarn, "redlock: callers cannot read their replies by themselves", slog.String("error", err.Error()))
	}
}

// notice tells the log, if there is one. It never waits, whatever mutex the caller holds. No attribute may hold a resource
// name, a token, a key or a password (R27).
func (c *Client) notice(level slog.Level, message string, attrs ...slog.Attr) {
	if c.news.logger != nil {
		c.news.put(item{at: time.Now(), notice: &notice{level: level, message: message, attrs: attrs}})
	}
}

// holdLost tells the log and the tracer that a held lock was lost; the log is not told which. It never waits.
func (c *Client) holdLost(lost HoldInfo) {
	if c.news.logger != nil || c.news.holdLost != nil {
		c.news.put(item{at: time.Now(), hold: &lost})
	}
}

// put adds a piece of news and makes room for it, if need be, by dropping the oldest.
func (n *news) put(it item) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ending {
		return
	}
	if len(n.waiting) == newsMost {
		n.dropped += 1 + n.waiting[0].dropped
		n.waiting[0] = item{}
		n.waiting = n.waiting[1:]
	}
	n.waiting = append(n.waiting, it)
	n.startLocked()
	n.signal()
}

// startLocked starts the goroutine if there is something to tell.
func (n *news) startLocked() {
	if n.ready && !n.running && len(n.waiting) > 0 {
		n.running = true
		go n.run()
	}
}

func (n *news) signal() {
	select {
	case n.wake <- struct{}{}:
	default: // it looks anyway
	}
}

// run tells all news, and ends when there are none left after close.
func (n *news) run() {
	defer close(n.done)
	for {
		it, there, ending := n.take()
		switch {
		case there:
			n.tell(it)
		case ending:
			return
		default:
			<-n.wake
		}
	}
}

// take takes the oldest piece of news.
func (n *news) take() (it item, there, ending bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		n.waiting = nil // gives the room of a bad hour back
		return item{}, false, n.ending
	}
	it = n.waiting[0]
	it.dropped, n.dropped = n.dropped, 0
	n.waiting[0] = item{}
	n.waiting = n.waiting[1:]
	return it, true, n.ending
}

// close lets what waits be told, for a moment at most, and ends the goroutine. A listener that does not return keeps it, and
// nothing more is told.
func (n *news) close(ctx context.Context) {
	n.mu.Lock()
	n.ending = true
	running := n.running
	n.mu.Unlock()
	if !running {
		return
	}
	n.signal()
	patience := time.NewTimer(newsPatience)
	defer patience.Stop()
	select {
	case <-n.done:
		return
	case <-patience.C:
	case <-ctx.Done():
	}
	n.mu.Lock()
	n.waiting = nil
	n.mu.Unlock()
	haste := time.NewTimer(newsHaste) // one that does not block is through by then
	defer haste.Stop()
	select {
	case <-n.done:
	case <-haste.C:
	}
}

// tell tells one piece of news to those whom it concerns.
func (n *news) tell(it item) {
	n.unsaid += it.dropped
	switch {
	case it.change != nil:
		it.change.Dropped = it.dropped
		n.logChange(it.change)
		if n.nodeChanged != nil {
			n.nodeChanged(*it.change)
		}
	case it.hold != nil:
		lost := it.hold
		lost.Dropped = it.dropped
		held := slog.Duration("held", lost.Until.Sub(lost.Since))
		n.log(n.logger, it.at, slog.LevelWarn, "redlock: hold lost", held, errorAttr(lost.Err))
		if n.holdLost != nil {
			n.holdLost(*lost)
		}
	case it.notice != nil:
		logger := n.logger
		if logger == nil && it.notice.always {
			logger = slog.Default() // as it is by now
		}
		n.log(logger, it.at, it.notice.level, it.notice.message, it.notice.attrs...)
	}
}

// logChange writes one record for a change, and one for each warning.
func (n *news) logChange(c *NodeChange) {
	attrs := []slog.Attr{slog.Int("node", c.Node), slog.String("addr", c.Addr), slog.String("state", string(c.State))}
	if c.State == NodeUp {
		n.log(n.logger, c.At, slog.LevelInfo, "redlock: node is up", attrs...)
	} else {
		why := append(slices.Clone(attrs), slog.String("cause", c.Cause), errorAttr(c.Err))
		n.log(n.logger, c.At, slog.LevelWarn, "redlock: node is not up", why...)
	}
	for _, warning := range c.Warnings {
		what := append(slices.Clone(attrs), slog.String("warning", warning))
		n.log(n.logger, c.At, slog.LevelWarn, "redlock: node needs attention", what...)
	}
}

// log writes a record with the time of the event, if the logger wants it. It says how much was dropped before it.
func (n *news) log(logger *slog.Logger, at time.Time, level slog.Level, message string, attrs ...slog.Attr) {
	ctx := context.Background()
	if logger == nil || !logger.Enabled(ctx, level) {
		return
	}
	record := slog.NewRecord(at, level, message, 0)
	record.AddAttrs(attrs...)
	if n.unsaid > 0 {
		record.AddAttrs(slog.Uint64("dropped", n.unsaid))
		n.unsaid = 0
	}
	_ = logger.Handler().Handle(ctx, record) // whom could that be told
}

// errorAttr is an error as text. Errors of this library have nothing secret in
// them but a resource's name, which the log does not get; of a server's own
// words, which may name a key, it gets the class only (R27).
func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", withoutWords(err, err.Error()))
}

// withoutWords puts the class in place of what servers said, in the text of an error with all that it wraps.
func withoutWords(err error, text string) string {
	switch e := err.(type) {
	case *resp.Error:
		if e.Message != "" {
			text = strings.ReplaceAll(text, e.Message, "("+conn.ErrorClass(e).String()+")")
		}
	case *ResourceError:
		text = strings.ReplaceAll(text, quoted(e.Resource)+": ", "")
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			text = withoutWords(inner, text)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			text = withoutWords(inner, text)
		}
	}
	return text
}
