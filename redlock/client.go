package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// A Client acquires and releases the locks of one deployment. New and Open make
// one; methods of a nil or zero *Client panic, and so do those of any with a
// nil context. All methods may be called from any goroutine. A Client has one
// connection to each node and is meant to be kept.
type Client struct {
	config   *Config // by a pointer, as secrets are: see wire.Veiled
	group    *multiplex.Group
	tracer   Tracer // without functions, if there is none
	news     *news
	keeper   *keeper // renews the holds
	kinds    *kind.Kinds
	refusing atomic.Bool   // no new locks; changes once
	refused  chan struct{} // closed when refusing changes
	queues   queues        // of callers that wait
	rivals   rivals        // other clients that want the same locks
	stalls   stalls        // of calls that find no quorum

	// Each call changes some of the following. It must not take what is above
	// out of the caches of other processors.
	_          [64]byte
	quorumTime atomic.Int64 // smoothed time to a quorum, nanoseconds
	stats      stats
}

// Open is New with the nodes' URLs, and every other field of Config zero.
func Open(ctx context.Context, urls ...string) (*Client, error) {
	return New(ctx, Config{Nodes: Nodes(urls...)})
}

const (
	// firstWait bounds how long New waits for the first connections, and
	// lastWait how long for the rest once a quorum is up.
	firstWait = time.Second
	lastWait  = 100 * time.Millisecond
)

// New makes a client and starts connecting. It waits to learn of each node
// whether it is up and counts: at most a second, and a tenth of it once a
// quorum is up. An unreachable node is not an error: see Ready. The error is
// ErrConfig, or a CancelledError if ctx ends first. ctx bounds only this call.
func New(ctx context.Context, config Config) (*Client, error) {
	return newClient(ctx, config, founding{})
}

func newClient(ctx context.Context, config Config, founds founding) (*Client, error) {
	must(ctx != nil, noContext)
	if ctx.Err() != nil {
		return nil, cancelledError(ctx, nil)
	}
	config.complete()
	if err := config.check(); err != nil {
		return nil, configError(err)
	}
	c := &Client{config: &config, refused: make(chan struct{})}
	c.kinds = c.newKinds()
	if config.Tracer != nil {
		c.tracer = *config.Tracer
	}
	c.news = newNews(config.Logger, &c.tracer)
	group, err := c.groupConfig()
	if err != nil {
		return nil, configError(err)
	}
	group.Found, group.Replace = founds.founds, founds.replaces
	if !founds.founds {
		c.kinds.Numbers.Configure(&group, config.Prefix)
	}
	c.group, err = multiplex.New(group) // which checks MaxTTL as it was given
	if err != nil {
		return nil, configError(err)
	}
	c.config.MaxTTL = pure.WholeMilliseconds(config.MaxTTL)
	c.keeper = newKeeper(c)
	c.news.open()
	c.reportPolling()
	c.reportForgetful()
	c.reportAddresses(group.Nodes)
	c.waitForFirst(ctx)
	if ctx.Err() != nil {
		_ = c.Close(ctx) // the error is the context's
		return nil, cancelledError(ctx, nil)
	}
	return c, nil
}

// newKinds returns the kinds of lock for the client's configuration.
func (c *Client) newKinds() *kind.Kinds {
	k := &kind.Kinds{
		Encoder: wire.Encoder{Prefix: c.config.Prefix, Owner: c.config.Owner},
		Tells:   c.config.Owner != "" && !c.config.PlainRefusals,
		Nodes:   len(c.config.Nodes), FairLease: c.config.FairLease,
		Tokens: new(wire.Tokens), Tickets: pure.NewNumbers(time.Now()),
	}
	if c.config.Fenced {
		k.Numbers = kind.NewNumbers()
		k.Numbers.OnRenumber = func() { c.stats.renumbered.Add(1) }
	}
	return k.Complete()
}

// groupConfig returns the configuration of the group.
func (c *Client) groupConfig() (multiplex.Config, error) {
	config := c.config
	nodes, err := config.endpoints(prelude(config, c.kinds))
	if err != nil {
		return multiplex.Config{}, err
	}
	return multiplex.Config{
		Nodes:       nodes,
		VoteTimeout: config.NodeTimeout,
		ProbeAfter:  config.Connect.ProbeAfter,
		DriftFactor: config.DriftFactor,
		Cure:        wire.Cure(wire.Scripts(config.Fenced)),
		OnChange:    c.news.onChange(),
		MaxTTL:      config.MaxTTL,
		Seal:        wire.SealOf(config.Prefix),
		Durable:     config.durable(),
		LookBehind:  true,
		Allow:       config.Allow,
		Remarks:     remarks,
	}, nil
}

