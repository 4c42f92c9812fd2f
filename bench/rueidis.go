package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/redlock"
)

// RueidisConfig configures a [Rueidis].
type RueidisConfig struct {
	// Nodes are the URLs of the masters, as for redlock.Config.
	Nodes []string
	// Username and Password are used if a URL names none.
	Username, Password string
	// WaitAll makes every call wait for all nodes. If false, a call returns
	// as soon as its outcome is decided.
	WaitAll bool
	// Tune changes the options of each node's client. If nil, they are
	// rueidis's defaults; see [RueidisTuned].
	Tune func(*rueidis.ClientOption)
	// Dial connects to a node by another library than rueidis, so that the
	// same Redlock can be measured on it; Tune then means nothing. If nil,
	// rueidis.
	Dial func(conn.Endpoint) (Node, error)
	// NodeTimeout is the vote timeout of a node. If zero, a tenth of the TTL:
	// the longest that R6 allows, so that queueing in the client costs the
	// baseline no votes.
	NodeTimeout time.Duration
	// DriftFactor is the relative part of the drift. If zero, 0.01.
	DriftFactor float64
}

// Format prints a constant for every verb: the URLs and the fields may have
// passwords (R27).
func (RueidisConfig) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(rueidis)") }

// Format prints a constant for every verb: the tokens to come are secret (R27).
func (*Rueidis) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(rueidis)") }

// RueidisTuned sets the options with which rueidis was fastest in this work:
// one connection per node, so that all commands share its batches; a pause of
// 100 µs after each flush, so that a batch has time to gather; and no
// client-side caching, which is on by default and costs the servers 5 to 15 %
// here, where nothing is cached. Over TCP with 128 callers and five nodes,
// these options double or triple the pairs per second of the defaults.
// AlwaysPipelining, larger rings and Nagle's algorithm added nothing.
func RueidisTuned(o *rueidis.ClientOption) {
	o.DisableCache = true
	o.PipelineMultiplex = -1
	o.MaxFlushDelay = 100 * time.Microsecond
}

// Rueidis is a Redlock on one rueidis client per master. It is safe for
// concurrent use.
type Rueidis struct {
	nodes       []peer
	quorum      int
	waitAll     bool
	nodeTimeout time.Duration
	driftFactor float64

	tokens Tokens
	rounds sync.Pool
	lastMS atomic.Pointer[ttlText]
	pace   Pace
	busy   atomic.Int64 // rounds with goroutines at work
}

type peer struct {
	addr string
	node Node
}

// ttlText is a TTL with its decimal form: most callers use a single TTL.
type ttlText struct {
	ttl  time.Duration
	text string
}

var errVoteTimeout = errors.New("vote timed out")

// OpenRueidis connects to every node and waits for each first attempt. An
// unreachable node is no error; its votes fail until it can be reached.
func OpenRueidis(cfg RueidisConfig) (*Rueidis, error) {
	n := len(cfg.Nodes)
	if n == 0 {
		return nil, errors.New("bench: no nodes")
	}
	l := &Rueidis{
		nodes:       make([]peer, n),
		quorum:      n/2 + 1,
		waitAll:     cfg.WaitAll,
		nodeTimeout: cfg.NodeTimeout,
		driftFactor: cfg.DriftFactor,
	}
	if l.driftFactor == 0 {
		l.driftFactor = defaultDrift
	}
	l.rounds.New = func() any { return newRound(l) }
	endpoints := make([]conn.Endpoint, n)
	for i, raw := range cfg.Nodes {
		var err error
		if endpoints[i], err = cfg.endpoint(raw); err != nil {
			return nil, err
		}
	}
	dial := cfg.Dial
	if dial == nil {
		dial = cfg.dialRueidis
	}
	errs := make([]error, n)
	var dials sync.WaitGroup
	for i, e := range endpoints {
		l.nodes[i].addr = e.Addr
		dials.Go(func() { l.nodes[i].node, errs[i] = dial(e) })
	}
	dials.Wait()
	for i, err := range errs {
		if err != nil {
			l.closeNodes()
			return nil, fmt.Errorf("bench: node %d: %w", i+1, err)
		}
	}
	return l, nil
}

// endpoint reads a URL as redlock does, not as a library would (rueidis knows
// other parameters and refuses a path of "/"), so that a URL means the same to
// both sides. Its errors show no part of a password (R27).
func (cfg *RueidisConfig) endpoint(raw string) (conn.Endpoint, error) {
	e, err := conn.ParseURL(raw)
	if err == nil && e.Password == "" { // the same rule as in redlock
		e.Username, e.Password = cfg.Username, cfg.Password
	}
	return e, err
}

