package redlock

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/multiplex"
)

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