// waitForFirst waits for the first connections.
func (c *Client) waitForFirst(ctx context.Context) {
	first, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if c.group.WaitUp(first) != nil {
		return // the group keeps dialing the silent nodes
	}
	rest, cancel := context.WithTimeout(first, lastWait)
	defer cancel()
	_ = c.group.WaitTried(rest)
	_ = c.group.WaitSettled(rest, lastWait) // seals may still be written
}

// Ready waits until a quorum of nodes counts: they are up and not quarantined.
// If ctx ends first, the error is a CancelledError. It is also ErrNoQuorum, and
// names the cause of each missing node. ErrNoQuorum alone means that waiting
// cannot help (R31).
func (c *Client) Ready(ctx context.Context) error {
	c.called(ctx)
	p := patience{begun: time.Now()}
	for {
		err := c.readyWithin(ctx, readyGlance)
		var missing *multiplex.UndecidedError
		switch {
		case err == nil:
			c.stalls.over()
			return nil
		case !errors.As(err, &missing):
			return translate(err, nil)
		case ctx.Err() != nil:
			return cancelledError(ctx, &noQuorumError{nodes: missing})
		}
		if err := c.impatient(&p, missing); err != nil {
			return err
		}
	}
}

// readyGlance is how often Ready checks why it waits.
const readyGlance = 50 * time.Millisecond

// readyWithin calls the group's Ready for a limited time.
func (c *Client) readyWithin(ctx context.Context, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.group.Ready(limited)
}

// Close refuses new work, lets attempts in progress undo what they did, waits
// for the answers to releases up to the vote timeout, and then fails every
// waiting call with ErrClosed (R28). Held locks stay until their TTL ends.
// Config.ReleaseOnClose releases those of Hold and Do; their contexts end with
// ErrClosed in any case. Afterwards no goroutine and no connection is left,
// except after a Logger or Tracer that takes more than a second.
//
// ctx may have ended before the call: failed attempts are undone all the same.
// It cuts short only the wait for answers, and the error is then its own; Close
// outlasts it by 50 ms, or up to a few seconds where nodes or this process are
// slow. Further calls wait for the first.
func (c *Client) Close(ctx context.Context) error {
	c.called(ctx)
	c.refuse()
	c.group.Refuse() // other clients get what is released from now on
	c.keeper.wind(ctx)
	err := c.group.Close(ctx)
	c.keeper.halt()
	c.news.close(ctx)
	return err
}

// Held returns the holds of this client before their release, including those
// of Do, ordered by resource. HoldInfo.Err says why one has ended; its work may
// still run. Locks without a hold are not included. Held asks no node.
func (c *Client) Held() []HoldInfo {
	c.made()
	var all []HoldInfo
	for _, h := range c.keeper.kept() {
		err := h.Err()
		if err == ErrReleased {
			continue // the release is under way
		}
		all = append(all, HoldInfo{Resource: h.Resource(), Since: h.begun.at, Until: h.end(), Err: err})
	}
	slices.SortFunc(all, func(a, b HoldInfo) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), a.Since.Compare(b.Since))
	})
	return all
}

// Drain is the first step of a shutdown, before Close. From then on new locks
// are refused with ErrClosed, also to waiting callers. Drain waits for the
// release of every hold, and so for the work of every Do. Until then the holds
// are renewed as before, and the work under them can acquire more locks, with a
// context that comes from a hold's.
//
// If ctx ends first, the error is a CancelledError, and Held returns what is
// still held; to stop its work, cancel the work's context. After Close the
// error is ErrClosed. Drain cannot be undone.
func (c *Client) Drain(ctx context.Context) error {
	c.called(ctx)
	c.refuse()
	drained := c.keeper.drain()
	select {
	case <-drained:
		return nil // even if ctx has ended
	default:
	}
	select {
	case <-drained:
		return nil
	case <-c.group.Done():
		return ErrClosed
	case <-ctx.Done():
		return cancelledError(ctx, fmt.Errorf("redlock: %d holds are not released", len(c.Held())))
	}
}