// TryAcquire makes one attempt. It returns as soon as the outcome is decided,
// or, with WaitAll, when every node has answered, but no later than the vote
// timeout and the end of ctx. After a failed attempt, the release is on its way
// to every node when TryAcquire returns (R7).
func (l *Rueidis) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (RueidisLease, error) {
	if err := ctx.Err(); err != nil {
		return RueidisLease{}, err
	}
	start := time.Now() // before the first byte is queued (R4)
	ttl = ttl.Truncate(time.Millisecond)
	timeout := l.voteTimeout(ttl)
	r := l.rounds.Get().(*round)
	r.resource, r.token, r.ttl = resource, l.tokens.Next(), l.milliseconds(ttl)
	r.holders.Store(1) // this call, and then the lease
	r.set()
	r.await(ctx, r.setsIn, timeout)

	c := r.sets.counts()
	if c.granted < l.quorum {
		err := l.refusal(ctx, r, c)
		r.release()
		r.drop()
		return RueidisLease{}, err
	}
	lease := RueidisLease{round: r, number: r.lease.Load(), resource: resource, timeout: timeout}
	copy(lease.token[:], r.token)
	now := time.Now()
	l.pace.Observe(now.Sub(start))
	left := validity(ttl, elapsed(start, now), l.driftFactor)
	if left <= 0 {
		r.release()
		r.drop()
		return RueidisLease{}, redlock.ErrExpired
	}
	lease.until = now.Add(left)
	return lease, nil
}

// refusal returns the outcome of an attempt that found no quorum (R12), at the
// moment of the decision. If the votes decided nothing, ctx or the vote timeout
// did: then nodes that have not answered count as failed.
func (l *Rueidis) refusal(ctx context.Context, r *round, c counts) error {
	n := len(l.nodes)
	blocking := n - l.quorum + 1
	undecided := c.refused+c.failed < blocking
	switch {
	case undecided && ctx.Err() != nil:
		return ctx.Err()
	case undecided:
		c.failed = n - c.granted - c.refused
	}
	if c.failed < blocking {
		return redlock.ErrHeld
	}
	e := &RueidisError{}
	for i := range r.parts {
		p := &r.parts[i]
		switch cause := p.cause.Load(); {
		case cause != nil:
			e.Causes = append(e.Causes, fmt.Errorf("%s: %w", l.nodes[i].addr, *cause))
		case undecided && p.state.Load() == setting:
			e.Causes = append(e.Causes, fmt.Errorf("%s: %w", l.nodes[i].addr, errVoteTimeout))
		}
	}
	return e
}

// Close waits until no release is in flight or ctx ends, then closes the
// clients. It does not release held locks.
func (l *Rueidis) Close(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for l.busy.Load() > 0 && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	l.closeNodes()
	return ctx.Err()
}

// closeNodes closes all nodes at once: each may wait for its own.
func (l *Rueidis) closeNodes() {
	var closing sync.WaitGroup
	for _, p := range l.nodes {
		if p.node != nil {
			closing.Go(p.node.Close)
		}
	}
	closing.Wait()
}

// voteTimeout returns NodeTimeout or its default.
func (l *Rueidis) voteTimeout(ttl time.Duration) time.Duration {
	if l.nodeTimeout > 0 {
		return l.nodeTimeout
	}
	return ttl / 10
}

// milliseconds returns the TTL as SET wants it. It keeps the text of the last
// TTL: formatting it each time would cost the baseline an allocation per pair.
func (l *Rueidis) milliseconds(ttl time.Duration) string {
	if last := l.lastMS.Load(); last != nil && last.ttl == ttl {
		return last.text
	}
	text := strconv.FormatInt(ttl.Milliseconds(), 10)
	l.lastMS.Store(&ttlText{ttl, text})
	return text
}

// RueidisError is redlock.ErrNoQuorum with the causes of the failed nodes.
type RueidisError struct{ Causes []error }

// Error lists the causes, one a line, as errors.Join does.
func (e *RueidisError) Error() string {
	return redlock.ErrNoQuorum.Error() + ": " + errors.Join(e.Causes...).Error()
}

// Unwrap returns redlock.ErrNoQuorum and the causes.
func (e *RueidisError) Unwrap() []error {
	return append([]error{redlock.ErrNoQuorum}, e.Causes...)
}
