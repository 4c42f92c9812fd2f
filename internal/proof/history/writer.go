package history

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A Writer writes events as lines. Its methods may be called by several goroutines at once and allocate nothing. Lines of
// one goroutine stand in the order of its calls; those of several are put in order by their times, when they are read.
//
// An error of writing is kept and returned by Close; nothing is written after it.
type Writer struct {
	clock Clock
	file  io.Closer // nil where it is another's

	mu      sync.Mutex // guards the following
	w       *bufio.Writer
	scratch []byte // of the line that is being made
	each    bool   // every line is written at once
	closed  bool
}

// bufferSize is large, so that callers seldom wait for a file.
const bufferSize = 1 << 20

// Create replaces the file of that name. Its lines are written a megabyte at a time.
func Create(name string) (*Writer, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	w := NewWriter(file, true)
	w.file = file
	return w, nil
}

// NewWriter writes to another's writer. Without a buffer every line is one call of Write, before the call that noted it
// returns: what a process has noted is then known even if it is killed.
func NewWriter(to io.Writer, buffered bool) *Writer {
	return &Writer{clock: NewClock(), w: bufio.NewWriterSize(to, bufferSize), each: !buffered}
}

// Clock is the clock of Note.
func (w *Writer) Clock() Clock { return w.clock }

// Note writes an event of this moment. The token, which may be nil, is digested. Until may be zero.
func (w *Writer) Note(kind Kind, client int, resource string, attempt uint64, token []byte, until time.Time) {
	w.NoteAt(w.clock.Now(), kind, client, resource, attempt, token, until)
}

// NoteAt is Note for a moment that was read before: the time of a grant is that of the call's return, and not of the note.
func (w *Writer) NoteAt(t int64, kind Kind, client int, resource string, attempt uint64, token []byte, until time.Time) {
	e := Event{T: t, Client: client, Resource: resource, Attempt: attempt, Ev: kind}
	if !until.IsZero() {
		e.Until = w.clock.At(until)
	}
	var digits [2 * digestBytes]byte
	if token != nil {
		digits = Digest(token)
		e.Token = string(digits[:])
	}
	w.Add(e)
}

// Add writes an event as it is.
func (w *Writer) Add(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scratch = e.AppendLine(w.scratch[:0])
	w.put(w.scratch)
}

// AddLine writes a line that AppendLine made in the caller's own buffer, which it does not keep. It is for those to whom it
// matters that only the writing is done under the lock.
func (w *Writer) AddLine(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(line)
}

// put is called with the lock held.
func (w *Writer) put(line []byte) {
	if w.closed {
		return
	}
	_, _ = w.w.Write(line) // the buffer keeps an error until Close
	if w.each {
		_ = w.w.Flush()
	}
}

// Close writes what is buffered, closes the file if Create opened it, and reports whether all could be written. What is
// noted afterwards is dropped.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	err := w.w.Flush()
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	return err
}
