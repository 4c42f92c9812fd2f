package redlock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// NodeChange is a change of one node: it came up, it is no longer up, the cause
// for that has changed, or there are new warnings about it. Repeated failures
// of the same cause are reported once.
type NodeChange struct {
	Node int    `json:"node"` // index in Config.Nodes
	Addr string `json:"addr"` // without credentials
	// State is "up", "down" or "shed"; "refused" for a node that answers but
	// may not take part (R22); or "quarantined" for an up one with grants that
	// do not count yet (R23).
	State string `json:"state"`
	// Cause is the class of what keeps the node from being up: "unreachable",
	// "peer", "silent", "WRONGPASS" …; see multiplex.Change.
	Cause string    `json:"cause,omitempty"`
	Err   error     `json:"-"`  // the cause itself; nil if the node came up
	At    time.Time `json:"at"` // when it changed
	// Warnings lists what should be changed about a node, up all the same. It
	// is nil without any, or with the same as before.
	Warnings []string `json:"warnings,omitempty"`
	// Dropped is how many earlier events were dropped because Logger or Tracer
	// was too slow.
	Dropped uint64 `json:"dropped,omitempty"`
}

// MarshalJSON returns the change with the names of docs/cli.md.
func (c NodeChange) MarshalJSON() ([]byte, error) {
	type plain NodeChange
	return json.Marshal(struct {
		Err string `json:"error,omitempty"`
		plain
	}{errtext.JSON(c.Err), plain(c)})
}

const (
	// maxNews bounds the events that wait for a slow Logger or Tracer.
	maxNews = 256
	// newsPatience bounds how long Close waits for a Logger or Tracer, and
	// newsHaste how long it waits again after dropping the waiting events.
	newsPatience = time.Second
	newsHaste    = 10 * time.Millisecond
)

// news delivers events to Logger and Tracer from one goroutine, started by an
// event. The engine may hold any mutex. It queues an event and never waits: if
// the queue is full, the oldest are dropped.
type news struct {
	logger      *slog.Logger
	nodeChanged func(NodeChange)
	notRenewed  func(HoldInfo)
	holdLost    func(HoldInfo)
	unsaid      uint64 // dropped but in no record yet; owned by the goroutine

	wake chan struct{} // holds one token
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards the following
	waiting []event
	dropped uint64 // events before the first that waits
	ready   bool   // the client is complete: the goroutine may run
	running bool
	ending  bool
}

// An event is what Logger and Tracer are to be told.
type event struct {
	tell    func(dropped uint64)
	dropped uint64 // events right before it
}

// newNews returns the news for a Logger, which may be nil, and a Tracer.
func newNews(logger *slog.Logger, tracer *Tracer) *news {
	return &news{
		logger: logger, nodeChanged: tracer.NodeChanged, notRenewed: tracer.RenewalFailed, holdLost: tracer.HoldLost,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// onChange returns the function for the group to call for each change, or nil
// if neither Logger nor Tracer wants them.
func (n *news) onChange() func(multiplex.Change) {
	if n.logger == nil && n.nodeChanged == nil {
		return nil
	}
	return func(m multiplex.Change) {
		change := NodeChange{
			Node: m.Node, Addr: m.Addr, State: m.News.String(), Cause: m.Cause,
			Err: m.Err, At: m.At, Warnings: m.Warnings,
		}
		n.put(func(dropped uint64) {
			change.Dropped = dropped
			n.logChange(&change, m.Same)
			if n.nodeChanged != nil {
				n.nodeChanged(change)
			}
		})
	}
}

// open lets the goroutine start. It is called once the client is complete.
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
		c.notice(slog.LevelWarn, "redlock: callers cannot read their replies by themselves", errorAttr(err))
	}
}

// reportForgetful logs that Config.Forgetful is set.
func (c *Client) reportForgetful() {
	if c.config.Forgetful {
		c.notice(slog.LevelWarn, "redlock: Forgetful is set: a node that restarts empty may grant a lock that is held")
	}
}

// reportAddresses logs a mix of node addresses, some with another meaning on
// another machine. To clients with the same configuration there, these nodes
// are strangers.
func (c *Client) reportAddresses(nodes []conn.Config) {
	var local []string
	for i := range nodes {
		if nodes[i].Endpoint.Local() {
			local = append(local, nodes[i].Endpoint.String())
		}
	}
	if len(local) > 0 && len(local) < len(nodes) {
		c.notice(slog.LevelWarn, "redlock: on another machine these addresses are those of other servers: name all nodes by the same "+
			"addresses everywhere", slog.String("nodes", strings.Join(local, ", ")))
	}
}

// notice logs an event if there is a Logger. It never waits, so the caller may
// hold any mutex. No attribute may hold a resource name, a token, a key or a
// password (R27).
func (c *Client) notice(level slog.Level, message string, attrs ...slog.Attr) {
	n, at := c.news, time.Now()
	if n.logger != nil {
		n.put(func(uint64) { n.log(n.logger, at, level, message, attrs...) })
	}
}

// warn is notice for a call that waits. Without a Logger, slog.Default gets the
// warning: an endless wait in silence is hard to repair.
func (c *Client) warn(message string, attrs ...slog.Attr) {
	n, at := c.news, time.Now()
	n.put(func(uint64) {
		// The default may have been set since New.
		n.log(cmp.Or(n.logger, slog.Default()), at, slog.LevelWarn, message, attrs...)
	})
}

