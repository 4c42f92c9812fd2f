package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/cmd/internal/printable"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// A quorum of masters must count before there can be a lock. Masters that were
// just started, or have restarted, are reached at once and count later (R23,
// R29).

// ready waits until a quorum of nodes counts, for at most --timeout since the
// nodes were first asked. Its error names the cause of each missing node.
func (d *deployment) ready(ctx context.Context, client *redlock.Client) error {
	limited, cancel := context.WithDeadline(ctx, d.begun().Add(d.Timeout))
	defer cancel()
	return readyWithin(ctx, limited, client)
}

// readyLater is ready, but if a quorum is up and only has to be waited for, it
// does that until ctx ends. If masters that were just started are opened at the
// end of that, the opening has a --timeout of its own.
func (d *deployment) readyLater(ctx context.Context, client *redlock.Client) error {
	err := d.ready(ctx, client)
	waited := false
	for ctx.Err() == nil && (willCount(err) || waited && errors.Is(err, redlock.ErrUnopened)) {
		waited = willCount(err)
		limited, cancel := context.WithTimeout(ctx, d.Timeout)
		err = readyWithin(ctx, limited, client)
		cancel()
	}
	return err
}

// readyNow is ready, but returns as soon as too many nodes cannot count at once
// for a quorum: --nonblock waits neither for nodes to come back nor for the end
// of a quarantine.
func (d *deployment) readyNow(ctx context.Context, client *redlock.Client) error {
	glance, cancel := context.WithCancel(ctx)
	cancel()
	until := d.begun().Add(d.Timeout)
	for {
		err := readyWithin(ctx, glance, client)
		if err == nil || ctx.Err() != nil || noQuorumLeft(err) || time.Now().After(until) {
			return err
		}
		pause(ctx, readyLook)
	}
}

// readyLook is how often readyNow reads the state of the nodes.
const readyLook = 2 * time.Millisecond

// readyWithin is the client's Ready until limited ends, which ctx ends too. Its
// error is the last cause, unless there was none or ctx was interrupted.
func readyWithin(ctx, limited context.Context, client *redlock.Client) error {
	err := client.Ready(limited)
	if interrupted := interrupted(ctx); interrupted != nil {
		return err
	}
	if cancelled := (*redlock.CancelledError)(nil); errors.As(err, &cancelled) && cancelled.Last != nil {
		return cancelled.Last // it says more than our timeout
	}
	return err
}

// willCount reports whether waiting gives a quorum, by an error of Ready: the
// nodes that count already and those in quarantine are one.
func willCount(err error) bool {
	missing := (*redlock.UndecidedError)(nil)
	if !errors.As(err, &missing) {
		return false
	}
	lost := 0
	for _, n := range missing.Nodes {
		if !errors.Is(n.Err, redlock.ErrQuarantined) {
			lost++
		}
	}
	return missing.Of-lost >= multiplex.Quorum(missing.Of)
}

// noQuorumLeft reports whether so many nodes have failed, by an error of Ready,
// that the others are no quorum. A node in its first attempt to connect has not
// failed. Nor has one whose deployment is being opened, unless another has
// failed: that needs all nodes.
func noQuorumLeft(err error) bool {
	missing := (*redlock.UndecidedError)(nil)
	if !errors.As(err, &missing) {
		return false
	}
	failed, unopened := 0, 0
	for _, n := range missing.Nodes {
		switch {
		case errors.Is(n.Err, redlock.ErrUnopened):
			unopened++
		case !errors.Is(n.Err, multiplex.ErrConnecting):
			failed++
		}
	}
	if failed > 0 && len(missing.Nodes) == missing.Of {
		failed += unopened
	}
	return missing.Of-failed < multiplex.Quorum(missing.Of)
}

// A stallReporter prints the first record in which the library reports that
// calls wait because too few nodes count (R31), or that Init waits, in one line.
// It ignores all others.
type stallReporter struct {
	slog.Handler // for its other methods

	mu   sync.Mutex // guards the following
	out  io.Writer
	done bool
}

func newStallReporter(out io.Writer) *stallReporter {
	return &stallReporter{Handler: slog.DiscardHandler, out: out}
}

// stalled is how the message of such a record begins.
const stalled = "redlock: waiting"

// Enabled is called by package slog.
func (*stallReporter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle is called by package slog.
func (r *stallReporter) Handle(_ context.Context, record slog.Record) error {
	if !strings.HasPrefix(record.Message, stalled) {
		return nil
	}
	why := ""
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "left" {
			why = a.Value.String()
		}
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	r.done = true
	text := record.Message + ": " + strings.TrimPrefix(why, multiplex.ErrUndecided.Error()+": ")
	_, err := fmt.Fprintln(r.out, printable.Line(text, maxLine))
	return err
}