// refuse makes the client refuse new locks from now on, except to the work
// under a hold.
func (c *Client) refuse() {
	if c.refusing.CompareAndSwap(false, true) {
		close(c.refused)
	}
}

// refuses reports whether a new lock is refused.
func (c *Client) refuses(ctx context.Context) bool {
	return c.refusing.Load() && c.outer(ctx) == nil
}

// over returns a channel, closed to end every wait for a lock.
func (c *Client) over(ctx context.Context) <-chan struct{} {
	if c.outer(ctx) != nil {
		return c.group.Done()
	}
	return c.refused
}

// Doors. A nil context, and a value that no function of this package has made,
// are mistakes of a program. They panic at the door, with a clear sentence, and
// not deep inside, where locks may already be held.

// must panics with a text unless ok.
func must(ok bool, text string) {
	if !ok {
		panic("redlock: " + text)
	}
}

const (
	noContext  = "the context is nil"
	noClient   = "a nil or zero Client: New and Open make one"
	noFunction = "the function is nil"
	noError    = "a nil error, which no function of this package returns"
	noHold     = "a nil or zero Hold: Client.Hold makes one"
)

// made is the door of methods without a context.
func (c *Client) made() { must(c != nil && c.config != nil, noClient) }

// called is the door of methods with one.
func (c *Client) called(ctx context.Context) {
	c.made()
	must(ctx != nil, noContext)
}

func (h *Hold) made() { must(h != nil && h.client != nil, noHold) }

// With too few nodes that count, a waiting call reports this stall. It ends if
// waiting cannot help (R31).

const (
	// reportAfter is the time without a quorum before a call reports its stall.
	// After a connection breaks, the next is usually up sooner.
	reportAfter = 500 * time.Millisecond
	// reportEvery is how long one report covers all calls of the client without
	// a quorum. reportLeast is the least time between two reports, even if
	// there was a quorum in between.
	reportEvery = time.Minute
	reportLeast = 5 * time.Second
)

// A patience is what one waiting call knows of its missing quorum. The
// goroutine of the call owns it.
type patience struct {
	begun    time.Time // of the call
	stalled  time.Time // since when it finds no quorum; zero while it does
	reported bool
}

// stalls is what all waiting calls of a client share.
type stalls struct {
	// open is set from a report until a quorum counts again. An attempt with a
	// quorum reads it without the mutex.
	open atomic.Bool

	mu sync.Mutex // guards the following
	at time.Time  // of the last report
}

// over records an answer by a quorum.
func (s *stalls) over() {
	if s.open.Load() {
		s.open.Store(false)
	}
}

// due reports whether this call must report its stall. covered means that
// another report stands for it.
func (s *stalls) due(now time.Time) (due, covered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := now.Sub(s.at)
	switch {
	case s.at.IsZero():
	case s.open.Load() && since < reportEvery:
		return false, true
	case since < reportLeast:
		return false, false // nodes come and go: a report is due soon
	}
	s.open.Store(true)
	s.at = now
	return true, false
}

// impatient is called before a waiting call repeats an attempt, and by Ready.
// It reports a stall to the log. It returns an error if the nodes without a
// lasting cause are no quorum: waiting cannot help (R31). Only causes found
// since the call began count.
func (c *Client) impatient(p *patience, err error) error {
	var missing *multiplex.UndecidedError
	if isHeld(err) || !errors.As(err, &missing) {
		p.stalled = time.Time{}
		return nil
	}
	nodes := len(c.config.Nodes)
	now := time.Now()
	if p.stalled.IsZero() {
		p.stalled = now
	}
	if missing.Lasting(p.begun, now.Sub(p.stalled)) > nodes-multiplex.Quorum(nodes) {
		return &noQuorumError{nodes: missing, lasting: true}
	}
	if p.reported || now.Sub(p.stalled) < reportAfter {
		return nil
	}
	due, covered := c.stalls.due(now)
	p.reported = due || covered
	if due {
		c.warn("redlock: waiting, since too few nodes count", timeAttr("waited", now.Sub(p.begun)), slog.Int("nodes", nodes),
			slog.Int("quorum", multiplex.Quorum(nodes)), slog.Int("missing", len(missing.Nodes)), errorAttr(missing))
	}
	return nil
}