// holdLost reports that a hold was lost.
func (c *Client) holdLost(lost HoldInfo) {
	c.holdNews("redlock: hold lost", timeAttr("held", lost.Until.Sub(lost.Since)), lost, c.news.holdLost)
}

// renewalFailed reports that a hold was not renewed, with so much time left.
func (c *Client) renewalFailed(left time.Duration, hold HoldInfo) {
	c.holdNews("redlock: hold not renewed, trying again", timeAttr("left", left), hold, c.news.notRenewed)
}

// holdNews reports a hold to Logger and Tracer. The log does not get the
// resource. It never waits.
func (c *Client) holdNews(message string, attr slog.Attr, hold HoldInfo, tell func(HoldInfo)) {
	n, at := c.news, time.Now()
	if n.logger == nil && tell == nil {
		return
	}
	n.put(func(dropped uint64) {
		hold.Dropped = dropped
		n.log(n.logger, at, slog.LevelWarn, message, attr, errorAttr(hold.Err))
		if tell != nil {
			tell(hold)
		}
	})
}

// put queues an event, and drops the oldest if the queue is full.
func (n *news) put(tell func(dropped uint64)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ending {
		return
	}
	if len(n.waiting) == maxNews {
		n.dropped += 1 + n.waiting[0].dropped
		n.waiting[0] = event{}
		n.waiting = n.waiting[1:]
	}
	n.waiting = append(n.waiting, event{tell: tell})
	n.startLocked()
	n.signal()
}

// startLocked starts the goroutine if there is something to deliver.
func (n *news) startLocked() {
	if n.ready && !n.running && len(n.waiting) > 0 {
		n.running = true
		go n.run()
	}
}

func (n *news) signal() {
	select {
	case n.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// run delivers all events, and ends when there are none left after close.
func (n *news) run() {
	defer close(n.done)
	for {
		e, there, ending := n.take()
		switch {
		case there:
			n.tell(e)
		case ending:
			return
		default:
			<-n.wake
		}
	}
}

// take removes the oldest event.
func (n *news) take() (e event, there, ending bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		n.waiting = nil // frees a large queue
		return event{}, false, n.ending
	}
	e = n.waiting[0]
	e.dropped, n.dropped = n.dropped, 0
	n.waiting[0] = event{}
	n.waiting = n.waiting[1:]
	return e, true, n.ending
}

// close lets the waiting events be delivered, for a limited time, and ends the
// goroutine. If a Logger or Tracer does not return, the goroutine stays, but
// delivers nothing more.
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
	haste := time.NewTimer(newsHaste) // enough, unless the Logger blocks
	defer haste.Stop()
	select {
	case <-n.done:
	case <-haste.C:
	}
}

// tell delivers one event.
func (n *news) tell(e event) {
	n.unsaid += e.dropped
	e.tell(e.dropped)
}

// logChange writes one record for a change, unless it is the same as before,
// and one for each warning.
func (n *news) logChange(c *NodeChange, same bool) {
	attrs := []slog.Attr{slog.Int("node", c.Node), slog.String("addr", c.Addr), slog.String("state", string(c.State))}
	switch {
	case same:
	case c.State == string(NodeUp):
		n.log(n.logger, c.At, slog.LevelInfo, "redlock: node is up", attrs...)
	default:
		why := append(slices.Clone(attrs), slog.String("cause", c.Cause), errorAttr(c.Err))
		n.log(n.logger, c.At, slog.LevelWarn, "redlock: node is not up", why...)
	}
	for _, warning := range c.Warnings {
		what := append(slices.Clone(attrs), slog.String("warning", warning))
		n.log(n.logger, c.At, slog.LevelWarn, "redlock: node needs attention", what...)
	}
}

// log writes a record with the time of the event, if the logger wants it. The
// record says how many events were dropped before it.
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
	_ = logger.Handler().Handle(ctx, record) // its error has nowhere to go
}

// timeAttr returns a time with its unit, which a Handler for JSON would leave
// out.
func timeAttr(key string, d time.Duration) slog.Attr {
	return slog.String(key, d.Round(time.Millisecond).String())
}

// errorAttr returns an error as text. Errors of this library hold no secret
// except a resource name, which the log does not get. A server's own words may
// contain a key, so of those the log gets what is plain (R27, R31).
func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", withPlainWords(err, errtext.Text(err)))
}

// withPlainWords returns the text of an error with plain words of servers, in
// all wrapped errors.
func withPlainWords(err error, text string) string {
	switch e := err.(type) {
	case *resp.Error:
		if e.Message != "" {
			text = strings.ReplaceAll(text, e.Message, plainWords(e.Message))
		}
	case *ResourceError:
		text = strings.ReplaceAll(text, quoted(e.Resource)+": ", "")
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			text = withPlainWords(inner, text)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			text = withPlainWords(inner, text)
		}
	}
	return text
}

// plainWords replaces each word of a server's error that may be a key, a token
// or an address: one with more than letters, but for the punctuation around it.
func plainWords(message string) string {
	words := strings.Split(message, " ")
	for i, word := range words {
		bare := strings.Trim(word, ".,:;!?()<>'`\"")
		if strings.IndexFunc(bare, func(c rune) bool { return !unicode.IsLetter(c) && c != '\'' }) >= 0 {
			words[i] = strings.Replace(word, bare, "***", 1)
		}
	}
	return strings.Join(words, " ")
}
