package load

import (
	"time"

	records "github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// event is the kind of a history line.
type event = records.Kind

// loadgen does not extend locks, so "extend" does not occur.
const (
	evStart    = records.Start
	evGrant    = records.Grant // recorded after the call returned
	evHeld     = records.Held
	evNoQuorum = records.NoQuorum
	evExpired  = records.Expired
	evCancel   = records.Cancel
	evError    = records.Error
	evLost     = records.Lost    // a release found that the lock was lost
	evRelease  = records.Release // recorded before the call
	evReleased = records.Released
)

// history writes one JSON line per event, for checkhistory. Lines of one caller
// are in order; those of several are put in order by their times. A nil history
// writes nothing.
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
	token    *redlock.Token // nil if there is none
	until    time.Duration  // 0 if there is none
	fence    uint64         // 0 if there is none
	form     records.Form
	permits  int // of a semaphore
}

// write appends a line from the caller's own buffer, which it does not keep:
// only the writing happens under a lock that callers share.
func (h *history) write(line []byte) { h.file.AddLine(line) }

// append encodes a line, with times on the clock that processes share.
func (h *history) append(b []byte, e entry) []byte {
	line := records.Event{
		T:        h.clock.system(e.at),
		Client:   e.client,
		Resource: e.resource,
		Attempt:  uint64(e.attempt),
		Ev:       e.event,
		Fence:    e.fence,
		Form:     e.form,
		Permits:  e.permits,
	}
	if e.until != 0 {
		line.Until = h.clock.system(e.until)
	}
	if e.token == nil {
		return line.AppendLine(b)
	}
	// A part of the hash tells tokens apart and reveals none (R27).
	digits := records.Digest(e.token[:])
	line.Token = string(digits[:])
	return line.AppendLine(b)
}

// close flushes the buffer and reports whether all lines were written.
func (h *history) close() error {
	if h == nil {
		return nil
	}
	return h.file.Close()
}
