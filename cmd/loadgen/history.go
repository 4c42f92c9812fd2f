package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
)

// event is what a history line tells of.
type event string

// Extensions are not made yet, so "extend" does not occur.
const (
	evStart    event = "start"
	evGrant    event = "grant" // written after the call returned
	evHeld     event = "held"
	evNoQuorum event = "noquorum"
	evExpired  event = "expired"
	evCancel   event = "cancel"
	evError    event = "error"
	evLost     event = "lost"    // a release found that the lock was no longer ours
	evRelease  event = "release" // written before the call
	evReleased event = "released"
)

// history writes one JSON line per event, for a checker to read. Lines of one
// caller stand in order; those of several are put in order by their times. A
// nil history is one that nobody asked for.
type history struct {
	clock clock
	file  *os.File
	mu    sync.Mutex // guards the following
	w     *bufio.Writer
}

// createHistory replaces the file of that name. The buffer is large, so that
// callers seldom wait for the file.
func createHistory(name string, c clock) (*history, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &history{clock: c, file: file, w: bufio.NewWriterSize(file, 1<<20)}, nil
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
// keep.
func (h *history) write(line []byte) {
	h.mu.Lock()
	h.w.Write(line) // an error stays in the writer until close
	h.mu.Unlock()
}

// append makes a line by hand: encoding/json would cost more than a lock does, and
// the callers whose turns are to be shown would take them in another order.
func (h *history) append(b []byte, e entry) []byte {
	b = append(b, `{"t":`...)
	b = strconv.AppendInt(b, h.clock.system(e.at), 10)
	b = append(b, `,"client":`...)
	b = strconv.AppendInt(b, int64(e.client), 10)
	b = append(b, `,"resource":`...)
	b = appendJSONString(b, e.resource)
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, e.attempt, 10)
	b = append(b, `,"ev":"`...)
	b = append(b, e.event...)
	b = append(b, '"')
	if e.token != nil {
		// A part of a hash tells tokens apart and gives none away (R27).
		sum := sha256.Sum256(e.token[:])
		b = append(b, `,"token":"`...)
		b = hex.AppendEncode(b, sum[:4])
		b = append(b, '"')
	}
	if e.until != 0 {
		b = append(b, `,"until":`...)
		b = strconv.AppendInt(b, h.clock.system(e.until), 10)
	}
	return append(b, "}\n"...)
}

// appendJSONString quotes s. Resources are named here, of plain characters and
// the prefix from the command line.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}

// close writes what is buffered and reports whether all could be written.
func (h *history) close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.w.Flush(), h.file.Close())
}
