package main

import (
	"time"

	records "github.com/redmux/redmux/internal/proof/history"
	"github.com/redmux/redmux/redlock"
)

// event is what a history line tells of.
type event = records.Kind

// Extensions are not made yet, so "extend" does not occur.
const (
	evStart    = records.Start
	evGrant    = records.Grant // written after the call returned
	evHeld     = records.Held
	evNoQuorum = records.NoQuorum
	evExpired  = records.Expired
	evCancel   = records.Cancel
	evError    = records.Error
	evLost     = records.Lost    // a release found that the lock was no longer ours
	evRelease  = records.Release // written before the call
	evReleased = records.Released
)

// history writes one JSON line per event, for a checker to read. Lines of one
// caller stand in order; those of several are put in order by their times. A
// nil history is one that nobody asked for.
type history struct {
	clock clock
	file  *records.Writer
}

// createHistory replaces the file of that name.
func createHistory(name string, c clock) (*history, error) {
	file, err := records.Create(name)
	if err != nil {
		return nil, err
	}
	return &history{clock: c, file: file}, nil
}

// entry is one line.
type entry struct {
	at       time.Duration
	client   int
	resource string
	attempt  int64
	event    event
	token    *redlock.Token // nil where there is none
	until    time.Duration  // 0 where there is none
}

// write appends a line that was made in the caller's own buffer, which it does not
// keep: only the writing is done under a lock that callers share.
func (h *history) write(line []byte) { h.file.AddLine(line) }

// append makes a line on the clock that processes share.
func (h *history) append(b []byte, e entry) []byte {
	line := records.Event{
		T:        h.clock.system(e.at),
		Client:   e.client,
		Resource: e.resource,
		Attempt:  uint64(e.attempt),
		Ev:       e.event,
	}
	if e.until != 0 {
		line.Until = h.clock.system(e.until)
	}
	if e.token == nil {
		return line.AppendLine(b)
	}
	// A part of a hash tells tokens apart and gives none away (R27).
	digits := records.Digest(e.token[:])
	line.Token = string(digits[:])
	return line.AppendLine(b)
}

// close writes what is buffered and reports whether all could be written.
func (h *history) close() error {
	if h == nil {
		return nil
	}
	return h.file.Close()
}
